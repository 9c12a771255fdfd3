//! `flotilla node delete`: drains nodes, removes them from the cluster and deletes their data.

use flotilla_core::{Changed, Drain};
use flotilla_engine::EngineError;
use flotilla_engine::converge::Leaving;
use flotilla_engine::store::WhenBusy;
use flotilla_spec::ClusterName;
use serde::{Deserialize, Serialize};

use super::NodesChanged;
use crate::{Context, OpError};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub cluster: ClusterName,
    /// Full or short names.
    pub nodes: Vec<String>,
    pub drain: Drain,
    pub busy: WhenBusy,
}

pub async fn run(cx: &Context<'_>, request: &Request) -> Result<NodesChanged, OpError> {
    cx.require_root().await?;
    let peeked = cx.store.peek_existing(&request.cluster)?;
    super::names(&peeked.cluster, &request.nodes)?;
    let locked = cx.lock(&request.cluster, "flotilla node delete", request.busy)?;
    let mut cluster = locked.refresh_existing(peeked)?;
    let nodes = super::names(&cluster, &request.nodes)?;
    if cluster.spec.control_planes().all(|node| nodes.contains(&node.name)) {
        let going = cluster.spec.control_planes().count();
        return Err(EngineError::LastControlPlane { cluster: request.cluster.clone(), going }.into());
    }
    let engine = cx.engine(&request.cluster);
    if !request.drain.force {
        engine.can_spare(&cluster, &nodes, Leaving::Deleted).await?;
    }
    engine.delete_nodes(&locked, &mut cluster, &nodes, request.drain).await?;
    Ok(NodesChanged { cluster: request.cluster.clone(), nodes, changed: Changed::Yes })
}
