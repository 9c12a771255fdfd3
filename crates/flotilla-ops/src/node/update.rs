//! `flotilla node update`: changes one node.

use std::time::Duration;

use flotilla_core::{Cluster, Drain};
use flotilla_engine::converge::Engine;
use flotilla_engine::store::WhenBusy;
use flotilla_spec::change::{self as spec_change, Change};
use flotilla_spec::{ClusterName, NodeName};
use serde::{Deserialize, Serialize};

use super::settings::Settings;
use crate::change::{self, Plan, Prepared};
use crate::{Context, OpError, admission, lookup};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub cluster: ClusterName,
    /// A full or short name.
    pub node: String,
    pub settings: Settings,
    /// Also where etcd has no majority while the node restarts.
    pub force: bool,
    /// How long to wait until the node takes pods.
    pub wait_limit: Duration,
    pub busy: WhenBusy,
}

/// What [`prepare`] would give, without the lock: for `--dry-run`. Reports no warnings.
pub async fn plan(cx: &Context<'_>, request: &Request) -> Result<(NodeName, Plan), OpError> {
    cx.require_root().await?;
    checked(cx, &cx.store.get(&request.cluster)?, request).await
}

/// Checks all of it, and holds the lock while a user thinks. Gives the node's full name as well.
pub async fn prepare<'a>(cx: &Context<'a>, request: &Request) -> Result<(NodeName, Prepared<'a>), OpError> {
    cx.require_root().await?;
    let peeked = cx.store.peek_existing(&request.cluster)?;
    lookup::node(&peeked.cluster, Some(&request.node))?;
    let locked = cx.lock(&request.cluster, "flotilla node update", request.busy)?;
    let cluster = locked.refresh_existing(peeked)?;
    let (node, plan) = checked(cx, &cluster, request).await?;
    admission::warn(cx, &plan.wanted);
    // No node goes, so none is drained.
    let drain = Drain { limit: Duration::ZERO, force: request.force };
    let (wait_limit, only) = (request.wait_limit, Some(node.clone()));
    let prepared = Prepared { plan, cx: *cx, locked, cluster, drain, wait_limit, only };
    Ok((node, prepared))
}

async fn checked(
    cx: &Context<'_>,
    cluster: &Cluster,
    request: &Request,
) -> Result<(NodeName, Plan), OpError> {
    let node = lookup::node(cluster, Some(&request.node))?.spec.name;
    let plan = changed(cx, cluster, &node, &request.settings)?;
    plan.feasible(cx, cluster).await?;
    let engine = cx.engine(&request.cluster);
    change::check(&engine, cluster, &plan, request.force).await?;
    check_alone(&engine, cluster, &node, &plan).await?;
    Ok((node, plan))
}

/// Refuses what could be done to the node only if others were started or unpaused for it.
async fn check_alone(
    engine: &Engine<'_>,
    cluster: &Cluster,
    node: &NodeName,
    plan: &Plan,
) -> Result<(), OpError> {
    if plan.changes.iter().any(Change::updates_labels)
        || plan.restarts() && engine.machine(cluster, node).await.is_ok()
    {
        engine.can_start_nodes(cluster, std::slice::from_ref(node)).await?;
    }
    Ok(())
}

/// How the cluster would change. All problems are reported.
fn changed(
    cx: &Context<'_>,
    cluster: &Cluster,
    node: &NodeName,
    settings: &Settings,
) -> Result<Plan, OpError> {
    let mut wanted = cluster.spec.clone();
    for node in wanted.nodes.iter_mut().filter(|known| known.name == *node) {
        settings.apply_to(node)?;
    }
    admission::refuse(cluster.spec.new_problems(wanted.check(&cx.host), &cx.host), None)?;
    Ok(Plan { changes: spec_change::changes(&cluster.spec, &wanted), wanted, file: None })
}
