//! The commands of minikube's own tests of several nodes, in their order and with what those tests look at. Scripts that were
//! written for minikube do the same.

mod control_planes;
mod workers;

use std::collections::BTreeSet;
use std::process::Output;

use serde_json::Value;

use crate::cluster::{Part, run};
use crate::lab::{self, Cluster};
use crate::nodes::fleet;

/// minikube's labels of every node.
const LABELS: [&str; 5] = ["name", "version", "commit", "updated_at", "primary"];

pub(crate) fn its_multi_node_commands_do_what_its_tests_expect() {
    let cluster = Cluster::new(lab::real_home(), "tm-nodes");
    let parts: &[Part] = &[
        ("two nodes start and say nothing on stderr", workers::two_nodes_start_quietly),
        ("pods are on both nodes and know names", pods_are_on_all_nodes),
        ("a node is added", workers::a_node_is_added),
        ("nodes have minikube's labels", nodes_have_its_labels),
        ("files are copied between all", files_are_copied_between_all),
        ("a stopped node is seen", workers::a_stopped_node_is_seen),
        ("a started node is back", workers::a_started_node_is_back),
        ("a restart keeps the nodes", a_restart_keeps_the_nodes),
        ("a node is deleted", workers::a_node_is_deleted),
        ("a stopped cluster is seen, and starts again", workers::a_stopped_cluster_starts_again),
        ("no cluster takes the name of a node", workers::no_cluster_takes_the_name_of_a_node),
        ("a deleted cluster is in no list", a_deleted_cluster_is_in_no_list),
    ];
    run(&cluster, parts);
}

pub(crate) fn its_control_plane_commands_do_what_its_tests_expect() {
    let cluster = Cluster::new(lab::real_home(), "tm-ha");
    let parts: &[Part] = &[
        ("three control planes start", control_planes::three_start),
        ("pods are on all control planes and know names", pods_are_on_all_nodes),
        ("a worker is added", control_planes::a_worker_is_added),
        ("nodes have minikube's labels", nodes_have_its_labels),
        ("three are HAppy", control_planes::three_are_happy),
        ("files are copied between all", files_are_copied_between_all),
        ("one of them is stopped", control_planes::one_is_stopped),
        ("two are Degraded", control_planes::two_are_degraded),
        ("it is started again", control_planes::it_is_started_again),
        ("three are HAppy again", control_planes::three_are_happy),
        ("a restart keeps the nodes", a_restart_keeps_the_nodes),
        ("one of them is deleted", control_planes::one_is_deleted),
        ("two are Degraded again", control_planes::two_are_degraded),
        ("a stopped cluster is seen, and starts again", control_planes::a_stopped_cluster_starts_again),
        ("one is added", control_planes::one_is_added),
        ("three are HAppy in the end", control_planes::three_are_happy),
        ("a deleted cluster is in no list", a_deleted_cluster_is_in_no_list),
    ];
    run(&cluster, parts);
}

fn pods_are_on_all_nodes(cluster: &Cluster) {
    fleet::run_on(cluster);
    let probes = fleet::probes(cluster);
    let addresses: BTreeSet<&String> = probes.iter().map(|probe| &probe.ip).collect();
    assert_eq!(addresses.len(), fleet::names(cluster).len());
    for probe in probes {
        probe.run(cluster, "nslookup -type=a kubernetes.default.svc.cluster.local").unwrap();
        // nslookup does not look for short names in the pod's domains; nobody answers for a service's address.
        let short = "ping -c 1 -W 1 kubernetes.default | grep '^PING kubernetes.default (10[.]'";
        probe.run(cluster, short).unwrap();
        let host =
            "nslookup -type=a host.minikube.internal | awk '/^Address/ { last = $NF } END { print last }'";
        let address = probe.run(cluster, host).unwrap();
        probe.run(cluster, &format!("ping -c 1 {address}")).unwrap();
    }
}

fn nodes_have_its_labels(cluster: &Cluster) {
    for node in cluster.get(&["nodes"])["items"].as_array().unwrap() {
        for label in LABELS {
            let label = format!("minikube.k8s.io/{label}");
            assert!(
                node["metadata"]["labels"][&label].is_string(),
                "{label} of {}",
                node["metadata"]["name"]
            );
        }
    }
    let primary = ["nodes", "-l", "minikube.k8s.io/primary=true"];
    assert_eq!(cluster.field(&primary, "{.items[*].metadata.name}"), cluster.name);
}

/// From the host to each node, from there to the host, and to every other node.
fn files_are_copied_between_all(cluster: &Cluster) {
    const PLACE: &str = "/home/docker/cp-test.txt";
    let folder = tempfile::tempdir().unwrap();
    let (original, back) = (folder.path().join("cp-test.txt"), folder.path().join("back.txt"));
    std::fs::write(&original, "Test file for checking file cp process").unwrap();
    let (original, back) = (original.to_str().unwrap(), back.to_str().unwrap());
    let read = |node: &str, place: &str| {
        cluster.succeed(&["ssh", "-n", node, &format!("sudo cat {place}")]).trim_end().to_owned()
    };
    let expected = std::fs::read_to_string(original).unwrap();
    let nodes = fleet::names(cluster);
    for node in &nodes {
        cluster.succeed(&["cp", original, &format!("{node}:{PLACE}")]);
        assert_eq!(read(node, PLACE), expected);
        cluster.succeed(&["cp", &format!("{node}:{PLACE}"), back]);
        assert_eq!(std::fs::read_to_string(back).unwrap(), expected);
        for other in nodes.iter().filter(|other| *other != node) {
            let place = format!("/home/docker/cp-test_{node}_{other}.txt");
            cluster.succeed(&["cp", &format!("{node}:{PLACE}"), &format!("{other}:{place}")]);
            assert_eq!(read(other, &place), expected);
        }
    }
}

fn a_restart_keeps_the_nodes(cluster: &Cluster) {
    let before = cluster.succeed(&["node", "list"]);
    cluster.succeed(&["stop", "-v=5", "--alsologtostderr"]);
    cluster.start(&["--wait=true", "-v=5", "--alsologtostderr"]);
    assert_eq!(cluster.succeed(&["node", "list"]), before);
}

/// What `status` says, and its exit status.
fn status(cluster: &Cluster) -> (Option<i32>, String) {
    let said = cluster.run(&["status", "--alsologtostderr"]);
    (said.status.code(), text(&said.stdout))
}

/// Its exit status, and how often each line is among what `status` says.
fn counted<const N: usize>(cluster: &Cluster, lines: [&str; N]) -> (Option<i32>, [usize; N]) {
    let (code, said) = status(cluster);
    (code, lines.map(|line| said.matches(line).count()))
}

fn a_deleted_cluster_is_in_no_list(cluster: &Cluster) {
    cluster.succeed(&["delete"]);
    assert_eq!(entry(cluster), None);
}

/// The cluster in `profile list`.
fn listed(cluster: &Cluster) -> Value {
    entry(cluster).unwrap()
}

fn entry(cluster: &Cluster) -> Option<Value> {
    let listed: Value =
        serde_json::from_str(&cluster.succeed(&["profile", "list", "--output", "json"])).unwrap();
    let all = [&listed["valid"], &listed["invalid"]].map(|list| list.as_array().unwrap().clone()).concat();
    all.into_iter().find(|it| it["Name"] == cluster.name.as_str())
}

/// All nodes of the API are Ready, and there are so many.
fn assert_ready(cluster: &Cluster, count: usize) {
    let ready = "{range .items[*]}{.status.conditions[?(@.type==\"Ready\")].status} {end}";
    assert_eq!(cluster.field(&["nodes"], ready).split_whitespace().collect::<Vec<_>>(), vec!["True"; count]);
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// All that a command said.
fn said(output: &Output) -> String {
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}
