//! Control planes that are added, stopped, started and deleted.

use super::etcd;
use super::{
    Writer, assert_no_tokens, assert_nothing_to_do, assert_status_is_well, control_planes, refs, three,
};
use crate::faults::said;
use crate::lab::Cluster;
use crate::nodes::fleet;

pub(super) fn one_becomes_three(cluster: &Cluster, writer: &Writer) {
    let three = three(cluster);
    let added = cluster.run(&["node", "add", "--control-plane"]);
    assert!(added.status.success(), "{}", said(&added));
    assert!(said(&added).contains("odd number"), "{}", said(&added));
    writer.after("a second control plane joined");
    etcd::assert_members(cluster, &refs(&three[..2]));
    cluster.succeed(&["node", "add", "--control-plane"]);
    writer.after("a third control plane joined");
    etcd::assert_members(cluster, &refs(&three));
    assert_eq!(control_planes(cluster), three);
    for node in &three {
        assert_eq!(fleet::readiness(cluster, node), "True", "{node}");
        assert_eq!(cluster.field(&["node", node], "{.spec.taints}"), "", "{node} accepts pods");
    }
    assert_eq!(primary(cluster), three[0]);
    assert_eq!(etcd::holder(cluster, &refs(&three)), marked(cluster, "{{.VirtualIP}}"));
    assert_no_tokens(cluster);
    assert_nothing_to_do(cluster);
}

/// Leaves the second and the third.
pub(super) fn the_primary_leaves(cluster: &Cluster, writer: &Writer) {
    let [first, second, third] = three(cluster);
    cluster.succeed(&["node", "delete", &first]);
    writer.after("the primary was deleted");
    etcd::assert_members(cluster, &[&second, &third]);
    assert_eq!(control_planes(cluster), [second.clone(), third.clone()]);
    let listed = cluster.kubectl(&["get", "nodes", "-o", "name"]);
    assert!(!listed.lines().any(|line| line == format!("node/{first}")), "{listed}");
    assert_eq!(primary(cluster), second);
    let file = cluster.succeed(&["export"]);
    assert!(!file.contains(&format!("name: {first}\n  role")), "{file}");
    // What is asked of a cluster without naming a node is asked of the one that is marked now.
    assert_eq!(cluster.ssh("hostname"), second);
    assert_nothing_to_do(cluster);
}

pub(super) fn a_stopped_one_joins_again(cluster: &Cluster, writer: &Writer) {
    let [_, second, third] = three(cluster);
    let address = cluster.succeed(&["ip", "-n", &second]);
    cluster.succeed(&["node", "stop", &second]);
    writer.after("the new primary was stopped");
    etcd::assert_members(cluster, &[&third]);
    assert_eq!(primary(cluster), third);
    assert_eq!(fleet::readiness(cluster, &second), "False", "at once, by its own word");

    let refused = cluster.run(&["node", "stop", &third]);
    assert!(!refused.status.success(), "the last one that runs: {}", said(&refused));
    writer.goes_on();

    cluster.succeed(&["node", "start", &second]);
    writer.after("the stopped one joined again");
    etcd::assert_members(cluster, &[&second, &third]);
    assert_eq!(cluster.succeed(&["ip", "-n", &second]), address);
    assert_eq!(fleet::readiness(cluster, &second), "True");
}

/// Leaves the third alone.
pub(super) fn the_last_one_is_like_the_first(cluster: &Cluster, writer: &Writer) {
    let [_, second, third] = three(cluster);
    cluster.succeed(&["node", "delete", &second]);
    writer.after("all but one were deleted");
    etcd::assert_members(cluster, &[&third]);
    let refused = cluster.run(&["node", "delete", &third]);
    assert_eq!(refused.status.code(), Some(81), "{}", said(&refused));
    // It is a cluster like any other, whose address sits on it.
    cluster.succeed(&["stop"]);
    cluster.start(&[]);
    writer.after("the cluster was stopped and started");
    assert_eq!(etcd::holder(cluster, &[&third]), third);
    assert_status_is_well(cluster);
}

/// The control plane that `status` marks as the primary one.
fn primary(cluster: &Cluster) -> String {
    marked(cluster, "{{.Primary}}")
}

/// The only node of which the status has `true` there. It exits with 0 only if all nodes run.
fn marked(cluster: &Cluster, what: &str) -> String {
    let status = cluster.run(&["status", "--format", &format!("{{{{.Name}}}} {what}")]);
    let text = String::from_utf8_lossy(&status.stdout).into_owned();
    let marked: Vec<_> = text.lines().filter_map(|line| line.strip_suffix(" true")).collect();
    let [node] = marked[..] else { panic!("not one is marked: {text}") };
    node.to_owned()
}
