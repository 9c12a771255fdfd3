//! SIGKILL of Flotilla in the middle of a membership change: the same command again gets to its end, and neither an
//! orphan in etcd nor half a node is left.

use super::etcd;
use super::{Writer, control_planes};
use crate::lab::{At, Cluster, kill_at};
use crate::nodes::fleet;

/// The control plane that is added and deleted all the time.
const NODE: &str = "extra";

/// To one control plane and back: with two, an orphan would be half of the votes.
pub(super) fn additions_and_deletions_are_finished(cluster: &Cluster, writer: &Writer) {
    let [first] = &control_planes(cluster)[..] else { panic!("not one control plane") };
    let add_it = ["node", "add", "--control-plane", NODE];
    for (add, again, delete) in [
        (At::End("machine/extra"), &add_it[..], At::Beginning("retire/extra")),
        (At::Within("join/extra", 800), &["start"], At::Within("retire/extra", 300)),
        (At::Within("join/extra", 2500), &add_it, At::End("retire/extra")),
        (At::End("join/extra"), &["start"], At::End("leave/extra")),
    ] {
        assert!(kill_at(cluster, &add_it, add), "it ended before {add:?}");
        cluster.succeed(again);
        writer.after(&format!("an addition was killed at {add:?} and repeated"));
        etcd::assert_members(cluster, &[first, NODE]);
        assert_eq!(fleet::readiness(cluster, NODE), "True", "an addition killed at {add:?}");

        assert!(kill_at(cluster, &["node", "delete", NODE], delete), "it ended before {delete:?}");
        // What was nearly done may have been finished in the moment before the kill.
        if fleet::names(cluster).iter().any(|name| name == NODE) {
            cluster.succeed(&["node", "delete", NODE]);
        }
        writer.after(&format!("a deletion was killed at {delete:?} and repeated"));
        etcd::assert_members(cluster, &[first]);
        let listed = cluster.kubectl(&["get", "nodes", "-o", "name"]);
        assert_eq!(listed.trim(), format!("node/{first}"), "a deletion killed at {delete:?}");
        assert!(!cluster.state().join("nodes").join(NODE).exists());
    }
    assert!(cluster.start(&[]).contains("nothing to do"));
}
