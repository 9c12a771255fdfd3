//! What is inside a node.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use crate::PROTOCOL;

/// Everything in a node that follows from its cluster. The host computes it, the node applies it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeConfig {
    pub protocol: u32,
    pub hostname: String,
    pub link: Link,
    /// None if another pod network makes its own routes.
    pub routes: Option<PodRoutes>,
    pub virtual_ip: VirtualIp,
    /// By their absolute paths.
    pub files: BTreeMap<String, NodeFile>,
}

/// The node's only link to the world. The host makes it, the node configures it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    pub name: String,
    pub mtu: u32,
    pub address: Ipv4Net,
    pub gateway: Ipv4Addr,
}

/// The routes to the pods of all other nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodRoutes {
    /// Every other route inside this range is removed.
    pub within: Ipv4Net,
    /// The pods of a node, and the node's address.
    pub via: BTreeMap<Ipv4Net, Ipv4Addr>,
}

/// Who has the virtual IP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum VirtualIp {
    /// Never this node.
    None,
    /// This node, always.
    Assigned(Ipv4Net),
    /// One of several control planes, which agree by keepalived. `config` is the text of its file.
    Keepalived { address: Ipv4Net, config: String },
}

/// A file. Everybody in the node may read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFile {
    pub text: String,
    /// Whether it is kept right while the node runs; all are written when it boots.
    pub always: bool,
}

/// What `configure` did, or what it would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configured {
    pub protocol: u32,
    /// What differs, or did: `/etc/hosts`, `the route to 10.244.1.0/24`. For people.
    pub differs: Vec<String>,
}

impl NodeFile {
    /// One that is written at boot.
    pub fn at_boot(text: impl Into<String>) -> Self {
        Self { text: text.into(), always: false }
    }

    /// One that changes while nodes run.
    pub fn always(text: impl Into<String>) -> Self {
        Self { text: text.into(), always: true }
    }
}

impl VirtualIp {
    /// The address, if this node may have it.
    pub fn address(&self) -> Option<Ipv4Net> {
        match self {
            Self::None => None,
            Self::Assigned(address) | Self::Keepalived { address, .. } => Some(*address),
        }
    }
}

impl Configured {
    pub fn new(differs: Vec<String>) -> Self {
        Self { protocol: PROTOCOL, differs }
    }
}
