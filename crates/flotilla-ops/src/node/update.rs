//! `flotilla node update`: changes one node.

use std::time::Duration;

use flotilla_core::{Cluster, Drain};
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
    pub busy: WhenBusy,
}

/// Checks all of it, and holds the lock while a user thinks. Gives the node's full name as well.
pub async fn prepare<'a>(cx: &Context<'a>, request: &Request) -> Result<(NodeName, Prepared<'a>), OpError> {
    cx.require_root().await?;
    let peeked = cx.store.peek_existing(&request.cluster)?;
    lookup::node(&peeked.cluster, Some(&request.node))?;
    let locked = cx.lock(&request.cluster, "flotilla node update", request.busy)?;
    let cluster = locked.refresh_existing(peeked)?;
    let node = lookup::node(&cluster, Some(&request.node))?.spec.name;
    let plan = plan(cx, &cluster, &node, &request.settings)?;
    plan.feasible(cx, &cluster).await?;
    change::check(cx, &cluster, &plan, request.force).await?;
    check_alone(cx, &cluster, &node, &plan).await?;
    admission::warn(cx, &plan.wanted);
    // No node goes, so none is drained.
    let drain = Drain { limit: Duration::ZERO, force: request.force };
    let prepared = Prepared { plan, cx: *cx, locked, cluster, drain, only: Some(node.clone()) };
    Ok((node, prepared))
}

/// Refuses what could be done to the node only if others were started or unpaused for it.
async fn check_alone(
    cx: &Context<'_>,
    cluster: &Cluster,
    node: &NodeName,
    plan: &Plan,
) -> Result<(), OpError> {
    let engine = cx.engine();
    if plan.changes.iter().any(Change::updates_labels)
        || plan.restarts() && engine.machine(cluster.name(), node).await.is_ok()
    {
        engine.can_start_nodes(cluster, std::slice::from_ref(node)).await?;
    }
    Ok(())
}

/// How the cluster would change. All problems are reported.
fn plan(cx: &Context<'_>, cluster: &Cluster, node: &NodeName, settings: &Settings) -> Result<Plan, OpError> {
    let mut wanted = cluster.spec.clone();
    for node in wanted.nodes.iter_mut().filter(|known| known.name == *node) {
        settings.apply_to(node)?;
    }
    admission::refuse(cluster.spec.new_problems(wanted.check(&cx.host), &cx.host), None)?;
    Ok(Plan { changes: spec_change::changes(&cluster.spec, &wanted), wanted, file: None })
}
