//! `flotilla node stop`: turns nodes off; they keep their data.

use flotilla_core::{Changed, Drain};
use flotilla_engine::converge::Leaving;
use flotilla_engine::store::WhenBusy;
use flotilla_spec::{ClusterName, WantedPower};
use serde::{Deserialize, Serialize};

use super::NodesChanged;
use crate::{Context, OpError};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub cluster: ClusterName,
    /// Full or short names.
    pub nodes: Vec<String>,
    /// Move their pods first.
    pub drain: bool,
    pub how: Drain,
    pub busy: WhenBusy,
}

pub async fn run(cx: &Context<'_>, request: &Request) -> Result<NodesChanged, OpError> {
    cx.require_root().await?;
    let peeked = cx.store.peek_existing(&request.cluster)?;
    super::names(&peeked.cluster, &request.nodes)?;
    let locked = cx.lock(&request.cluster, "flotilla node stop", request.busy)?;
    let mut cluster = locked.refresh_existing(peeked)?;
    let nodes = super::names(&cluster, &request.nodes)?;
    let (engine, force) = (cx.engine(&request.cluster), request.how.force);
    if !force {
        engine.can_spare(&cluster, &nodes, Leaving::Stopped).await?;
    }
    let mut changed = Changed::No;
    if request.drain {
        // Before they are wanted stopped: nodes that cannot be drained go on as they were.
        changed = engine.drain_nodes(&cluster, &nodes, request.how).await?;
    }
    for node in cluster.spec.nodes.iter_mut().filter(|node| nodes.contains(&node.name)) {
        node.power = WantedPower::Stopped;
    }
    cluster.spec.hand_over_primary(&nodes);
    locked.save(&cluster)?;
    changed = changed.or(engine.stop_nodes(&cluster, &nodes, force).await?);
    Ok(NodesChanged { cluster: request.cluster.clone(), nodes, changed })
}
