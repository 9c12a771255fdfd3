//! What `apply` may do to the control plane, looked at before anything is done.

use flotilla_engine::converge::Leaving;
use flotilla_engine::{Cluster, EngineError};
use flotilla_spec::{Change, NodeName, NodeSpec, Role, WantedPower};

use super::removed;
use crate::cluster::Cx;
use crate::commands::file::Plan;
use crate::failure::Failure;

/// Refuses what would cost the cluster its control plane.
pub(super) fn check(cx: &Cx, cluster: &Cluster, plan: &Plan, force: bool) -> Result<(), Failure> {
    let runs = |node: &NodeSpec| node.power == WantedPower::Running;
    let primary = &cluster.spec.primary().name;
    // Where all stop together none has to be spared.
    if force || !plan.wanted.control_planes().any(runs) {
        return Ok(());
    }
    let (mut gone, mut stopped) = (names(plan, removed), names(plan, stopped));
    let is_control_plane = |name: &NodeName| cluster.spec.control_planes().any(|node| node.name == *name);
    gone.retain(is_control_plane);
    stopped.retain(is_control_plane);
    let primary_runs = plan.wanted.control_planes().any(|node| runs(node) && node.name == *primary);
    let is_on = cx.wait(cx.engine().control_plane_is_on(cluster))?;
    // All that is certain about control planes that are off is that the primary one is a member of etcd.
    let begins_there = primary_runs && gone.is_empty();
    if !is_on && !begins_there {
        let (cluster, node) = (cx.name.clone(), primary.clone());
        return Err(EngineError::NotRunning { cluster, node }.into());
    }
    // Those that come do so first, and make it only easier.
    if plan.changes.iter().any(|change| matches!(change, Change::Add { role: Role::ControlPlane, .. })) {
        return Ok(());
    }
    cx.wait(cx.engine().can_spare(cluster, &gone, Leaving::Deleted))?;
    Ok(cx.wait(cx.engine().can_spare(cluster, &stopped, Leaving::Stopped))?)
}

fn names(plan: &Plan, which: fn(&Change) -> Option<&NodeName>) -> Vec<NodeName> {
    plan.changes.iter().filter_map(which).cloned().collect()
}

fn stopped(change: &Change) -> Option<&NodeName> {
    match change {
        Change::Stop { node } => Some(node),
        _ => None,
    }
}
