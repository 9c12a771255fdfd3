//! `delete`, whatever state the cluster is in.

use std::fs;

use super::{cluster, delete_without_trace, kernel, said};
use crate::lab::{At, Cluster, kill_at};

/// As far as needed for something to run in the node. Killed then, so that it is quick.
fn start_halfway(cluster: &Cluster) {
    assert!(kill_at(cluster, &["start"], At::Within("api/NAME", 800)));
}

pub(crate) fn delete_leaves_nothing_of_a_running_a_stopped_and_a_failed_cluster() {
    let (cluster, before) = cluster("delete");
    cluster.start(&[]);
    delete_without_trace(&cluster, &before, "a running cluster");

    let failed = cluster.run(&["start", "--wait", "all", "--wait-timeout", "1s"]);
    assert!(!failed.status.success(), "nothing is as fast: {}", said(&failed));
    delete_without_trace(&cluster, &before, "a failed start");

    start_halfway(&cluster);
    cluster.succeed(&["stop"]);
    delete_without_trace(&cluster, &before, "a stopped cluster");
    delete_without_trace(&cluster, &before, "a cluster that is not there");
}

pub(crate) fn delete_needs_no_more_than_the_name() {
    let (cluster, before) = cluster("damaged");
    let damages: [(&str, &dyn Fn()); 3] = [
        ("a missing state", &|| fs::remove_file(cluster.state().join("state.json")).unwrap()),
        ("a state that is garbage", &|| fs::write(cluster.state().join("state.json"), "[]").unwrap()),
        ("a state directory that is gone", &|| {
            // What runs in the node may make files while we remove others.
            let removed = (0..1000).any(|_| {
                drop(fs::remove_dir_all(cluster.state()));
                !cluster.state().exists()
            });
            assert!(removed, "files are made faster than they can be removed");
        }),
    ];
    for (what, damage) in damages {
        start_halfway(&cluster);
        damage();
        assert!(!kernel::processes(&cluster).is_empty(), "nothing ran");
        delete_without_trace(&cluster, &before, what);
    }
}
