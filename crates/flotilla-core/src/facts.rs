//! What has to be known of a host before the inside of a node can be computed.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

/// A host, as far as it matters inside nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    /// Whether containers may be protected from the out-of-memory killer. Hosts inside other machines often cannot.
    pub lowers_oom_scores: bool,
}

/// The link that a cluster's nodes have to the world.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkFacts {
    /// What the nodes' programs see it as.
    pub name: String,
    pub mtu: u32,
    pub gateway: Ipv4Addr,
    /// Whom nodes ask for names, in this order.
    pub name_servers: Vec<Ipv4Addr>,
}

/// The root of a node, which comes from a bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootFacts {
    /// The image of each pod's first container, if it is not the one that its containerd names: the image store is
    /// that of the cluster's bundle.
    pub sandbox_image: Option<String>,
}
