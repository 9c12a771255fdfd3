//! Nodes that are deleted, whatever stands in the way.

use flotilla_linux::net::Net;

use super::fleet;
use super::life::identity;
use crate::faults::{kernel, said};
use crate::lab::{Cluster, PATIENCE, wait_until};

pub(super) fn a_budget_holds_a_node_back(cluster: &Cluster) {
    let node = &fleet::worker(cluster, 3);
    fleet::deploy(cluster, "held", 1, &fleet::only_on(node));
    cluster.apply(
        "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: held}, \
          spec: {minAvailable: 1, selector: {matchLabels: {app: held}}}}",
    );
    cluster.wait_for("condition=Available", &["deployment/held"]);
    wait_until("the budget is counted", PATIENCE, || {
        let healthy = cluster.field(&["pdb", "held"], "{.status.currentHealthy}");
        if healthy == "1" { Ok(()) } else { Err(healthy) }
    });

    let refused = cluster.run(&["node", "delete", node, "--drain-timeout", "3s"]);
    assert!(!refused.status.success(), "{}", said(&refused));
    for part in [node.as_str(), "pod default/held-", "disruption budget"] {
        assert!(said(&refused).contains(part), "no {part:?}: {}", said(&refused));
    }
    assert_eq!(fleet::readiness(cluster, node), "True");
    assert_eq!(fleet::nodes_of(cluster, "held"), [node.as_str()]);

    let refused = cluster.run(&["node", "stop", node, "--drain", "--drain-timeout", "3s"]);
    assert!(!refused.status.success(), "{}", said(&refused));
    assert_eq!(fleet::list(cluster)[2]["Status"], "Running");
    assert_eq!(cluster.field(&["node", node], "{.spec.unschedulable}"), "", "it takes pods as before");
    assert!(cluster.start(&[]).contains("nothing to do"), "it is wanted as it was");

    cluster.succeed(&["node", "delete", node, "--drain-timeout", "1s", "--force"]);
    assert_gone(cluster, node);
    cluster.kubectl(&["delete", "pdb", "held"]);
    fleet::undeploy(cluster, "held");
}

pub(super) fn a_node_of_the_same_name_is_new(cluster: &Cluster) {
    let node = &fleet::worker(cluster, 2);
    fleet::ssh(cluster, node, "echo old > /var/lib/mark; echo old > /etc/mark");
    let old = identity(cluster, node);
    cluster.succeed(&["node", "remove", "m02"]);
    assert_gone(cluster, node);
    assert!(!cluster.state().join("nodes").join(node).exists());

    cluster.succeed(&["node", "create", node]);
    assert_eq!(fleet::readiness(cluster, node), "True");
    let new = identity(cluster, node);
    assert!(new.iter().zip(&old).all(|(new, old)| new != old), "{new:?}, before {old:?}");
    assert_eq!(fleet::ssh(cluster, node, "ls /var/lib/mark /etc/mark 2>/dev/null || true"), "");
    assert!(!fleet::ssh(cluster, node, "crictl images").contains("flotilla.test/busybox"));
    fleet::load_image(cluster, node);
    fleet::probes(cluster);
}

pub(super) fn numbers_are_not_given_twice(cluster: &Cluster) {
    let newest = |cluster: &Cluster| {
        let node = fleet::list(cluster).pop().unwrap();
        ["Name", "IP", "PodCIDR"].map(|field| node[field].as_str().unwrap().to_owned())
    };
    cluster.succeed(&["node", "add"]);
    let first = newest(cluster);
    cluster.succeed(&["node", "delete", &first[0]]);
    cluster.succeed(&["node", "add"]);
    let second = newest(cluster);
    assert!(first.iter().zip(&second).all(|(first, second)| first != second), "{first:?}, then {second:?}");
    let mut ranges: Vec<_> = fleet::list(cluster).iter().map(|node| node["PodCIDR"].to_string()).collect();
    ranges.sort();
    ranges.dedup();
    assert_eq!(ranges.len(), fleet::names(cluster).len(), "{ranges:?}");
}

/// The node that the previous part has added, with its disk. Nothing can end its pods, and the cluster does not know that it is off.
pub(super) fn a_vanished_node_can_be_deleted(cluster: &Cluster) {
    let node = &fleet::names(cluster).pop().unwrap();
    fleet::deploy(cluster, "lost", 1, &fleet::only_on(node));
    cluster.wait_for("condition=Available", &["deployment/lost"]);
    kernel::destroy(cluster, node);
    let deleted = cluster.run(&["node", "delete", node]);
    assert!(deleted.status.success(), "{}", said(&deleted));
    assert!(said(&deleted).contains("skipping the drain"), "{}", said(&deleted));
    assert_gone(cluster, node);
    fleet::undeploy(cluster, "lost");
}

pub(super) fn without_the_api_a_node_can_be_deleted_and_added_again(cluster: &Cluster) {
    let node = &fleet::names(cluster).pop().unwrap();
    let uid = || cluster.field(&["node", node], "{.metadata.uid}");
    let old = uid();
    // Not ended: the kubelet would take its time to bring it back.
    cluster.ssh("kill -STOP $(pidof kube-apiserver)");

    let refused = cluster.run(&["node", "delete", node]);
    assert_eq!(refused.status.code(), Some(89), "{}", said(&refused));
    assert!(fleet::names(cluster).contains(node));
    let deleted = cluster.run(&["node", "delete", "--force", node]);
    assert!(deleted.status.success(), "{}", said(&deleted));
    assert!(said(&deleted).contains("API"), "{}", said(&deleted));
    assert!(!fleet::names(cluster).contains(node));
    assert!(!cluster.state().join("nodes").join(node).exists());

    cluster.ssh("kill -CONT $(pidof kube-apiserver)");
    wait_until("the API answers", PATIENCE, || cluster.try_kubectl(&["get", "--raw", "/livez"]));
    // The cluster could not hear of it, and still lists the old one.
    assert_eq!(uid(), old);
    cluster.succeed(&["node", "add", node]);
    assert_eq!(fleet::readiness(cluster, node), "True");
    assert_ne!(uid(), old);
}

/// Neither the cluster nor Flotilla knows the node or a pod on it.
#[track_caller]
fn assert_gone(cluster: &Cluster, node: &str) {
    assert!(!fleet::names(cluster).iter().any(|name| name == node));
    let listed = cluster.kubectl(&["get", "nodes", "-o", "name"]);
    assert!(!listed.lines().any(|line| line == format!("node/{node}")), "{listed}");
    let here = format!("spec.nodeName={node}");
    // A controller that has not yet heard of it may have tried to bring one back.
    wait_until(&format!("no pods on {node}"), PATIENCE, || {
        let pods = cluster.kubectl(&["get", "pods", "-A", "-o", "name", "--field-selector", &here]);
        if pods.is_empty() { Ok(()) } else { Err(pods) }
    });
    assert_ways(cluster);
}

/// The host knows the way to the pods of the cluster's nodes, and of no others.
#[track_caller]
fn assert_ways(cluster: &Cluster) {
    let ranges = fleet::list(cluster).into_iter().map(|node| node["PodCIDR"].as_str().unwrap().to_owned());
    let ranges: Vec<_> = ranges.collect();
    let routes = Net::here().unwrap().routes().unwrap();
    let first = routes.iter().find(|route| route.dst.to_string() == ranges[0]).unwrap();
    let ways = routes.iter().filter(|route| route.link == first.link && route.via.is_some());
    let ways: Vec<_> = ways.map(|route| route.dst.to_string()).collect();
    assert!(ways.iter().all(|range| ranges.contains(range)), "{ways:?}, of {ranges:?}");
}
