//! `flotilla stop`: turns a cluster off; it keeps all it holds.

use flotilla_core::Changed;
use flotilla_engine::store::WhenBusy;
use flotilla_spec::{ClusterName, WantedPower};
use serde::{Deserialize, Serialize};

use crate::{Context, OpError};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub cluster: ClusterName,
    /// Leaves the user's kubeconfig alone.
    pub keep_context: bool,
    pub busy: WhenBusy,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stopped {
    pub cluster: ClusterName,
    pub changed: Changed,
}

/// The clusters that can be stopped, whether they run or not. One that was never saved has nothing to stop.
pub async fn all(cx: &Context<'_>) -> Result<Vec<ClusterName>, OpError> {
    cx.require_root().await?;
    let mut names = cx.store.names()?;
    names.retain(|name| !matches!(cx.store.load(name), Ok(None)));
    Ok(names)
}

pub async fn run(cx: &Context<'_>, request: &Request) -> Result<Stopped, OpError> {
    cx.require_root().await?;
    // Before the lock, which would make a directory.
    let peeked = cx.store.peek_existing(&request.cluster)?;
    let locked = cx.lock(&request.cluster, "flotilla stop", request.busy)?;
    let mut cluster = locked.refresh_existing(peeked)?;
    for node in &mut cluster.spec.nodes {
        node.power = WantedPower::Stopped;
    }
    locked.save(&cluster)?;
    let changed = cx.engine(&request.cluster).stop(&cluster, request.keep_context).await?;
    Ok(Stopped { cluster: request.cluster.clone(), changed })
}
