//! Nodes that differ, and where pods go.

use std::collections::BTreeSet;

use super::fleet;
use crate::faults::kernel;
use crate::lab::{Cluster, PATIENCE, wait_until};

/// The node with labels, a taint and limits.
const NODE: &str = "bounded";
/// One like it, but for its size.
const ROOMY: &str = "roomy";

/// More than the node has. `dd` keeps one block in memory.
const EATER: &str = "
apiVersion: v1
kind: Pod
metadata: {name: eater}
spec:
  nodeSelector: {disk: ssd}
  restartPolicy: Never
  tolerations: [{key: dedicated, operator: Exists}]
  containers:
  - name: eater
    image: flotilla.test/busybox:1
    imagePullPolicy: Never
    command: [dd, if=/dev/zero, of=/dev/null, bs=2G, count=1]
";

/// Lines for a deployment's pods.
const ON_SSD: &str = "      nodeSelector: {disk: ssd}\n";
const TOLERANT: &str = "      tolerations: [{key: dedicated, operator: Exists}]\n";

pub(super) fn a_node_is_added_as_asked(cluster: &Cluster) {
    let flags = ["--cpus", "1", "--memory", "1g", "--labels", "disk=ssd,sized=yes"];
    let taint = ["--taints", "dedicated=batch:NoSchedule"];
    cluster.succeed(&[&["node", "add", NODE][..], &flags, &taint].concat());
    fleet::load_image(cluster, NODE);
    assert_eq!(fleet::readiness(cluster, NODE), "True");
    let node = cluster.get(&["node", NODE]);
    assert_eq!(node["metadata"]["labels"]["disk"], "ssd");
    assert_eq!(node["spec"]["taints"][0]["key"], "dedicated", "{}", node["spec"]);
    assert_eq!(
        (&node["status"]["capacity"]["cpu"], &node["status"]["capacity"]["memory"]),
        (&"1".into(), &"1Gi".into())
    );
    assert_eq!(kernel::cpu_limit(cluster, NODE), 100);
    let row = fleet::list(cluster).pop().unwrap();
    assert_eq!(
        [&row["Name"], &row["Labels"], &row["Taints"], &row["Memory"]],
        [NODE, "disk=ssd,sized=yes", "dedicated=batch:NoSchedule", "1Gi"]
    );
}

pub(super) fn labels_and_taints_direct_pods(cluster: &Cluster) {
    fleet::deploy(cluster, "tolerant", 1, &format!("{ON_SSD}{TOLERANT}"));
    fleet::deploy(cluster, "intolerant", 1, ON_SSD);
    cluster.wait_for("condition=Available", &["deployment/tolerant"]);
    assert_eq!(fleet::nodes_of(cluster, "tolerant"), [NODE]);
    assert_unschedulable(cluster, "intolerant", "untolerated taint");
    fleet::undeploy(cluster, "tolerant");
    fleet::undeploy(cluster, "intolerant");
}

pub(super) fn pods_that_avoid_each_other_spread(cluster: &Cluster) {
    // One for each node without a taint, and one for which there is none.
    fleet::deploy(
        cluster,
        "apart",
        4,
        "      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: apart}}}
",
    );
    cluster.wait_for("condition=Available", &["deployment/apart"]);
    let nodes: BTreeSet<_> = fleet::nodes_of(cluster, "apart").into_iter().collect();
    assert_eq!(nodes.len(), 3, "{nodes:?}");
    wait_until("the fourth waits", PATIENCE, || {
        let waiting = ["pods", "-l", "app=apart", "--field-selector=status.phase=Pending"];
        let reported =
            cluster.field(&waiting, "{.items[*].status.conditions[?(@.type=='PodScheduled')].message}");
        if reported.contains("anti-affinity") { Ok(()) } else { Err(reported) }
    });
    fleet::undeploy(cluster, "apart");
}

pub(super) fn pods_that_belong_together_meet(cluster: &Cluster) {
    let node = fleet::worker(cluster, 3);
    fleet::deploy(cluster, "anchor", 1, &fleet::only_on(&node));
    fleet::deploy(
        cluster,
        "beside",
        3,
        "      affinity:
        podAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: anchor}}}
",
    );
    cluster.wait_for("jsonpath={.status.readyReplicas}=3", &["deployment/beside"]);
    assert_eq!(fleet::nodes_of(cluster, "beside"), [node.as_str(); 3]);
    fleet::undeploy(cluster, "beside");
    fleet::undeploy(cluster, "anchor");
}

/// Of two nodes that differ in their size alone. The other one goes in the end.
pub(super) fn pods_land_only_where_they_fit(cluster: &Cluster) {
    let flags = ["--memory", "2g", "--labels", "sized=yes", "--taints", "dedicated=batch:NoSchedule"];
    cluster.succeed(&[&["node", "add", ROOMY][..], &flags].concat());
    fleet::load_image(cluster, ROOMY);
    super::network::every_node_knows_the_ways(cluster);
    let tolerant = TOLERANT.replacen("      ", "  ", 1);
    let on_either = format!("  nodeSelector: {{sized: 'yes'}}\n{tolerant}");
    let on_bounded = format!("  nodeSelector: {{disk: ssd}}\n{tolerant}");
    for (app, size) in [("fits", "memory: 1200Mi"), ("too-large", "memory: 2100Mi")] {
        sized(cluster, app, size, &on_either);
    }
    sized(cluster, "too-busy", "cpu: 1001m", &on_bounded);
    sized(cluster, "huge", "memory: 9000Gi", "");
    cluster.wait_for("condition=Ready", &["pod/fits"]);
    assert_eq!(fleet::nodes_of(cluster, "fits"), [ROOMY]);
    assert_unschedulable(cluster, "too-large", "Insufficient memory");
    assert_unschedulable(cluster, "too-busy", "Insufficient cpu");
    assert_unschedulable(cluster, "huge", "Insufficient memory");
    cluster.kubectl(&["delete", "pod", "fits", "too-large", "too-busy", "huge"]);
    cluster.succeed(&["node", "delete", ROOMY]);
    super::network::every_node_knows_the_ways(cluster);
}

pub(super) fn who_eats_too_much_dies_in_its_node(cluster: &Cluster) {
    let others: Vec<_> = fleet::names(cluster).into_iter().filter(|name| name != NODE).collect();
    let booted =
        |node: &str| fleet::ssh(cluster, node, "cut -d ' ' -f 22 /proc/1/stat; pidof kubelet containerd");
    let before: Vec<_> = others.iter().map(|node| booted(node)).collect();
    cluster.apply(EATER);
    wait_until("the pod that eats memory is dead", PATIENCE, || {
        let phase = cluster.field(&["pod", "eater"], "{.status.phase}");
        if phase == "Failed" { Ok(()) } else { Err(phase) }
    });
    let code = "{.status.containerStatuses[0].state.terminated.exitCode}";
    assert_eq!(cluster.field(&["pod", "eater"], code), "137");
    for (node, before) in others.iter().zip(before) {
        assert_eq!(booted(node), before, "{node} noticed");
        assert_eq!(fleet::readiness(cluster, node), "True", "{node}");
    }
    cluster.wait_for("condition=Ready", &["node", NODE]);
    cluster.kubectl(&["delete", "pod", "eater"]);
}

/// A pod that asks for so much.
fn sized(cluster: &Cluster, name: &str, size: &str, more: &str) {
    let image = crate::faults::pause_image();
    cluster.apply(&format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: {name}}}}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{{name: main, image: '{image}', resources: {{requests: {{{size}}}}}}}]
{more}"
    ));
}

/// Waits until the scheduler has looked at the app's only pod and found no place, for this reason.
#[track_caller]
fn assert_unschedulable(cluster: &Cluster, app: &str, reason: &str) {
    wait_until(&format!("no place for {app}"), PATIENCE, || {
        let path =
            "{.items[0].status.phase} {.items[0].status.conditions[?(@.type=='PodScheduled')].message}";
        let reported = cluster.field(&["pods", "-l", &format!("app={app}")], path);
        if reported.starts_with("Pending") && reported.contains(reason) { Ok(()) } else { Err(reported) }
    });
}
