//! `flotilla pause` and `unpause`: freezes and thaws containers.

use std::sync::Arc;

use flotilla_core::{Cluster, Machine, Power};
use flotilla_engine::EngineError;
use flotilla_engine::converge::Engine;
use flotilla_engine::store::WhenBusy;
use flotilla_spec::{ClusterName, NodeName};
use serde::{Deserialize, Serialize};

use crate::{Context, OpError, lookup};

/// Where etcd and the API server are.
const SYSTEM: &str = "kube-system";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub cluster: ClusterName,
    /// The full or short name of one node; the whole cluster if none is named.
    pub node: Option<String>,
    /// All namespaces if none is named.
    pub namespaces: Option<Vec<String>>,
    pub change: Change,
    pub busy: WhenBusy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// One node only if etcd keeps its majority, unless it is forced.
    Pause {
        force: bool,
    },
    Unpause,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Paused {
    pub cluster: ClusterName,
    /// If it was one node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    /// How many were frozen or thawed.
    pub containers: usize,
}

pub async fn run(cx: &Context<'_>, request: &Request) -> Result<Paused, OpError> {
    cx.require_root().await?;
    let peeked = cx.store.peek_existing(&request.cluster)?;
    let find = |cluster: &Cluster| -> Result<Option<NodeName>, OpError> {
        let node = request.node.as_deref();
        node.map(|node| Ok(lookup::node(cluster, Some(node))?.spec.name)).transpose()
    };
    find(&peeked.cluster)?;
    let what = match request.change {
        Change::Pause { .. } => "flotilla pause",
        Change::Unpause => "flotilla unpause",
    };
    let locked = cx.lock(&request.cluster, what, request.busy)?;
    let cluster = locked.refresh_existing(peeked)?;
    let namespaces = request.namespaces.as_deref();
    let engine = cx.engine(&request.cluster);
    let node = find(&cluster)?;
    let machines = match &node {
        Some(node) => vec![machine_of(&engine, &cluster, node, request).await?],
        None => running(&engine, &cluster).await?,
    };
    let mut containers = 0;
    for machine in machines {
        let done = match request.change {
            Change::Pause { .. } => cx.bootstrapper.pause(machine.as_ref(), namespaces).await,
            Change::Unpause => cx.bootstrapper.unpause(machine.as_ref(), namespaces).await,
        };
        containers += done.map_err(EngineError::from)?;
    }
    Ok(Paused { cluster: request.cluster.clone(), node, containers })
}

/// The machine of one node, if it may be paused.
async fn machine_of(
    engine: &Engine<'_>,
    cluster: &Cluster,
    node: &NodeName,
    request: &Request,
) -> Result<Arc<dyn Machine>, OpError> {
    let machine = engine.machine(cluster, node).await?;
    let namespaces = request.namespaces.as_deref();
    let freezes_etcd = namespaces.is_none_or(|names| names.iter().any(|name| name == SYSTEM));
    if request.change == (Change::Pause { force: false })
        && freezes_etcd
        && !engine.bootstrapper.is_paused(machine.as_ref()).await
    {
        engine.can_pause(cluster, node).await?;
    }
    Ok(machine)
}

/// The machines that run; that of a control plane must.
async fn running(engine: &Engine<'_>, cluster: &Cluster) -> Result<Vec<Arc<dyn Machine>>, OpError> {
    if !engine.control_plane_is_on(cluster).await? {
        return Err(EngineError::Stopped(cluster.name().clone()).into());
    }
    let machines = engine.machines(cluster).await?.into_values();
    Ok(machines.filter(|machine| machine.state().power == Power::On).collect())
}
