//! A control plane, and workers that come and go.

use super::{assert_ready, counted, listed, said, text};
use crate::lab::{self, Cluster};

const RUNNING: [&str; 2] = ["host: Running", "kubelet: Running"];
const STOPPED: [&str; 2] = ["host: Stopped", "kubelet: Stopped"];

pub(super) fn two_nodes_start_quietly(cluster: &Cluster) {
    let args = [
        "start",
        "--wait=true",
        "--memory=3072",
        "--nodes=2",
        "--driver=native",
        "--container-runtime=containerd",
    ];
    let started = cluster.run(&args);
    assert!(started.status.success(), "{}", said(&started));
    assert_eq!(text(&started.stderr), "");
    assert_eq!(counted(cluster, RUNNING), (Some(0), [2, 2]));
}

pub(super) fn a_node_is_added(cluster: &Cluster) {
    cluster.succeed(&["node", "add", "-v=5", "--alsologtostderr"]);
    assert_eq!(counted(cluster, RUNNING), (Some(0), [3, 3]));
    let nodes = listed(cluster)["Config"]["Nodes"].as_array().map(Vec::len);
    assert_eq!(nodes, Some(3));
}

pub(super) fn a_stopped_node_is_seen(cluster: &Cluster) {
    cluster.succeed(&["node", "stop", "m03"]);
    assert_eq!(counted(cluster, RUNNING), (Some(7), [2, 2]));
    assert_eq!(counted(cluster, STOPPED), (Some(7), [1, 1]));
}

pub(super) fn a_started_node_is_back(cluster: &Cluster) {
    cluster.succeed(&["node", "start", "m03", "-v=5", "--alsologtostderr"]);
    assert_eq!(counted(cluster, RUNNING), (Some(0), [3, 3]));
    assert_ready(cluster, 3);
}

pub(super) fn a_node_is_deleted(cluster: &Cluster) {
    cluster.succeed(&["node", "delete", "m03"]);
    assert_eq!(counted(cluster, RUNNING), (Some(0), [2, 2]));
    assert_ready(cluster, 2);
}

pub(super) fn a_stopped_cluster_starts_again(cluster: &Cluster) {
    cluster.succeed(&["stop"]);
    assert_eq!(counted(cluster, STOPPED), (Some(7), [2, 2]));
    cluster.start(&["--wait=true", "-v=5", "--alsologtostderr"]);
    assert_eq!(counted(cluster, RUNNING), (Some(0), [2, 2]));
    assert_ready(cluster, 2);
}

/// The names of machines are one space: clusters have the name of their first.
pub(super) fn no_cluster_takes_the_name_of_a_node(cluster: &Cluster) {
    let name = format!("{}-m02", cluster.name);
    let refused = lab::run(&lab::real_home(), &["start", "-p", &name]);
    assert_eq!(refused.status.code(), Some(14), "{}", said(&refused));
}
