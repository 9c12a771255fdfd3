//! Three control planes, one of which comes and goes.

use super::{assert_ready, counted, listed};
use crate::lab::Cluster;

const RUNNING: [&str; 3] = ["host: Running", "kubelet: Running", "apiserver: Running"];
const STOPPED: [&str; 3] = ["host: Stopped", "kubelet: Stopped", "apiserver: Stopped"];

pub(super) fn three_start(cluster: &Cluster) {
    cluster.start(&["--ha", "--memory", "3072", "--wait", "true", "-v=5", "--alsologtostderr"]);
    assert_eq!(counted(cluster, RUNNING), (Some(0), [3, 3, 3]));
    assert_ready(cluster, 3);
}

pub(super) fn a_worker_is_added(cluster: &Cluster) {
    cluster.succeed(&["node", "add", "-v=5", "--alsologtostderr"]);
    assert_eq!(counted(cluster, RUNNING), (Some(0), [4, 4, 3]));
}

pub(super) fn three_are_happy(cluster: &Cluster) {
    assert_eq!(listed(cluster)["Status"], "HAppy");
}

pub(super) fn two_are_degraded(cluster: &Cluster) {
    assert_eq!(listed(cluster)["Status"], "Degraded");
}

pub(super) fn one_is_stopped(cluster: &Cluster) {
    cluster.succeed(&["node", "stop", "m02", "-v=5", "--alsologtostderr"]);
    assert_eq!(counted(cluster, RUNNING), (Some(7), [3, 3, 2]));
    assert_eq!(counted(cluster, STOPPED), (Some(7), [1, 1, 1]));
}

pub(super) fn it_is_started_again(cluster: &Cluster) {
    cluster.succeed(&["node", "start", "m02", "-v=5", "--alsologtostderr"]);
    assert_eq!(counted(cluster, RUNNING), (Some(0), [4, 4, 3]));
    assert_ready(cluster, 4);
}

pub(super) fn one_is_deleted(cluster: &Cluster) {
    cluster.succeed(&["node", "delete", "m03", "-v=5", "--alsologtostderr"]);
    assert_eq!(counted(cluster, RUNNING), (Some(0), [3, 3, 2]));
    assert_ready(cluster, 3);
}

pub(super) fn a_stopped_cluster_starts_again(cluster: &Cluster) {
    cluster.succeed(&["stop", "-v=5", "--alsologtostderr"]);
    assert_eq!(counted(cluster, STOPPED), (Some(7), [3, 3, 2]));
    cluster.start(&["--wait", "true", "-v=5", "--alsologtostderr"]);
    assert_eq!(counted(cluster, RUNNING), (Some(0), [3, 3, 2]));
    assert_ready(cluster, 3);
}

pub(super) fn one_is_added(cluster: &Cluster) {
    cluster.succeed(&["node", "add", "--control-plane", "-v=5", "--alsologtostderr"]);
    assert_eq!(counted(cluster, RUNNING), (Some(0), [4, 4, 3]));
    assert_ready(cluster, 4);
}
