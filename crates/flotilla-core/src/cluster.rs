//! A cluster: what the user wants, and what was handed out to it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use flotilla_spec::network;
use flotilla_spec::{ClusterName, ClusterSpec, NodeName, NodeSpec, SpecError};
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

/// A spec with everything in it that had to be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    pub spec: ClusterSpec,
    pub allocations: Allocations,
}

/// What cannot be observed and must not change for as long as the cluster lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Allocations {
    /// Where the nodes' addresses are from.
    pub subnet: Ipv4Net,
    /// Where the nodes' pod ranges are from.
    pub pod_subnet: Ipv4Net,
    /// Each node's number, from 1: its address and its pod range follow from it.
    pub nodes: BTreeMap<NodeName, u32>,
    /// The highest number that was ever handed out: a number that became free is not given to another node, as long as
    /// there are others.
    #[serde(default)]
    pub highest: u32,
    /// Nodes that a command is adding, until it has succeeded: the same command again goes on with them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub adding: BTreeSet<NodeName>,
    /// Nodes that are being deleted, from the moment when their pods have moved: the same command goes on with them, and
    /// `start` finishes it instead of starting them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub leaving: BTreeSet<NodeName>,
    /// Nodes that were deleted while the API could not be told: it lists them still, and the next `start` sees to that.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub ghosts: BTreeSet<NodeName>,
    /// A `start` has succeeded: if no control plane has its data any more, that data is lost, and not yet to come.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub founded: bool,
    /// The digest of the bundle that nodes are made from.
    pub bundle: String,
    /// The same for nodes that have one of their own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bundles: BTreeMap<NodeName, String>,
    /// The manifest of the pod network that is to be installed, as it was when the cluster was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cni: Option<String>,
}

/// A node with its addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// With the taint that all control planes have, if they have one.
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
/// A file in the machine whose API server is to answer first, when the cluster is made or turned on. With it the machine
/// may have the API's address before its API server is well, for a minute at most, unless another has it. It goes when the
/// server is.
pub const API_IS_COMING: &str = "/run/flotilla/api-is-coming";

impl Allocations {
    /// For a cluster without nodes.
    pub fn new(subnet: Ipv4Net, pod_subnet: Ipv4Net, bundle: String) -> Self {
        Self {
            subnet,
            pod_subnet,
            nodes: BTreeMap::new(),
            highest: 0,
            adding: BTreeSet::new(),
            leaving: BTreeSet::new(),
            ghosts: BTreeSet::new(),
            founded: false,
            bundle,
            bundles: BTreeMap::new(),
            cni: None,
        }
    }

    /// The number for the next node; none if the subnet or the pods' is used up.
    pub fn next_number(&self, pod_prefix: u8) -> Option<u32> {
        let fits = |number: &u32| {
            network::node_address(self.subnet, *number).is_some()
                && network::pod_range(self.pod_subnet, pod_prefix, *number).is_some()
        };
        let highest = self.nodes.values().copied().max().unwrap_or(0).max(self.highest);
        let is_free = |number: &u32| !self.nodes.values().any(|taken| taken == number);
        Some(highest + 1).filter(fits).or_else(|| (1..=highest).filter(fits).find(is_free))
    }

    /// Gives a node a number, if it has none.
    pub fn allocate(&mut self, node: &NodeName, pod_prefix: u8) -> Option<u32> {
        if let Some(number) = self.nodes.get(node) {
            return Some(*number);
        }
        let number = self.next_number(pod_prefix)?;
        self.nodes.insert(node.clone(), number);
        // Whoever joins by that name takes its predecessor off the list.
        self.ghosts.remove(node);
        self.highest = self.highest.max(number);
        Some(number)
    }

    /// The digest of the bundle that a node is made from.
    pub fn bundle_of(&self, node: &NodeName) -> &str {
        self.bundles.get(node).unwrap_or(&self.bundle)
    }

    /// Takes a node's number back.
    pub fn release(&mut self, node: &NodeName) {
        self.bundles.remove(node);
        self.adding.remove(node);
        self.leaving.remove(node);
        self.highest = self.highest.max(self.nodes.remove(node).unwrap_or(0));
    }
}

impl Cluster {
    /// Gives numbers to the nodes that have none.
    pub fn allocate(&mut self) -> Result<(), SpecError> {
        for node in &self.spec.nodes {
            let number = self.allocations.allocate(&node.name, self.spec.network.node_pod_prefix);
            number.ok_or_else(|| SpecError::NoAddressLeft { node: Some(node.name.clone()) })?;
        }
        Ok(())
    }

    pub fn name(&self) -> &ClusterName {
        &self.spec.name
    }

    /// A node of the spec, if it has one of that name and an address was handed out for it.
    pub fn node(&self, name: &NodeName) -> Option<Node> {
        self.with_addresses(self.spec.nodes.iter().find(|node| node.name == *name)?)
    }

    fn with_addresses(&self, spec: &NodeSpec) -> Option<Node> {
        let number = *self.allocations.nodes.get(&spec.name)?;
        let prefix = self.spec.network.node_pod_prefix;
        Some(Node {
            spec: NodeSpec { taints: self.spec.taints_of(spec), ..spec.clone() },
            number,
            address: network::node_address(self.allocations.subnet, number)?,
            pod_range: network::pod_range(self.allocations.pod_subnet, prefix, number)?,
        })
    }

    /// Whether it had nodes that it has no more. Some of them may have left something behind.
    pub fn was_larger(&self) -> bool {
        let Allocations { nodes, highest, .. } = &self.allocations;
        let highest = nodes.values().copied().max().unwrap_or(0).max(*highest);
        usize::try_from(highest).is_ok_and(|highest| highest > nodes.len())
    }

    /// Forgets nodes that are gone.
    pub fn remove_nodes(&mut self, nodes: &[NodeName]) {
        self.spec.nodes.retain(|node| !nodes.contains(&node.name));
        for node in nodes {
            self.allocations.release(node);
        }
    }

    /// All nodes of the spec, with their addresses.
    pub fn nodes(&self) -> impl Iterator<Item = Node> {
        self.spec.nodes.iter().filter_map(|node| self.with_addresses(node))
    }

    /// The node that others are made from.
    pub fn primary(&self) -> Option<Node> {
        self.node(&self.spec.primary().name)
    }

    /// The host's address in the cluster's network.
    pub fn gateway(&self) -> Ipv4Addr {
        network::gateway(self.allocations.subnet)
    }

    /// Where the API answers, whichever control plane has it.
    pub fn virtual_ip(&self) -> Ipv4Addr {
        network::virtual_ip(self.allocations.subnet)
    }

    /// The API as the host's clients reach it.
    pub fn api_url(&self) -> String {
        format!("https://{}:{API_PORT}", self.virtual_ip())
    }
}
