//! Nodes whose Kubernetes is older than the cluster's, each with a bundle of its own.

use std::fs;

use super::fleet;
use crate::lab::{self, Cluster, OLDER, PATIENCE, wait_until};

/// The node that is given a version, and the one that is given a bundle.
const OLD: &str = "tn-old";
const BUNDLE: &str = "tn-bundle";

pub(super) fn an_older_node_is_one_of_the_cluster(cluster: &Cluster) {
    lab::older_digest();
    cluster.succeed(&["node", "add", OLD, "--kubernetes-version", OLDER]);
    fleet::load_image(cluster, OLD);
    assert_eq!(fleet::readiness(cluster, OLD), "True");
    for (node, version) in [(cluster.name.as_str(), lab::VERSION), (OLD, OLDER)] {
        assert_eq!(cluster.field(&["node", node], "{.status.nodeInfo.kubeletVersion}"), version);
        let listed = fleet::list(cluster);
        assert_eq!(listed.iter().find(|it| it["Name"] == node).unwrap()["Version"], version);
    }
    // What comes from the cluster is of the cluster's version, also there.
    let there = format!("--field-selector=spec.nodeName={OLD}");
    let proxy = ["pods", "-n", "kube-system", "-l", "k8s-app=kube-proxy", &there];
    let reported = "{.items[*].spec.containers[0].image} {.items[*].status.phase}";
    wait_until("its proxy runs", PATIENCE, || {
        let reported = cluster.field(&proxy, reported);
        let wanted = format!("kube-proxy:{} Running", lab::VERSION);
        if reported.ends_with(&wanted) { Ok(()) } else { Err(reported) }
    });
    let probes = fleet::probes(cluster);
    let probe = probes.iter().find(|probe| probe.node == OLD).unwrap();
    probe.page(cluster, "any");
}

pub(super) fn a_node_has_the_bundle_it_was_given(cluster: &Cluster) {
    let digest = lab::older_digest();
    cluster.succeed(&["node", "add", BUNDLE, "--bundle", &digest[..12]]);
    assert_eq!(fleet::readiness(cluster, BUNDLE), "True");
    let bundle = fs::read_to_string(cluster.state().join("nodes").join(BUNDLE).join("bundle")).unwrap();
    assert_eq!(bundle.trim(), digest);
    assert_eq!(cluster.field(&["node", BUNDLE], "{.status.nodeInfo.kubeletVersion}"), OLDER);
}
