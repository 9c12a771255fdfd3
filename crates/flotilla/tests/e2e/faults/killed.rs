//! SIGKILL at every step, and Ctrl-C: what is half done is finished by the next command.

use super::{assert_works, cluster, delete_without_trace, interrupted, said};
use crate::host_state::HostState;
use crate::lab::{At, Cluster, kill_at};

/// Every beginning and end and the middle of what takes long, in the order in which a first start has them.
const START: [At; 15] = [
    At::Beginning("network"),
    At::End("network"),
    At::Beginning("machine/NAME"),
    At::Within("machine/NAME", 20),
    At::End("machine/NAME"),
    At::Beginning("api/NAME"),
    At::Within("api/NAME", 200),
    At::Within("api/NAME", 1500),
    At::End("api/NAME"),
    At::Beginning("complete"),
    At::Within("complete", 300),
    At::Beginning("kubeconfig"),
    At::End("kubeconfig"),
    At::End("complete"),
    At::Beginning("wait"),
];

/// Inside of the steps that take long.
const START_WITHIN: [At; 4] = [
    At::Within("machine/NAME", 20),
    At::Within("api/NAME", 200),
    At::Within("api/NAME", 1500),
    At::Within("complete", 300),
];

/// One of each kind: the end of a step and the beginning of the next are one moment.
const UNDONE: [At; 7] = [
    At::End("network"),
    At::Within("machine/NAME", 20),
    At::End("machine/NAME"),
    At::Within("api/NAME", 100),
    At::Within("api/NAME", 1000),
    At::Within("complete", 200),
    At::Beginning("wait"),
];

pub(crate) fn interrupted_and_killed_inside_its_steps_start_gets_to_its_end() {
    let (cluster, before) = cluster("kill-within");
    interrupted::ctrl_c_ends_a_start_and_says_how_to_go_on(&cluster);
    delete_without_trace(&cluster, &before, "an interrupted start");
    killed_at(&cluster, &before, &START_WITHIN);
}

pub(crate) fn killed_at_one_step_after_the_other_start_gets_to_its_end() {
    let (cluster, before) = cluster("kill-steps");
    killed_at(&cluster, &before, &START);
}

/// Kills one start after the other, lets one get to its end, and deletes the cluster.
fn killed_at(cluster: &Cluster, before: &HostState, moments: &[At]) {
    for at in moments.iter().copied() {
        if !kill_at(cluster, &["start"], at) {
            // The step was finished in the moment before the kill: a cluster that begins again has it.
            delete_without_trace(cluster, before, "a start that was killed after its last step");
            assert!(kill_at(cluster, &["start"], at), "the start ended before {at:?}");
        }
    }
    cluster.start(&[]);
    assert_works(cluster, "sleeper");
    assert!(cluster.start(&[]).contains("nothing to do"));
    delete_without_trace(cluster, before, "a start that was killed again and again");
}

pub(crate) fn killed_at_any_step_delete_leaves_nothing() {
    let (cluster, before) = cluster("kill-delete");
    for at in UNDONE {
        assert!(kill_at(&cluster, &["start"], at), "the start ended before {at:?}");
        delete_without_trace(&cluster, &before, &format!("a start that was killed at {at:?}"));
    }
    interrupted::the_second_signal_ends_it_at_once(&cluster);
    delete_without_trace(&cluster, &before, "a start that was ended by a second signal");
}

pub(crate) fn a_killed_delete_is_finished_by_the_next() {
    let (cluster, before) = cluster("kill-twice");
    for (made, at) in [
        (At::End("kubeconfig"), At::Beginning("remove-from-kubeconfig")),
        (At::End("kubeconfig"), At::Within("remove", 30)),
        (At::Within("api/NAME", 1000), At::Beginning("remove")),
        (At::End("machine/NAME"), At::End("remove")),
        (At::End("machine/NAME"), At::Beginning("remove-state")),
    ] {
        assert!(kill_at(&cluster, &["start"], made));
        assert!(kill_at(&cluster, &["delete"], at), "the delete ended before {at:?}");
        delete_without_trace(&cluster, &before, &format!("a delete that was killed at {at:?}"));
    }
}

pub(super) fn after_a_stop_that_was_killed_all_is_back(cluster: &Cluster) {
    killed_stop_and_start(cluster, At::Within("stop/NAME", 300), "sleeper");
}

pub(super) fn after_a_killed_stop_all_is_back(cluster: &Cluster) {
    killed_stop_and_start(cluster, At::Beginning("stop/NAME"), "sleeper-1");
    killed_stop_and_start(cluster, At::End("stop/NAME"), "sleeper-2");
}

fn killed_stop_and_start(cluster: &Cluster, at: At, pod: &str) {
    assert!(kill_at(cluster, &["stop"], at), "the stop ended before {at:?}");
    cluster.start(&[]);
    assert_works(cluster, pod);
    let status = cluster.run(&["status"]);
    assert!(status.status.success(), "after {at:?}: {}", said(&status));
}
