//! Ctrl-C.

use rustix::process::Signal;

use super::{assert_works, cluster, delete_without_trace};
use crate::lab::Running;

#[test]
#[ignore = "needs root and a bundle"]
fn ctrl_c_ends_a_start_and_says_how_to_go_on() {
    let (cluster, before) = cluster("ctrl-c");
    let mut start = Running::start(&mut cluster.command(&["start"]));
    assert!(start.wait_for_step(&format!("api/{}", cluster.name)));
    start.signal(Signal::INT);
    let (status, last) = start.finish();
    assert_eq!(status, 130, "{last}");
    assert!(last["data"]["advice"].as_str().unwrap().contains("run the same command again"), "{last}");

    cluster.start(&[]);
    assert_works(&cluster, "sleeper");
    delete_without_trace(&cluster, &before, "an interrupted start");
}

#[test]
#[ignore = "needs root and a bundle"]
fn the_second_signal_ends_it_at_once() {
    let (cluster, before) = cluster("ctrl-c-twice");
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
    delete_without_trace(&cluster, &before, "a start that was ended by a second signal");
}
