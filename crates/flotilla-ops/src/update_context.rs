//! `flotilla update-context`: puts the cluster into the user's kubeconfig and makes it the current context.

use flotilla_core::{ApiAccess, Changed, Cluster};
use flotilla_engine::EngineError;
use flotilla_spec::ClusterName;
use serde::{Deserialize, Serialize};

use crate::{Context, OpError, lookup};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub cluster: ClusterName,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Updated {
    pub cluster: ClusterName,
    pub changed: Changed,
    /// The file that has the cluster.
    pub kubeconfig: String,
    /// The URL of the API, as it is reached from here.
    pub server: String,
}

pub async fn run(cx: &Context<'_>, request: &Request) -> Result<Updated, OpError> {
    let cluster = lookup::cluster(cx, &request.cluster).await?;
    let access = access(cx, &cluster).await?;
    let name = cluster.name();
    let changed = cx.kubeconfig.put(name, &access).map_err(EngineError::from)?;
    let kubeconfig = cx.kubeconfig.path(name).display().to_string();
    Ok(Updated { cluster: name.clone(), changed, kubeconfig, server: access.server })
}

/// By the first control plane that is on and has it.
async fn access(cx: &Context<'_>, cluster: &Cluster) -> Result<ApiAccess, EngineError> {
    let engine = cx.engine(cluster.name());
    for node in cluster.spec.control_planes() {
        let machine = match engine.machine(cluster, &node.name).await {
            Err(EngineError::NotRunning { .. } | EngineError::Stopped(_)) => continue,
            machine => machine?,
        };
        if let Some(access) = engine.access(cluster, machine.as_ref()).await? {
            return Ok(access);
        }
    }
    Err(EngineError::Stopped(cluster.name().clone()))
}
