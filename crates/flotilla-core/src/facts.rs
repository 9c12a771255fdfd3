//! What has to be known of a machine and of its network before the inside of a node can be computed.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

/// A machine, as far as its driver decides what works inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestFacts {
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
