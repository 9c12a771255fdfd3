//! `flotilla delete`: removes a cluster with all it holds.

use flotilla_core::Changed;
use flotilla_engine::store::WhenBusy;
use flotilla_spec::ClusterName;
use serde::{Deserialize, Serialize};

use crate::{Context, OpError};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub cluster: ClusterName,
    pub busy: WhenBusy,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deleted {
    pub cluster: ClusterName,
    /// No if there was nothing of that name: that is a success.
    pub changed: Changed,
}

/// The clusters that can be deleted, intact or damaged.
pub async fn all(cx: &Context<'_>) -> Result<Vec<ClusterName>, OpError> {
    cx.require_root().await?;
    Ok(cx.store.names()?)
}

/// Does not read the cluster's state, which may be damaged or gone: the name is enough.
pub async fn run(cx: &Context<'_>, request: &Request) -> Result<Deleted, OpError> {
    cx.require_root().await?;
    let locked = cx.lock(&request.cluster, "flotilla delete", request.busy)?;
    let changed = cx.engine(&request.cluster).delete(&locked).await?;
    Ok(Deleted { cluster: request.cluster.clone(), changed })
}
