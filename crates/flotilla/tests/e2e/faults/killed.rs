//! SIGKILL at every step: what is half done is finished by the next command.

use super::{assert_works, cluster, delete_without_trace};
use crate::lab::{At, kill_at};

/// Every beginning and end, in the order in which a first start has them.
const START: [At; 12] = [
    At::Beginning("network"),
    At::End("network"),
    At::Beginning("machine/NAME"),
    At::Within("machine/NAME", 20),
    At::End("machine/NAME"),
    At::Beginning("api/NAME"),
    At::End("api/NAME"),
    At::Beginning("complete"),
    At::Beginning("kubeconfig"),
    At::End("kubeconfig"),
    At::End("complete"),
    At::Beginning("wait"),
];

#[test]
#[ignore = "needs root and a bundle"]
fn killed_at_one_step_after_the_other_start_gets_to_its_end() {
    let (cluster, before) = cluster("kill-steps");
    for at in START {
        // A step that was nearly done may have been finished in the moment before the kill.
        kill_at(&cluster, &["start"], at);
    }
    cluster.start(&[]);
    assert_works(&cluster, "sleeper");
    assert!(cluster.start(&[]).contains("nothing to do"));
    delete_without_trace(&cluster, &before, "a start that was killed at every step");
}

#[test]
#[ignore = "needs root and a bundle"]
fn killed_in_the_middle_of_a_step_the_next_start_finishes() {
    let (cluster, before) = cluster("kill-middle");
    for at in [At::Within("api/NAME", 200), At::Within("api/NAME", 1500), At::Within("complete", 300)] {
        assert!(kill_at(&cluster, &["start"], at), "the start ended before {at:?}");
        cluster.start(&[]);
        assert_works(&cluster, "sleeper");
        delete_without_trace(&cluster, &before, &format!("a start that was killed at {at:?}"));
    }
}

#[test]
#[ignore = "needs root and a bundle"]
fn killed_at_any_step_delete_leaves_nothing() {
    let (cluster, before) = cluster("kill-delete");
    let within = [At::Within("api/NAME", 100), At::Within("api/NAME", 1000), At::Within("complete", 200)];
    for at in START.into_iter().chain(within) {
        assert!(kill_at(&cluster, &["start"], at), "the start ended before {at:?}");
        delete_without_trace(&cluster, &before, &format!("a start that was killed at {at:?}"));
    }
}

#[test]
#[ignore = "needs root and a bundle"]
fn a_killed_delete_is_finished_by_the_next() {
    let (cluster, before) = cluster("kill-twice");
    for at in [
        At::Beginning("unpublish"),
        At::Beginning("remove"),
        At::Within("remove", 30),
        At::Within("remove", 150),
        At::End("remove"),
        At::Beginning("forget"),
    ] {
        assert!(kill_at(&cluster, &["start"], At::End("kubeconfig")));
        assert!(kill_at(&cluster, &["delete"], at), "the delete ended before {at:?}");
        delete_without_trace(&cluster, &before, &format!("a delete that was killed at {at:?}"));
    }
}

#[test]
#[ignore = "needs root and a bundle"]
fn after_a_killed_stop_start_brings_everything_back() {
    let (cluster, before) = cluster("kill-stop");
    cluster.start(&[]);
    for (number, at) in [
        At::Beginning("stop/NAME"),
        At::Within("stop/NAME", 50),
        At::Within("stop/NAME", 400),
        At::End("stop/NAME"),
    ]
    .into_iter()
    .enumerate()
    {
        assert!(kill_at(&cluster, &["stop"], at), "the stop ended before {at:?}");
        cluster.start(&[]);
        assert_works(&cluster, &format!("sleeper-{number}"));
        let status = cluster.run(&["status"]);
        assert!(status.status.success(), "after {at:?}: {}", super::said(&status));
    }
    delete_without_trace(&cluster, &before, "stops that were killed");
}
