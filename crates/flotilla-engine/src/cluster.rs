//! A cluster: what the person wants, and what was handed out to it.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use flotilla_spec::network;
use flotilla_spec::{ClusterName, ClusterSpec, NodeName, NodeSpec};
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

/// A spec with everything in it that had to be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    pub spec: ClusterSpec,
    pub handed_out: HandedOut,
}

/// What cannot be observed and must not change for as long as the cluster lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HandedOut {
    /// Where the nodes' addresses are from.
    pub subnet: Ipv4Net,
    /// Where the nodes' pod ranges are from.
    pub pod_subnet: Ipv4Net,
    /// Each node's number, from 1: its address and its pod range follow from it.
    pub nodes: BTreeMap<NodeName, u32>,
    /// The digest of the bundle that nodes are made from.
    pub bundle: String,
}

/// A node with its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub spec: NodeSpec,
    pub number: u32,
    pub address: Ipv4Addr,
    pub pod_range: Ipv4Net,
}

/// The name by which nodes know the API's virtual address.
pub const API_NAME: &str = "control-plane.flotilla.internal";
/// Names by which nodes and pods know the host: ours, and the one that minikube's users know.
pub const HOST_NAMES: [&str; 2] = ["host.flotilla.internal", "host.minikube.internal"];
pub const API_PORT: u16 = 6443;

impl Cluster {
    pub fn name(&self) -> &ClusterName {
        &self.spec.name
    }

    /// A node of the spec, if it has one of that name and an address was handed out for it.
    pub fn node(&self, name: &NodeName) -> Option<Node> {
        let spec = self.spec.nodes.iter().find(|node| node.name == *name)?;
        let number = *self.handed_out.nodes.get(name)?;
        let prefix = self.spec.network.node_pod_prefix;
        Some(Node {
            spec: spec.clone(),
            number,
            address: network::node_address(self.handed_out.subnet, number)?,
            pod_range: network::pod_range(self.handed_out.pod_subnet, prefix, number)?,
        })
    }

    /// The node that others are made from.
    pub fn primary(&self) -> Option<Node> {
        self.node(&self.spec.primary().name)
    }

    /// The host's address in the cluster's network.
    pub fn gateway(&self) -> Ipv4Addr {
        network::gateway(self.handed_out.subnet)
    }

    /// Where the API answers, whichever control plane has it.
    pub fn virtual_ip(&self) -> Ipv4Addr {
        network::virtual_ip(self.handed_out.subnet)
    }

    /// The API as the host's clients reach it.
    pub fn api_url(&self) -> String {
        format!("https://{}:{API_PORT}", self.virtual_ip())
    }
}
