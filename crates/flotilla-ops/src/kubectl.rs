//! `flotilla kubectl`: the program and the kubeconfig with which a user reaches a cluster.

use std::path::PathBuf;

use flotilla_engine::EngineError;
use flotilla_spec::ClusterName;
use serde::{Deserialize, Serialize};

use crate::{Context, OpError, lookup};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub cluster: ClusterName,
}

/// Files of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kubectl {
    /// The bundle's, of the cluster's version.
    pub program: PathBuf,
    /// It has this cluster and no other.
    pub kubeconfig: PathBuf,
}

/// Refuses if no control plane is on. Else kubectl would say that there is no route to the host, which does not help.
pub async fn run(cx: &Context<'_>, request: &Request) -> Result<Kubectl, OpError> {
    let cluster = lookup::cluster(cx, &request.cluster).await?;
    if !cx.engine(cluster.name()).control_plane_is_on(&cluster).await? {
        return Err(EngineError::Stopped(cluster.name().clone()).into());
    }
    let program = cx.bundles.kubectl(&cluster.allocations.bundle);
    Ok(Kubectl { program, kubeconfig: cx.kubeconfig.own_path(cluster.name()) })
}
