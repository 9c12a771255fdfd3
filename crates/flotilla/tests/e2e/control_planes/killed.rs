//! SIGKILL of Flotilla in the middle of a membership change: the same command again gets to its end, and neither an
//! orphan in etcd nor half a node is left.

use super::etcd;
use super::{Writer, apply, assert_nothing_to_do, control_planes, refs, three};
use crate::lab::{At, Cluster, kill_at};
use crate::nodes::fleet;

/// The control plane that is added and deleted all the time.
const NODE: &str = "extra";

/// To one control plane and back: with two, an orphan would be half of the votes.
pub(super) fn additions_and_deletions_are_finished(cluster: &Cluster, writer: &Writer) {
    let [first] = &control_planes(cluster)[..] else { panic!("not one control plane") };
    let add_it = ["node", "add", "--control-plane", NODE];
    for (add, again, delete) in [
        (At::End("machine/extra"), &add_it[..], At::Beginning("leave-control-plane/extra")),
        (At::Within("join/extra", 800), &["start"], At::Within("leave-control-plane/extra", 300)),
        (At::Within("join/extra", 2500), &add_it, At::End("leave-control-plane/extra")),
        (At::End("join/extra"), &["start"], At::End("remove-from-api/extra")),
    ] {
        assert!(kill_at(cluster, &add_it, add), "it ended before {add:?}");
        cluster.succeed(again);
        writer.after(&format!("an addition was killed at {add:?} and repeated"));
        etcd::assert_members(cluster, &[first, NODE]);
        assert_eq!(fleet::readiness(cluster, NODE), "True", "an addition killed at {add:?}");

        if matches!(delete, At::End("remove-from-api/extra")) {
            a_stop_and_a_start_are_finished(cluster, writer, [first, NODE]);
        }
        assert!(kill_at(cluster, &["node", "delete", NODE], delete), "it ended before {delete:?}");
        // What was nearly done may have been finished in the moment before the kill.
        if fleet::names(cluster).iter().any(|name| name == NODE) {
            // Its pods have moved: a start finishes the removal as well.
            let by_start = matches!(delete, At::End("leave-control-plane/extra"));
            cluster.succeed(if by_start { &["start"][..] } else { &["node", "delete", NODE] });
        }
        writer.after(&format!("a deletion was killed at {delete:?} and repeated"));
        etcd::assert_members(cluster, &[first]);
        let listed = cluster.kubectl(&["get", "nodes", "-o", "name"]);
        assert_eq!(listed.trim(), format!("node/{first}"), "a deletion killed at {delete:?}");
        assert!(!cluster.state().join("nodes").join(NODE).exists());
    }
    assert_nothing_to_do(cluster);
}

/// Of the one that has the virtual IP, with two control planes.
fn a_stop_and_a_start_are_finished(cluster: &Cluster, writer: &Writer, both: [&str; 2]) {
    let node = etcd::holder(cluster, &both);
    let [other] = both.iter().copied().filter(|other| *other != node).collect::<Vec<_>>()[..] else {
        panic!("{both:?}")
    };
    let retire = &*format!("leave-control-plane/{node}").leak();
    let join = &*format!("join/{node}").leak();
    let (stop, start) = (["node", "stop", &node], ["node", "start", &node]);
    // It is wanted stopped and is still a member: turned off like that it would take the majority with it.
    assert!(kill_at(cluster, &stop, At::Beginning(retire)));
    cluster.start(&[]);
    writer.after("a stop was killed at its beginning, and the cluster started");
    etcd::assert_members(cluster, &both);
    etcd::holder(cluster, &both);

    assert!(kill_at(cluster, &stop, At::Within(retire, 400)));
    cluster.succeed(&stop);
    writer.after("a stop was killed while it retired, and repeated");
    etcd::assert_members(cluster, &[other]);

    assert!(kill_at(cluster, &start, At::Within(join, 1500)));
    cluster.succeed(&start);
    writer.after("a start was killed while it joined, and repeated");
    etcd::assert_members(cluster, &both);
    assert_eq!(fleet::readiness(cluster, &node), "True");
}

pub(super) fn one_becomes_three(cluster: &Cluster, writer: &Writer) {
    let three = three(cluster);
    cluster.succeed(&["node", "add", "--control-plane"]);
    assert!(kill_at(cluster, &["node", "add", "--control-plane"], At::Within("join/NAME-m03", 1500)));
    cluster.succeed(&["node", "add", "--control-plane"]);
    writer.after("a third control plane joined, killed and repeated");
    etcd::assert_members(cluster, &refs(&three));
}

/// By the cluster's file.
pub(super) fn three_become_five_and_three_again(cluster: &Cluster, writer: &Writer) {
    let three = three(cluster);
    let more = [fleet::worker(cluster, 4), fleet::worker(cluster, 5)];
    let exported = cluster.succeed(&["export"]);
    let [fourth, fifth] = more.each_ref().map(|name| format!("- {{name: {name}, role: control-plane}}\n"));
    killed_and_repeated(cluster, &format!("{exported}{fourth}{fifth}"), At::Within("join/NAME-m05", 1000));
    writer.after("the fourth and the fifth joined, killed and repeated");
    let five = [refs(&three), refs(&more)].concat();
    etcd::assert_members(cluster, &five);
    assert_eq!(control_planes(cluster), five);
    etcd::holder(cluster, &five);
    killed_and_repeated(cluster, &exported, At::Within("leave-control-plane/NAME-m04", 300));
    writer.after("two of five were deleted, killed and repeated");
    etcd::assert_members(cluster, &refs(&three));
}

/// Leaves the second and the third.
pub(super) fn the_primary_leaves(cluster: &Cluster, writer: &Writer) {
    let [first, second, third] = three(cluster);
    assert!(kill_at(cluster, &["node", "delete", &first], At::Within("leave-control-plane/NAME", 300)));
    cluster.succeed(&["node", "delete", &first]);
    writer.after("the primary was deleted, killed and repeated");
    etcd::assert_members(cluster, &[&second, &third]);
    assert_nothing_to_do(cluster);
}

/// Brings the cluster to this file by an `apply` that is killed, and one that is not.
#[track_caller]
fn killed_and_repeated(cluster: &Cluster, file: &str, at: At) {
    let path = cluster.kubeconfig().with_file_name("control-planes.yaml");
    std::fs::write(&path, file).unwrap();
    let killed = kill_at(cluster, &["apply", "-f", path.to_str().unwrap(), "--yes"], at);
    assert!(killed, "it ended before {at:?}");
    apply(cluster, file);
}
