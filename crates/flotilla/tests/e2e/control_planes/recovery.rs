//! A majority that is lost for good, and what a snapshot brings back.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::writer::written;
use super::{Writer, control_planes};
use super::{etcd, refs, three_running};
use crate::faults::{kernel, said};
use crate::lab::{At, Cluster, kill_at};
use crate::nodes::fleet;

pub(super) fn a_snapshot_brings_back_what_was_deleted(cluster: &Cluster) {
    let three = three_running(cluster);
    let file = cluster.kubeconfig().with_file_name("etcd.snapshot");
    let path = file.to_str().unwrap();
    cluster.kubectl(&["create", "configmap", "kept", "--from-literal=it=is"]);
    cluster.succeed(&["etcd", "snapshot", "save", path]);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let again = cluster.run(&["etcd", "snapshot", "save", path]);
    assert!(!again.status.success() && said(&again).contains("--force"), "{}", said(&again));
    cluster.succeed(&["etcd", "snapshot", "save", path, "--force"]);

    cluster.kubectl(&["delete", "configmap", "kept"]);
    cluster.kubectl(&["create", "configmap", "later", "--from-literal=it=is-not"]);
    let asked = cluster.run(&["etcd", "snapshot", "restore", path]);
    assert_eq!(asked.status.code(), Some(14), "nobody was there to ask: {}", said(&asked));
    cluster.kubectl(&["get", "configmap", "later"]);

    let restore = ["etcd", "snapshot", "restore", path, "--yes"];
    let step = &*format!("restore/{}", control_planes(cluster)[0]).leak();
    assert!(kill_at(cluster, &restore, At::Within(step, 3000)));
    cluster.succeed(&restore);
    assert_eq!(cluster.field(&["configmap", "kept"], "{.data.it}"), "is");
    assert!(cluster.try_kubectl(&["get", "configmap", "later"]).is_err());
    etcd::assert_members(cluster, &refs(&three));
    assert_well(cluster);
    Writer::begin(cluster).end(cluster);
}

/// Two are destroyed, the primary among them, disk and all.
pub(super) fn a_lost_majority_is_recovered(cluster: &Cluster) {
    let [first, second, third] = three_running(cluster);
    let before = written(cluster);
    assert!(!before.is_empty());
    let refused = cluster.run(&["recover", "--yes"]);
    assert!(!refused.status.success(), "nothing is lost: {}", said(&refused));
    assert!(said(&refused).contains("GUEST_HAS_MAJORITY"), "{}", said(&refused));
    for node in [&first, &second] {
        kernel::destroy(cluster, node);
    }
    let told = said(&cluster.run(&["etcd", "status"]));
    assert!(told.contains("1 of 3"), "{told}");

    let asked = cluster.run(&["recover"]);
    assert_eq!(asked.status.code(), Some(14), "nobody was there to ask: {}", said(&asked));
    let step = &*format!("restore/{third}").leak();
    assert!(kill_at(cluster, &["recover", "--yes"], At::Within(step, 300)));
    cluster.succeed(&["recover", "--yes"]);
    // Once more, as after a kill in the last moment.
    let again = cluster.succeed(&["recover", "--yes"]);
    assert!(again.contains("has begun anew already"), "{again}");
    let there = written(cluster);
    assert!(before.is_subset(&there), "{} were there, {} are", before.len(), there.len());
    etcd::assert_members(cluster, &[&third]);

    // What was lost is made anew by what makes everything.
    cluster.start(&[]);
    let mut all = control_planes(cluster);
    all.sort();
    let mut wanted = vec![first, second, third];
    wanted.sort();
    assert_eq!(all, wanted);
    etcd::assert_members(cluster, &refs(&all));
    assert_well(cluster);
    Writer::begin(cluster).end(cluster);
}

/// The same two are destroyed, and something was written since the snapshot.
pub(super) fn what_a_snapshot_has_is_recovered(cluster: &Cluster) {
    let three = three_running(cluster);
    let before = written(cluster);
    let file = cluster.kubeconfig().with_file_name("later.snapshot");
    let path = file.to_str().unwrap();
    cluster.succeed(&["etcd", "snapshot", "save", path]);
    cluster.kubectl(&["create", "configmap", "too-late", "--from-literal=it=is-not"]);
    for node in &three[..2] {
        kernel::destroy(cluster, node);
    }
    cluster.succeed(&["recover", "--yes", "--from", path]);
    assert!(before.is_subset(&written(cluster)));
    assert!(cluster.try_kubectl(&["get", "configmap", "too-late"]).is_err());
    etcd::assert_members(cluster, &[&three[2]]);
}

/// Every node is Ready, and new pods run.
fn assert_well(cluster: &Cluster) {
    for node in fleet::names(cluster) {
        cluster.wait_for("condition=Ready", &["node", &node]);
    }
    fleet::deploy(cluster, "after", 2, "");
    cluster.wait_for("condition=Available", &["deployment/after"]);
    fleet::undeploy(cluster, "after");
}
