//! Nodes that get a fraction of a CPU, as on a slow or busy machine: everything takes longer, and nothing fails.

use super::fleet;
use crate::cluster::works_at_once;
use crate::faults::kernel;
use crate::lab::{Cluster, Running};

/// Percent of one CPU. A control plane alone uses about eight seconds of CPU time until it works.
const CONTROL_PLANE: u32 = 15;
const WORKER: u32 = 5;

/// Runs a command, and slows a node down as soon as it has booted.
fn run_slowly(cluster: &Cluster, args: &[&str], node: &str, percent: u32) {
    let mut running = Running::start(&mut cluster.command(args));
    assert!(running.wait_for_end_of_step(&format!("machine/{node}")), "the node has not booted");
    kernel::throttle(cluster, node, percent);
    let (status, last) = running.finish();
    assert_eq!(status, 0, "{args:?}: {last}");
}

pub(super) fn a_slow_control_plane_comes_up(cluster: &Cluster) {
    run_slowly(cluster, &["start"], &cluster.name, CONTROL_PLANE);
    works_at_once(cluster);
}

pub(super) fn a_slow_worker_joins_a_slow_control_plane(cluster: &Cluster) {
    let worker = fleet::worker(cluster, 2);
    run_slowly(cluster, &["node", "add"], &worker, WORKER);
    assert_eq!(fleet::readiness(cluster, &worker), "True");
    works_at_once(cluster);
}
