//! Ctrl-C.

use rustix::process::Signal;

use crate::lab::{Cluster, Running};

pub(super) fn ctrl_c_ends_a_start_and_says_how_to_go_on(cluster: &Cluster) {
    let mut start = Running::start(&mut cluster.command(&["start"]));
    assert!(start.wait_for_step(&format!("api/{}", cluster.name)));
    start.signal(Signal::INT);
    let (status, last) = start.finish();
    assert_eq!(status, 130, "{last}");
    assert!(last["data"]["advice"].as_str().unwrap().contains("again"), "{last}");
    cluster.start(&[]);
}

pub(super) fn the_second_signal_ends_it_at_once(cluster: &Cluster) {
    let mut start = Running::start(&mut cluster.command(&["start"]));
    assert!(start.wait_for_step(&format!("api/{}", cluster.name)));
    // Two of a kind that come together are one (signal(7)).
    start.paused(|| {
        start.signal(Signal::INT);
        start.signal(Signal::TERM);
    });
    let (status, last) = start.finish();
    assert!([130, 143].contains(&status), "{status}: {last}");
    assert_ne!(last["type"], "io.k8s.sigs.minikube.error", "it said good-bye: {last}");
}
