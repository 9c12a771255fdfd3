//! A cluster: what the user wants, and what was handed out to it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use flotilla_spec::network;
use flotilla_spec::{ClusterName, ClusterSpec, Labels, NodeName, NodeSpec, SpecError, Taint};
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use crate::Authorities;

/// A spec with everything in it that had to be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    pub spec: ClusterSpec,
    pub allocations: Allocations,
    /// Where this process reaches the API, as [`Network::reach`](crate::Network::reach) has said; none if nobody asked yet.
    /// Never stored: it may be another one the next time.
    #[serde(skip)]
    api: Option<SocketAddr>,
}

/// What cannot be observed and must not change for as long as the cluster lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Allocations {
    /// Where the nodes' addresses are from.
    pub subnet: Ipv4Net,
    /// Where the nodes' pod ranges are from.
    pub pod_subnet: Ipv4Net,
    pub nodes: BTreeMap<NodeName, Allocation>,
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
    /// Labels and taints that a command gives to Node objects, until the spec has them: a command that was killed may have
    /// left them there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub relabelling: BTreeMap<NodeName, Relabelling>,
    /// A `start` has succeeded: if no control plane has its data any more, that data is lost, and not yet to come.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub founded: bool,
    /// The digest of the bundle that nodes are made from.
    pub bundle: String,
    /// The same for nodes that have one of their own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bundles: BTreeMap<NodeName, String>,
    /// The ids of nodes that have a user namespace: no two nodes of this host share any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ids: BTreeMap<NodeName, IdRange>,
    /// The manifest of the pod network that is to be installed, as it was when the cluster was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cni: Option<String>,
    /// The user's own certificate authorities, until the cluster has run: then its control planes have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities: Option<Authorities>,
}

/// What a Node object may have beside the labels and taints of its spec.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Relabelling {
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
}

impl Relabelling {
    /// With other labels and taints as well.
    pub fn add(&mut self, labels: &Labels, taints: &[Taint]) {
        self.labels.add(labels);
        let new: Vec<_> = taints.iter().filter(|taint| !self.taints.contains(taint)).cloned().collect();
        self.taints.extend(new);
    }
}

/// User and group ids of the host, which are 0 and up in a node's user namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IdRange {
    pub first_id: u32,
    pub count: u32,
}

impl IdRange {
    /// As many as a node has: every id that images use.
    pub const SIZE: u32 = 1 << 16;

    pub fn overlaps(&self, other: &Self) -> bool {
        let end = |range: &Self| u64::from(range.first_id) + u64::from(range.count);
        u64::from(self.first_id) < end(other) && u64::from(other.first_id) < end(self)
    }
}

/// What a node has for its whole life. Chosen once, when the node is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Allocation {
    /// From 1; no two nodes of a cluster have the same.
    pub number: u32,
    pub address: Ipv4Addr,
    pub pod_range: Ipv4Net,
}

impl Allocation {
    /// What belongs to a number; none if the ranges have no room for so many.
    pub fn of(number: u32, subnet: Ipv4Net, pod_subnet: Ipv4Net, pod_prefix: u8) -> Option<Self> {
        Some(Self {
            number,
            address: network::node_address(subnet, number)?,
            pod_range: network::pod_range(pod_subnet, pod_prefix, number)?,
        })
    }
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

/// The name by which nodes know the virtual IP of the API.
pub const API_NAME: &str = "control-plane.flotilla.internal";
/// Names by which nodes and pods know the host: ours, and the one that minikube's users know.
pub const HOST_NAMES: [&str; 2] = ["host.flotilla.internal", "host.minikube.internal"];
/// Where the API server listens, unless a cluster's spec says otherwise.
pub const API_PORT: u16 = 6443;
/// A file in the machine whose API server answers first when the cluster is created or started. While it exists, and for
/// a minute at most, the machine may take the virtual IP before its API server is healthy, unless another machine has the
/// address. It is removed once the API server is healthy.
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
            relabelling: BTreeMap::new(),
            founded: false,
            bundle,
            bundles: BTreeMap::new(),
            ids: BTreeMap::new(),
            cni: None,
            authorities: None,
        }
    }

    /// What the next node gets; none if the subnet or the pods' is used up.
    pub fn next(&self, pod_prefix: u8) -> Option<Allocation> {
        let of = |number| Allocation::of(number, self.subnet, self.pod_subnet, pod_prefix);
        let is_free = |number: &u32| !self.nodes.values().any(|taken| taken.number == *number);
        let highest = self.highest();
        of(highest + 1).or_else(|| (1..=highest).filter(is_free).find_map(of))
    }

    /// The highest number that any node has or had.
    fn highest(&self) -> u32 {
        self.nodes.values().map(|node| node.number).max().unwrap_or(0).max(self.highest)
    }

    /// Gives a node a number and addresses, if it has none.
    pub fn allocate(&mut self, node: &NodeName, pod_prefix: u8) -> Option<Allocation> {
        if let Some(allocation) = self.nodes.get(node) {
            return Some(*allocation);
        }
        let allocation = self.next(pod_prefix)?;
        self.nodes.insert(node.clone(), allocation);
        // Whoever joins by that name takes its predecessor off the list.
        self.ghosts.remove(node);
        self.highest = self.highest.max(allocation.number);
        Some(allocation)
    }

    /// The digest of the bundle that a node is made from.
    pub fn bundle_of(&self, node: &NodeName) -> &str {
        self.bundles.get(node).unwrap_or(&self.bundle)
    }

    /// Takes back what a node has.
    pub fn release(&mut self, node: &NodeName) {
        self.bundles.remove(node);
        self.ids.remove(node);
        self.relabelling.remove(node);
        self.adding.remove(node);
        self.leaving.remove(node);
        self.highest = self.highest();
        self.nodes.remove(node);
    }
}

impl Cluster {
    pub fn new(spec: ClusterSpec, allocations: Allocations) -> Self {
        Self { spec, allocations, api: None }
    }

    /// The same, with the address where this process reaches its API.
    #[must_use]
    pub fn reached_at(&self, api: SocketAddr) -> Self {
        Self { api: Some(api), ..self.clone() }
    }

    /// Gives numbers and addresses to the nodes that have none.
    pub fn allocate(&mut self) -> Result<(), SpecError> {
        for node in &self.spec.nodes {
            let allocated = self.allocations.allocate(&node.name, self.spec.network.node_pod_prefix);
            allocated.ok_or_else(|| SpecError::NoAddressLeft { node: Some(node.name.clone()) })?;
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
        let Allocation { number, address, pod_range } = *self.allocations.nodes.get(&spec.name)?;
        let spec = NodeSpec { taints: self.spec.taints_of(spec), ..spec.clone() };
        Some(Node { spec, number, address, pod_range })
    }

    /// Whether it had nodes that it has no more. Some of them may have left something behind.
    pub fn was_larger(&self) -> bool {
        usize::try_from(self.allocations.highest())
            .is_ok_and(|highest| highest > self.allocations.nodes.len())
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

    /// The API's address. It belongs to one control plane at a time and moves when that one fails.
    pub fn virtual_ip(&self) -> Ipv4Addr {
        network::virtual_ip(self.allocations.subnet)
    }

    /// Where every API server listens, at the node's addresses and at the virtual one.
    pub fn api_port(&self) -> u16 {
        self.spec.api_server.port.unwrap_or(API_PORT)
    }

    /// The API, as nodes reach it.
    pub fn api_address(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.virtual_ip(), self.api_port())
    }

    /// The API, as this process reaches it: see [`Cluster::reached_at`]. Nodes' own address, if nobody asked.
    pub fn api(&self) -> SocketAddr {
        self.api.unwrap_or_else(|| self.api_address().into())
    }
}

/// The URL of an API at this address.
pub fn url(api: SocketAddr) -> String {
    format!("https://{api}")
}
