//! Control planes that fail without warning.

use std::time::Duration;

use super::etcd;
use super::start;
use super::{Writer, assert_nothing_to_do, assert_status_is_well, refs, three_running};
use crate::faults::{kernel, said};
use crate::lab::{self, Cluster, PATIENCE, wait_until};
use crate::nodes::fleet;

/// A bound for a busy machine: what it takes on an idle one is for the benchmark to say.
const GAP: Duration = Duration::from_secs(20);

pub(super) fn each_is_killed_in_turn(cluster: &Cluster) {
    let three = three_running(cluster);
    let writer = Writer::begin(cluster);
    for node in &three {
        is_killed_and_started(cluster, &three, node, &writer);
    }
    assert_status_is_well(cluster);
    writer.end(cluster);
}

pub(super) fn the_one_with_the_virtual_ip_is_killed(cluster: &Cluster) {
    let three = three_running(cluster);
    let writer = Writer::begin(cluster);
    let node = etcd::holder(cluster, &refs(&three));
    is_killed_and_started(cluster, &three, &node, &writer);
    assert_status_is_well(cluster);
    writer.end(cluster);
}

fn is_killed_and_started(cluster: &Cluster, three: &[String], node: &str, writer: &Writer) {
    let others: Vec<_> = three.iter().filter(|other| *other != node).map(String::as_str).collect();
    let had_it = etcd::holder(cluster, &refs(three)) == *node;
    kernel::kill(kernel::init_of(cluster, node));
    let address = if had_it { ", with the virtual IP" } else { "" };
    let gap = writer.after(&format!("{node} was killed{address}"));
    assert!(gap < GAP, "the API was silent for {gap:?}");
    etcd::holder(cluster, &others);
    let status = cluster.run(&["status"]);
    assert!(!status.status.success(), "{}", said(&status));
    let reported = format!("node {node} crashed or was killed");
    assert!(said(&status).contains(&reported), "{}", said(&status));

    cluster.succeed(&["node", "start", node]);
    writer.after(&format!("{node} came back"));
    etcd::assert_members(cluster, &refs(three));
    assert_eq!(fleet::readiness(cluster, node), "True", "{node}");
}

/// Its link is gone, and it sees that.
pub(super) fn one_is_cut_off_and_healed(cluster: &Cluster) {
    cut_off_and_heal(cluster, "split", ["down", "up"]);
}

/// Its link exists, but is disconnected.
pub(super) fn one_is_cut_off_without_noticing(cluster: &Cluster) {
    let bridge = format!("master {}", kernel::bridge(cluster));
    cut_off_and_heal(cluster, "silent-split", ["nomaster", &bridge]);
}

/// The one with the virtual IP, which is the most that can be cut.
fn cut_off_and_heal(cluster: &Cluster, map: &str, [cut, heal]: [&str; 2]) {
    let three = three_running(cluster);
    let writer = Writer::begin(cluster);
    let node = etcd::holder(cluster, &refs(&three));
    let others: Vec<_> = three.iter().filter(|other| **other != node).map(String::as_str).collect();
    let port = kernel::port_of(cluster, &node);

    set_link(&port, cut);
    writer.after(&format!("{node} was cut off, with the virtual IP"));
    etcd::holder(cluster, &others);
    // Its own API server still runs, and must not acknowledge a write. A write that it was sent may still be stored
    // when it is connected again: it was neither acknowledged nor refused.
    let address = cluster.succeed(&["ip", "-n", &node]);
    let write = |name: &str| {
        let line = format!(
            "kubectl --kubeconfig /etc/kubernetes/admin.conf --server https://{}:6443 --request-timeout 5s \
             create configmap {name} --from-literal=by=the-lonely-one",
            address.trim()
        );
        cluster.run(&["ssh", "-n", &node, "--", &line])
    };
    let alone = write(map);
    assert!(!alone.status.success(), "an isolated member accepted a write: {}", said(&alone));
    let address = format!(" {}/", etcd::virtual_ip(cluster));
    wait_until("it gives up the address, which is unreachable there", PATIENCE, || {
        let has = fleet::ssh(cluster, &node, "ip -4 -o address");
        if has.contains(&address) { Err(has) } else { Ok(()) }
    });
    // Also if it is the one who would be asked first.
    wait_for_members_up(cluster, "2 of 3 members are up");

    set_link(&port, heal);
    etcd::assert_members(cluster, &refs(&three));
    etcd::holder(cluster, &refs(&three));
    let healed = format!("{map}-healed");
    wait_until("it takes writes again", PATIENCE, || {
        let written = write(&healed);
        let is_written = written.status.success() || said(&written).contains("already exists");
        if is_written { Ok(()) } else { Err(said(&written)) }
    });
    assert_eq!(cluster.field(&["configmap", &healed], "{.data.by}"), "the-lonely-one");
    writer.after(&format!("{node} was connected again"));
    writer.end(cluster);
}

#[track_caller]
fn wait_for_members_up(cluster: &Cluster, wanted: &str) {
    wait_until(wanted, PATIENCE, || {
        let reported = said(&cluster.run(&["etcd", "status"]));
        if reported.contains(wanted) { Ok(()) } else { Err(reported) }
    });
}

/// For as long as no address takes to move.
#[track_caller]
fn wait_for_silence(cluster: &Cluster) {
    let ask = || cluster.try_kubectl(&["get", "--raw", "/readyz", "--request-timeout", "2s"]);
    wait_until("the API is silent", PATIENCE, || {
        (0..3).map(|_| ask()).find_map(Result::ok).map_or(Ok(()), Err)
    });
}

#[track_caller]
fn set_link(name: &str, state: &str) {
    let root = lab::bundle().join("rootfs");
    let set = flotilla_linux::host::Command::new("chroot").arg(root).args(["ip", "link", "set", name]);
    set.args(state.split(' ')).run().unwrap();
}

pub(super) fn what_loses_the_quorum_is_refused(cluster: &Cluster) {
    let [first, second, third] = three_running(cluster);
    fleet::deploy(cluster, "nimble", 1, &nimble(&third));
    cluster.wait_for("condition=Available", &["deployment/nimble"]);
    assert_eq!(fleet::nodes_of(cluster, "nimble"), [third.as_str()]);
    kernel::kill(kernel::init_of(cluster, &third));
    wait_for_members_up(cluster, "2 of 3 members are up");
    let refused = cluster.run(&["node", "stop", &second]);
    let reported = said(&refused);
    assert!(!refused.status.success(), "one of two that are up of three was stopped: {reported}");
    assert!(reported.contains("would lose quorum: 1 of 3 members left"), "{reported}");
    let refused = cluster.run(&["node", "delete", &second]);
    assert!(!refused.status.success() && said(&refused).contains("would lose quorum"), "{}", said(&refused));
    assert!(said(&refused).contains("--force"), "{}", said(&refused));
    let writer = Writer::begin(cluster);
    wait_until("the pod of the dead one is elsewhere", PATIENCE, || {
        let now = fleet::nodes_of(cluster, "nimble");
        if now.len() == 1 && now[0] != third { Ok(()) } else { Err(format!("{now:?}")) }
    });
    fleet::undeploy(cluster, "nimble");
    // The dead one may go: that leaves two of two.
    cluster.succeed(&["node", "stop", &third]);
    etcd::assert_members(cluster, &[&first, &second]);
    cluster.succeed(&["node", "start", "--all"]);
    writer.after("the dead one left and joined again");
    start::assert_tainted(cluster, &third);
    etcd::assert_members(cluster, &[&first, &second, &third]);
    writer.end(cluster);
}

/// Lines for a pod that prefers a control plane, and leaves it as soon as it is not Ready.
fn nimble(node: &str) -> String {
    format!(
        "      tolerations:
      - {{key: node-role.kubernetes.io/control-plane, operator: Exists}}
      - {{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 1}}
      - {{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 1}}
      affinity:
        nodeAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
          - weight: 100
            preference: {{matchExpressions: [{{key: kubernetes.io/hostname, operator: In, values: [{node}]}}]}}
"
    )
}

pub(super) fn two_of_three_are_killed(cluster: &Cluster) {
    let [first, second, third] = three_running(cluster);
    let writer = Writer::begin(cluster);
    for node in [&first, &second] {
        kernel::kill(kernel::init_of(cluster, node));
    }
    wait_for_silence(cluster);
    // The primary stays dead.
    cluster.succeed(&["node", "stop", &first, "--force"]);
    cluster.succeed(&["node", "start", &second]);
    writer.after("two of three were killed and one came back");
    etcd::holder(cluster, &[&second, &third]);
    let first_one = fleet::list(cluster).into_iter().find(|node| node["Name"] == first.as_str()).unwrap();
    assert_eq!(first_one["Status"], "Stopped", "one is enough");

    wait_for_members_up(cluster, "2 of 3 members are up");
    let forced = cluster.run(&["node", "stop", &second, "--force"]);
    assert!(forced.status.success(), "{}", said(&forced));
    let reported = said(&forced);
    assert!(reported.contains("would lose quorum") && reported.contains("members of etcd"), "{reported}");
    wait_for_silence(cluster);
    cluster.succeed(&["node", "start", "--all"]);
    writer.after("the majority was stopped by force and came back");
    etcd::assert_members(cluster, &[&first, &second, &third]);
    writer.end(cluster);
}

/// The primary one, whose data is lost as well.
pub(super) fn one_that_is_lost_for_good_is_replaced(cluster: &Cluster) {
    let three = three_running(cluster);
    let lost = &super::control_planes(cluster)[0];
    let others: Vec<_> = three.iter().filter(|other| *other != lost).map(String::as_str).collect();
    let writer = Writer::begin(cluster);
    kernel::destroy(cluster, lost);
    // It may have had the virtual IP: whoever cannot be asked cannot take it off the list.
    writer.goes_on();
    cluster.succeed(&["node", "delete", lost, "--force", "--drain-timeout", "1s"]);
    etcd::assert_members(cluster, &others);
    cluster.succeed(&["node", "add", "--control-plane", lost]);
    writer.after(&format!("{lost} was destroyed and replaced"));
    etcd::assert_members(cluster, &refs(&three));
    assert_eq!(fleet::readiness(cluster, lost), "True");
    start::assert_tainted(cluster, lost);
    writer.end(cluster);
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
    fleet::deploy(cluster, "lasting", 2, "");
    cluster.wait_for("condition=Available", &["deployment/lasting"]);
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

pub(super) fn identities(cluster: &Cluster) -> Vec<String> {
    let nodes = fleet::names(cluster);
    let path = "{.metadata.uid} {.spec.podCIDR} {.status.addresses}";
    nodes.iter().map(|node| cluster.field(&["node", node], path)).collect()
}

#[track_caller]
pub(super) fn assert_back(cluster: &Cluster, before: &[String]) {
    assert_eq!(identities(cluster), before);
    for node in fleet::names(cluster) {
        assert_eq!(fleet::readiness(cluster, &node), "True", "{node}");
    }
    // What the API tells of pods may be from before: their containers run.
    wait_until("the workload's containers run", PATIENCE, || {
        let count =
            "crictl --runtime-endpoint unix:///run/containerd/containerd.sock ps --quiet --name '^main$'";
        let workers = [fleet::worker(cluster, 4), fleet::worker(cluster, 5)];
        let running: usize =
            workers.iter().map(|node| fleet::ssh(cluster, node, count).lines().count()).sum();
        if running == 2 { Ok(()) } else { Err(format!("{running} of 2")) }
    });
    cluster.wait_for("condition=Available", &["deployment/lasting"]);
    assert_status_is_well(cluster);
    assert_nothing_to_do(cluster);
}
