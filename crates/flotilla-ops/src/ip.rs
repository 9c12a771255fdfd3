//! `flotilla ip`: the address of a node.

use std::net::Ipv4Addr;

use flotilla_spec::{ClusterName, NodeName};
use serde::{Deserialize, Serialize};

use crate::{Context, OpError, lookup};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub cluster: ClusterName,
    /// By its full or short name; the primary one if none is named.
    pub node: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAddress {
    pub name: NodeName,
    pub ip: Ipv4Addr,
}

pub async fn run(cx: &Context<'_>, request: &Request) -> Result<NodeAddress, OpError> {
    let cluster = lookup::cluster(cx, &request.cluster).await?;
    let node = lookup::node(&cluster, request.node.as_deref())?;
    Ok(NodeAddress { name: node.spec.name, ip: node.address })
}
