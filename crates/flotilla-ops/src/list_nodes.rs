//! `flotilla node list`: from the state and the machines alone, so that it answers also while the API does not.

use std::collections::BTreeMap;

use flotilla_core::{Cluster, Machine, Node, Power};
use flotilla_spec::{ClusterName, NodeSpec};
use serde::{Deserialize, Serialize};

use crate::{Context, OpError, lookup};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub cluster: ClusterName,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedNode {
    pub node: Node,
    pub status: Status,
    /// Of its kubelet.
    pub version: String,
    /// All of the host's where it has no limit.
    pub cpus: u32,
    /// In bytes; all of the host's where it has no limit.
    pub memory: u64,
    /// What its driver tells of its machine: see [`Machine::details`].
    pub details: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    Running,
    Paused,
    Stopped,
    /// Its host does not answer.
    Unknown,
}

pub async fn run(cx: &Context<'_>, request: &Request) -> Result<Vec<ListedNode>, OpError> {
    let cluster = lookup::cluster(cx, &request.cluster).await?;
    let machines = cx.engine(cluster.name()).machines(&cluster).await?;
    let mut nodes = Vec::new();
    for node in cluster.nodes() {
        let machine = machines.get(&node.spec.name).map(AsRef::as_ref);
        nodes.push(ListedNode {
            status: status(cx, machine).await,
            version: version(cx, &cluster, &node.spec),
            cpus: node.spec.cpus.count_on(&cx.host).unwrap_or(cx.host.cpus),
            memory: node.spec.memory.bytes_on(&cx.host).unwrap_or(cx.host.memory),
            details: machine.map(Machine::details).unwrap_or_default(),
            node,
        });
    }
    Ok(nodes)
}

async fn status(cx: &Context<'_>, machine: Option<&dyn Machine>) -> Status {
    let Some(machine) = machine else { return Status::Stopped };
    match machine.state().power {
        Power::On if cx.bootstrapper.is_paused(machine).await => Status::Paused,
        Power::On => Status::Running,
        Power::Off => Status::Stopped,
        Power::Unknown(_) => Status::Unknown,
    }
}

/// Of a node with a bundle of its own, that of the bundle.
fn version(cx: &Context<'_>, cluster: &Cluster, node: &NodeSpec) -> String {
    let digest = node.bundle.as_ref().map(|_| cluster.allocations.bundle_of(&node.name));
    let bundle = digest.and_then(|digest| cx.bundles.find(digest).ok());
    bundle.map_or_else(|| cluster.spec.version_of(node).to_string(), |bundle| bundle.kubernetes.to_string())
}
