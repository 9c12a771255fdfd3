//! `flotilla node start`: turns nodes on.

use std::time::Duration;

use flotilla_engine::converge::Wait;
use flotilla_engine::store::WhenBusy;
use flotilla_spec::{ClusterName, WantedPower};
use serde::{Deserialize, Serialize};

use super::NodesChanged;
use crate::admission::ranges;
use crate::{Context, OpError, bring_up};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub cluster: ClusterName,
    /// Full or short names; all nodes if none is named.
    pub nodes: Vec<String>,
    /// How long to wait until the nodes take pods.
    pub wait_limit: Duration,
    pub busy: WhenBusy,
}

pub async fn run(cx: &Context<'_>, request: &Request) -> Result<NodesChanged, OpError> {
    cx.require_root().await?;
    let peeked = cx.store.peek_existing(&request.cluster)?;
    super::names(&peeked.cluster, &request.nodes)?;
    let locked = cx.lock(&request.cluster, "flotilla node start", request.busy)?;
    let mut cluster = locked.refresh_existing(peeked)?;
    let asked_for = super::names(&cluster, &request.nodes)?;
    let all = cluster.spec.nodes.iter().map(|node| node.name.clone());
    let nodes = if asked_for.is_empty() { all.collect() } else { asked_for.clone() };
    for node in cluster.spec.nodes.iter_mut().filter(|node| nodes.contains(&node.name)) {
        node.power = WantedPower::Running;
    }
    // Whoever starts a node wants to keep it.
    cluster.allocations.leaving.retain(|node| !asked_for.contains(node));
    super::require_running_control_plane(&cluster)?;
    let engine = cx.engine(&request.cluster);
    ranges::check(&engine, &cluster, false).await?;
    let changed = if asked_for.is_empty() {
        locked.save(&cluster)?;
        bring_up::start(&engine, &locked, &mut cluster, &Wait::for_cluster(request.wait_limit)).await?
    } else {
        engine.can_start_nodes(&cluster, &asked_for).await?;
        locked.save(&cluster)?;
        let wait = Wait::for_nodes(request.wait_limit);
        bring_up::start_nodes(&engine, &locked, &mut cluster, &asked_for, &wait).await?
    };
    Ok(NodesChanged { cluster: request.cluster.clone(), nodes, changed })
}
