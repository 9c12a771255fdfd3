use super::*;
use crate::{ClusterFile, KubernetesVersion};

const HEAD: &str = "apiVersion: flotilla.dev/v1\nkind: Cluster\nname: demo\n";

fn newest() -> KubernetesVersion {
    "v1.37.1".parse().unwrap()
}

fn spec(rest: &str) -> ClusterSpec {
    ClusterFile::read("a.yaml", &format!("{HEAD}{rest}")).unwrap().expanded(&newest())
}

fn reported(known: &str, wanted: &str) -> String {
    let lines: Vec<_> = changes(&spec(known), &spec(wanted)).iter().map(ToString::to_string).collect();
    lines.join("\n")
}

#[test]
fn a_cluster_that_is_as_wanted_has_nothing_to_change() {
    let text = "nodes: [{count: 3, memory: 2g, labels: {a: b}}, {name: x, state: stopped}]";
    assert_eq!(reported(text, text), "");
    let text = "\
nodeDefaults: {kubernetesVersion: v1.37.1}
nodes: [{ports: [80, 81]}, {name: a, kubelet: {maxPods: 5}, taints: ['a:NoExecute', 'b:NoExecute']}]";
    // Naming the cluster's own version, and another order of labels, is no difference.
    let other = "\
nodes: [{ports: [81, 80]}, {name: a, kubelet: {maxPods: 5}, taints: ['b:NoExecute', 'a:NoExecute']}]";
    assert_eq!(reported(text, other), "");
    // In another order they are the same nodes.
    assert_eq!(reported("nodes: [{}, {name: a}, {name: b}]", "nodes: [{}, {name: b}, {name: a}]"), "");
}

#[test]
fn nodes_come_change_and_go() {
    let known =
        "nodes: [{}, {name: a, memory: 1g, disk: 10g}, {name: b, state: stopped}, {name: c}, {name: d}]";
    let wanted =
        "nodes: [{}, {name: a, memory: 2g, cpus: 2}, {name: b}, {name: c, state: stopped}, {name: e}]";
    insta::assert_snapshot!(reported(known, wanted), @"
    ~ node a: cpus no-limit -> 2 (restarts the node)
    ~ node a: memory 1Gi -> 2Gi (restarts the node)
    ~ node a: disk 10Gi -> (none)
    ~ node b: start
    ~ node c: stop
    + node e: worker
    - node d
    ");
    assert!(changes(&spec(known), &spec(wanted)).iter().all(|change| change.obstacle().is_none()));
}

#[test]
fn control_planes_come_and_go() {
    let reported = reported("nodes: [{}, {name: a}]", "nodes: [{name: b}, {name: a}]");
    assert_eq!(reported, "+ node b: control plane\n- node demo");
}

#[test]
fn a_taint_of_all_control_planes_is_a_change_of_each() {
    let nodes = "nodes: [{}, {name: a, role: control-plane, taints: ['a:NoExecute']}, {name: b}]";
    let tainted = format!("taintControlPlanes: true\n{nodes}");
    insta::assert_snapshot!(reported(nodes, &tainted), @"
    ~ node demo: taints (none) -> node-role.kubernetes.io/control-plane:NoSchedule
    ~ node a: taints a:NoExecute -> a:NoExecute,node-role.kubernetes.io/control-plane:NoSchedule
    ");
    assert!(changes(&spec(&tainted), &spec(nodes)).iter().all(Change::updates_labels));
}

#[test]
fn labels_taints_and_ports_change_while_nodes_run() {
    let known = "nodes: [{labels: {a: b}}, {name: a, taints: ['a=b:NoSchedule'], ports: [80]}]";
    let wanted = "nodes: [{labels: {a: c}}, {name: a, ports: [80, 81:82/udp]}]";
    insta::assert_snapshot!(reported(known, wanted), @"
    ~ node demo: labels a=b -> a=c
    ~ node a: taints a=b:NoSchedule -> (none)
    ~ node a: ports 80:80 -> 80:80,81:82/udp
    ");
    let all = changes(&spec(known), &spec(wanted));
    assert!(all.iter().all(|change| change.obstacle().is_none() && change.restarts().is_none()), "{all:?}");
    assert_eq!(all.iter().map(Change::updates_labels).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(all.iter().map(Change::forwards).collect::<Vec<_>>(), [false, false, true]);
}

#[test]
fn what_a_machine_is_given_at_boot_needs_a_restart_if_it_runs() {
    let reported = reported(
        "nodes: [{}, {name: a}, {name: b, state: stopped}]",
        "nodes: [{mounts: [/a:/b]}, {name: a, mounts: [/a:/b:ro]}, {name: b, mounts: [/a:/b], state: stopped}]",
    );
    insta::assert_snapshot!(reported, @"
    ~ node demo: mounts (none) -> /a:/b (restarts the node)
    ~ node a: mounts (none) -> /a:/b:ro (restarts the node)
    ~ node b: mounts (none) -> /a:/b
    ");
}

#[test]
fn what_cannot_change_says_why() {
    let known = "nodes: [{}, {name: a}]";
    let wanted = "\
kubernetesVersion: v1.36.4
network: {subnet: 10.1.0.0/24, podSubnet: 10.9.0.0/16, nodePodPrefix: 25, serviceSubnet: 10.97.0.0/16, dnsDomain: x.y, cni: none}
apiServer: {names: [a.b], ips: [1.2.3.4]}
extraConfig: [kubelet.max-pods=50]
featureGates: {A: true}
nodes:
- {bundle: abcd, kubelet: {maxPods: 50}}
- name: a
  role: control-plane
  kubernetesVersion: v1.35.0
  extraConfig: [kubelet.v=4]
  featureGates: {B: true}
  kubelet: {maxPods: 50}
";
    insta::assert_snapshot!(reported(known, wanted), @"
    ~ kubernetesVersion v1.37.1 -> v1.36.4 (fixed for the lifetime of the cluster)
    ~ network.subnet (none) -> 10.1.0.0/24 (fixed for the lifetime of the cluster)
    ~ network.podSubnet (none) -> 10.9.0.0/16 (fixed for the lifetime of the cluster)
    ~ network.nodePodPrefix 24 -> 25 (fixed for the lifetime of the cluster)
    ~ network.serviceSubnet 10.96.0.0/12 -> 10.97.0.0/16 (fixed for the lifetime of the cluster)
    ~ network.dnsDomain cluster.local -> x.y (fixed for the lifetime of the cluster)
    ~ network.cni flotilla -> none (fixed for the lifetime of the cluster)
    ~ apiServer (none) -> a.b,1.2.3.4 (fixed for the lifetime of the cluster)
    ~ extraConfig (none) -> kubelet.max-pods=50 (fixed for the lifetime of the cluster)
    ~ featureGates (none) -> A=true (fixed for the lifetime of the cluster)
    ~ node demo: bundle (none) -> abcd (fixed for the lifetime of a control plane)
    ~ node demo: kubelet (none) -> maxPods=50 (fixed for the lifetime of a control plane)
    ~ node a: role worker -> control plane (fixed for the lifetime of a node: delete it and add it again)
    ~ node a: kubernetesVersion (none) -> v1.35.0 (fixed for the lifetime of a node: delete it and add it again)
    ~ node a: extraConfig (none) -> kubelet.v=4 (fixed for the lifetime of a node: delete it and add it again)
    ~ node a: featureGates (none) -> B=true (fixed for the lifetime of a node: delete it and add it again)
    ~ node a: kubelet (none) -> maxPods=50 (fixed for the lifetime of a node: delete it and add it again)
    ");
    let all = changes(&spec(known), &spec(wanted));
    assert!(all.iter().all(|change| change.obstacle().is_some()), "{all:?}");
}

#[test]
fn isolation_is_fixed_for_the_lifetime_of_a_node() {
    let (known, wanted) =
        ("nodes: [{}, {name: a}]", "nodeDefaults: {isolation: user}\nnodes: [{}, {name: a}, {name: b}]");
    insta::assert_snapshot!(reported(known, wanted), @r"
    ~ node demo: isolation none -> user (fixed for the lifetime of a control plane)
    ~ node a: isolation none -> user (fixed for the lifetime of a node: delete it and add it again)
    + node b: worker, isolation user
    ");
}
