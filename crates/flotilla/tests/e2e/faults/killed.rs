//! SIGKILL at every step, and Ctrl-C: what is half done is finished by the next command.

use super::{assert_works, cluster, delete_without_trace, interrupted, said};
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

pub(crate) fn killed_and_interrupted_at_one_step_after_the_other_start_gets_to_its_end() {
    let (cluster, before) = cluster("kill-steps");
    interrupted::ctrl_c_ends_a_start_and_says_how_to_go_on(&cluster);
    delete_without_trace(&cluster, &before, "an interrupted start");
    for at in START {
        if !kill_at(&cluster, &["start"], at) {
            // The step was finished in the moment before the kill: a cluster that begins again has it.
            delete_without_trace(&cluster, &before, "a start that was killed after its last step");
            assert!(kill_at(&cluster, &["start"], at), "the start ended before {at:?}");
        }
    }
    cluster.start(&[]);
    assert_works(&cluster, "sleeper");
    assert!(cluster.start(&[]).contains("nothing to do"));
    delete_without_trace(&cluster, &before, "a start that was killed at every step");
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
        (At::End("kubeconfig"), At::Beginning("remove_from_kubeconfig")),
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

pub(super) fn after_a_killed_stop_all_is_back(cluster: &Cluster) {
    for (number, at) in [At::Beginning("stop/NAME"), At::Within("stop/NAME", 300), At::End("stop/NAME")]
        .into_iter()
        .enumerate()
    {
        assert!(kill_at(cluster, &["stop"], at), "the stop ended before {at:?}");
        cluster.start(&[]);
        assert_works(cluster, &format!("sleeper-{number}"));
        let status = cluster.run(&["status"]);
        assert!(status.status.success(), "after {at:?}: {}", said(&status));
    }
}
