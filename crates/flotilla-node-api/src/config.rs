//! What is inside a node.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use crate::service::ServiceSpec;

/// The mode of a file that everybody in the node may read.
const PUBLIC: u32 = 0o644;
/// The mode of a file that only root may read.
const PRIVATE: u32 = 0o600;
/// The first protocol whose files have modes and bytes. An older node would let everybody read them.
const FILES_WITH_MODES: u32 = 2;

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
    /// What PID 1 runs, from the next boot on. Empty: what every node has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<ServiceSpec>,
}

/// The node's only link to the world. The host makes it, the node configures it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    pub name: String,
    /// None stands for whatever it is.
    #[serde(default)]
    pub mtu: Option<u32>,
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

/// A file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFile {
    #[serde(flatten)]
    pub content: Content,
    /// Who may read it. The directories above it are open to everybody in the node.
    #[serde(default = "public", skip_serializing_if = "is_public")]
    pub mode: u32,
    /// Whether it is kept right while the node runs; all are written when it boots.
    pub always: bool,
}

/// What is in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Content {
    Text(String),
    Bytes(Vec<u8>),
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
        Self { content: Content::Text(text.into()), mode: PUBLIC, always: false }
    }

    /// One that changes while nodes run.
    pub fn always(text: impl Into<String>) -> Self {
        Self { always: true, ..Self::at_boot(text) }
    }

    /// The same file, for root alone.
    #[must_use]
    pub fn private(self) -> Self {
        Self { mode: PRIVATE, ..self }
    }

    pub fn bytes(&self) -> &[u8] {
        match &self.content {
            Content::Text(text) => text.as_bytes(),
            Content::Bytes(bytes) => bytes,
        }
    }

    /// Whether protocol 1 can say it: a text that everybody may read.
    fn is_public_text(&self) -> bool {
        matches!(self.content, Content::Text(_)) && is_public(&self.mode)
    }
}

fn public() -> u32 {
    PUBLIC
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_public(mode: &u32) -> bool {
    *mode == PUBLIC
}

impl NodeConfig {
    /// The same in an older protocol, which leaves out what nodes of that protocol would misunderstand. Services are for nodes
    /// that boot, which have our version.
    #[must_use]
    pub fn in_protocol(&self, protocol: u32) -> Self {
        let mut config = Self { protocol, services: Vec::new(), ..self.clone() };
        if protocol < FILES_WITH_MODES {
            config.files.retain(|_, file| file.is_public_text());
        }
        config
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
    /// The answer to a configuration of a protocol, which has to be in the same.
    pub fn new(protocol: u32, differs: Vec<String>) -> Self {
        Self { protocol, differs }
    }
}
