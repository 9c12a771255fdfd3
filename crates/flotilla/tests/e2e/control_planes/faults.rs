//! Control planes that fail without warning.

use super::etcd;
use super::{Writer, refs, three_running};
use crate::faults::{kernel, said};
use crate::lab::{self, Cluster, PATIENCE, wait_until};
use crate::nodes::fleet;

pub(super) fn each_is_killed_in_turn(cluster: &Cluster) {
    let three = three_running(cluster);
    let writer = Writer::begin(cluster);
    for node in &three {
        let others: Vec<_> = three.iter().filter(|other| *other != node).map(String::as_str).collect();
        let had_it = etcd::holder(cluster, &refs(&three)) == *node;
        kernel::kill(kernel::init_of(cluster, node));
        let address = if had_it { ", with the virtual address" } else { "" };
        writer.after(&format!("{node} was killed{address}"));
        etcd::holder(cluster, &others);
        let status = cluster.run(&["status"]);
        assert!(!status.status.success(), "{}", said(&status));
        let told = format!("node {node} ended without being stopped");
        assert!(said(&status).contains(&told), "{}", said(&status));

        cluster.succeed(&["node", "start", node]);
        writer.after(&format!("{node} came back"));
        etcd::assert_members(cluster, &refs(&three));
        assert_eq!(fleet::readiness(cluster, node), "True", "{node}");
    }
    assert!(cluster.run(&["status"]).status.success());
    writer.end(cluster);
}

/// The one with the virtual address, which is the most that can be cut.
pub(super) fn one_is_cut_off_and_healed(cluster: &Cluster) {
    let three = three_running(cluster);
    let writer = Writer::begin(cluster);
    let node = etcd::holder(cluster, &refs(&three));
    let others: Vec<_> = three.iter().filter(|other| **other != node).map(String::as_str).collect();
    let port = kernel::port_of(cluster, &node);

    set_link(&port, "down");
    writer.after(&format!("{node} was cut off, with the virtual address"));
    etcd::holder(cluster, &others);
    // Its own API server is still there, and must not promise anything to anybody. What it was told may still be written
    // when it is connected again: nobody was told that it was, nor that it was not.
    let address = cluster.succeed(&["ip", "-n", &node]);
    let write = format!(
        "kubectl --kubeconfig /etc/kubernetes/admin.conf --server https://{}:6443 --request-timeout 5s \
         create configmap split --from-literal=by=the-lonely-one",
        address.trim()
    );
    let alone = cluster.run(&["ssh", "-n", &node, "--", &write]);
    assert!(!alone.status.success(), "who is alone took a write: {}", said(&alone));

    set_link(&port, "up");
    etcd::assert_members(cluster, &refs(&three));
    etcd::holder(cluster, &refs(&three));
    writer.after(&format!("{node} was connected again"));
    writer.end(cluster);
}

#[track_caller]
fn set_link(name: &str, state: &str) {
    let root = lab::bundle().join("rootfs");
    let set = flotilla_linux::host::Command::new("chroot").arg(root).args(["ip", "link", "set", name, state]);
    set.run().unwrap();
}

pub(super) fn what_loses_the_quorum_is_refused(cluster: &Cluster) {
    let [first, second, third] = three_running(cluster);
    kernel::kill(kernel::init_of(cluster, &third));
    wait_until("the others have seen it", PATIENCE, || {
        let refused = cluster.run(&["node", "stop", &second]);
        let told = said(&refused);
        assert!(!refused.status.success(), "one of two that are up of three was stopped: {told}");
        let all = told.contains("2 of 3 members are up") && told.contains("leaves 1");
        if all { Ok(()) } else { Err(told) }
    });
    let refused = cluster.run(&["node", "delete", &second]);
    assert!(
        !refused.status.success() && said(&refused).contains("2 of 3 members are up"),
        "{}",
        said(&refused)
    );
    assert!(said(&refused).contains("--force"), "{}", said(&refused));
    let writer = Writer::begin(cluster);
    // The dead one may go: that leaves two of two.
    cluster.succeed(&["node", "stop", &third]);
    etcd::assert_members(cluster, &[&first, &second]);
    cluster.succeed(&["node", "stop", &second, "--force"]);
    etcd::assert_members(cluster, &[&first]);
    cluster.succeed(&["node", "start", "--all"]);
    writer.after("two control planes left and joined again");
    etcd::assert_members(cluster, &[&first, &second, &third]);
    writer.end(cluster);
}

pub(super) fn two_of_three_are_killed(cluster: &Cluster) {
    let [first, second, third] = three_running(cluster);
    let writer = Writer::begin(cluster);
    for node in [&first, &second] {
        kernel::kill(kernel::init_of(cluster, node));
    }
    wait_until("the API is silent", PATIENCE, || {
        let ready = cluster.try_kubectl(&["get", "--raw", "/readyz", "--request-timeout", "2s"]);
        ready.map_or_else(|_| Ok(()), Err)
    });
    // The primary stays dead.
    cluster.succeed(&["node", "start", &second]);
    writer.after("two of three were killed and one came back");
    etcd::holder(cluster, &[&second, &third]);
    cluster.succeed(&["node", "start", &first]);
    etcd::assert_members(cluster, &[&first, &second, &third]);
    writer.end(cluster);
}

/// The primary one, whose data is lost as well.
pub(super) fn one_that_is_lost_for_good_is_replaced(cluster: &Cluster) {
    let three = three_running(cluster);
    let lost = &super::control_planes(cluster)[0];
    let others: Vec<_> = three.iter().filter(|other| *other != lost).map(String::as_str).collect();
    let writer = Writer::begin(cluster);
    destroy(cluster, lost);
    cluster.succeed(&["node", "delete", lost, "--force", "--drain-timeout", "1s"]);
    etcd::assert_members(cluster, &others);
    cluster.succeed(&["node", "add", "--control-plane", lost]);
    writer.after(&format!("{lost} was destroyed and replaced"));
    etcd::assert_members(cluster, &refs(&three));
    assert_eq!(fleet::readiness(cluster, lost), "True");
    writer.end(cluster);
}

/// Kills a node's machine and takes its disk away.
pub(super) fn destroy(cluster: &Cluster, node: &str) {
    kernel::kill(kernel::init_of(cluster, node));
    let folder = cluster.state().join("nodes").join(node);
    wait_until("its files can be removed", PATIENCE, || {
        std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())
    });
}

pub(super) fn stopped_and_started_all_is_back(cluster: &Cluster) {
    let three = three_running(cluster);
    let before = identities(cluster);
    fleet::deploy(cluster, "lasting", 2, "");
    cluster.wait_for("condition=Available", &["deployment/lasting"]);
    let writer = Writer::begin(cluster);
    cluster.succeed(&["stop"]);
    let status = cluster.run(&["status"]);
    assert_eq!(status.status.code(), Some(7), "{}", said(&status));
    cluster.start(&[]);
    writer.after("the cluster was stopped and started");
    assert_back(cluster, &before);
    etcd::assert_members(cluster, &refs(&three));
    writer.end(cluster);
}

pub(super) fn after_a_reboot_all_nodes_are_back(cluster: &Cluster) {
    let three = three_running(cluster);
    let before = identities(cluster);
    let writer = Writer::begin(cluster);
    kernel::reboot(cluster);
    let status = cluster.run(&["status"]);
    assert_eq!(status.status.code(), Some(7), "{}", said(&status));
    cluster.start(&[]);
    writer.after("the host was rebooted");
    assert_back(cluster, &before);
    etcd::assert_members(cluster, &refs(&three));
    writer.end(cluster);
}

fn identities(cluster: &Cluster) -> Vec<String> {
    let nodes = fleet::names(cluster);
    let path = "{.metadata.uid} {.spec.podCIDR} {.status.addresses}";
    nodes.iter().map(|node| cluster.field(&["node", node], path)).collect()
}

#[track_caller]
fn assert_back(cluster: &Cluster, before: &[String]) {
    assert_eq!(identities(cluster), before);
    for node in fleet::names(cluster) {
        assert_eq!(fleet::readiness(cluster, &node), "True", "{node}");
    }
    cluster.wait_for("condition=Available", &["deployment/lasting"]);
    let status = cluster.run(&["status"]);
    assert!(status.status.success(), "{}", said(&status));
    assert!(cluster.start(&[]).contains("nothing to do"));
}
