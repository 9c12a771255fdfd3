//! The network between the machines of a cluster, on one host.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use async_trait::async_trait;
use flotilla_spec::{ClusterName, Cni, HostPort, NodeName, Role, WantedPower};
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use crate::capabilities::PortKind;
use crate::changed::Changed;
use crate::cluster::{Cluster, Node};
use crate::driver::{DriverError, Machine};
use crate::facts::LinkFacts;
use crate::host::Refusal;

/// What a node's link is called inside the node.
pub const LINK: &str = "eth0";

/// An address range that somebody on the host uses, and who.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subnet {
    pub range: Ipv4Net,
    pub user: String,
    /// The host looks there before it looks at its ordinary routes: however wide the range, packets for a narrower one
    /// of ours go there.
    pub before_main: bool,
}

/// What the network of a cluster is to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkPlan {
    pub cluster: ClusterName,
    /// The digest of a bundle whose programs the host may use to make it.
    pub bundle: String,
    /// Where the nodes' addresses are from.
    pub subnet: Ipv4Net,
    /// Where the nodes' pod ranges are from.
    pub pod_subnet: Ipv4Net,
    pub service_subnet: Ipv4Net,
    /// The host's address in it.
    pub gateway: Ipv4Addr,
    /// The API's address. It belongs to one control plane at a time and moves when that one fails.
    pub virtual_ip: Ipv4Addr,
    /// Pods have addresses of their node's range. A pod network that is not ours may give them others.
    pub routes_pods: bool,
    pub nodes: Vec<NetworkNode>,
}

/// A node, as the network knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkNode {
    pub name: NodeName,
    pub address: Ipv4Addr,
    pub pod_range: Ipv4Net,
    /// It is a control plane, which may have the virtual IP.
    pub may_hold_virtual_ip: bool,
    /// The host's ports that lead to it, while it is to run.
    pub ports: Vec<HostPort>,
    pub is_to_run: bool,
}

impl NetworkNode {
    pub fn of(node: &Node) -> Self {
        Self {
            name: node.spec.name.clone(),
            address: node.address,
            pod_range: node.pod_range,
            may_hold_virtual_ip: node.spec.role == Role::ControlPlane,
            ports: node.spec.ports.clone(),
            is_to_run: node.spec.power == WantedPower::Running,
        }
    }
}

impl NetworkPlan {
    pub fn of(cluster: &Cluster) -> Self {
        Self {
            cluster: cluster.name().clone(),
            bundle: cluster.allocations.bundle.clone(),
            subnet: cluster.allocations.subnet,
            pod_subnet: cluster.allocations.pod_subnet,
            service_subnet: cluster.spec.network.service_subnet,
            gateway: cluster.gateway(),
            virtual_ip: cluster.virtual_ip(),
            routes_pods: cluster.spec.network.cni == Cni::Flotilla,
            nodes: cluster.nodes().map(|node| NetworkNode::of(&node)).collect(),
        }
    }

    /// The nodes that are to run.
    pub fn to_run(&self) -> impl Iterator<Item = &NetworkNode> {
        self.nodes.iter().filter(|node| node.is_to_run)
    }
}

/// How a network compares with its plan, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkState {
    /// Something that all nodes need is missing; [`Network::ensure`] makes it.
    Incomplete,
    /// The host's routes or published ports are not those of the plan's nodes; [`Network::update`] is enough.
    Outdated,
    Intact,
}

/// A socket for one machine in the cluster's network: a link of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    pub kind: PortKind,
    /// What the driver plugs its machine into. [`PortKind::Veth`]: the loose end of a pair, which the driver moves into the
    /// machine, because only the driver knows the process; once it is moved, the host has no link of this name.
    /// [`PortKind::Tap`]: a link whose packets the driver's process reads and writes.
    pub device: String,
    /// What the link is called inside the machine.
    pub name_inside: String,
    /// The hardware address that the link is to have inside.
    pub mac: Mac,
    pub mtu: u32,
}

/// A hardware address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, rest @ ..] = self.0;
        write!(f, "{first:02x}")?;
        rest.iter().try_for_each(|byte| write!(f, ":{byte:02x}"))
    }
}

/// The network of a host: what connects the machines of a cluster with each other, with the host and with the world.
///
/// Every call is idempotent, as those of a driver are.
#[async_trait]
pub trait Network: Send + Sync {
    /// Address ranges that are in use on the host by others than this cluster.
    async fn used(&self, except: &ClusterName) -> Result<Vec<Subnet>, DriverError>;

    /// Looks at what nodes that are to run want of the host's network, and names what they cannot have: ports that others
    /// listen on. Changes nothing.
    async fn check(&self, plan: &NetworkPlan) -> Result<Vec<Refusal>, DriverError>;

    /// How the cluster's network compares with the plan. A node without a [`Port`] does not count as missing.
    async fn state(&self, plan: &NetworkPlan) -> Result<NetworkState, DriverError>;

    /// Makes what is missing, with the routes and ports of [`Network::update`], and connects the ports that exist.
    async fn ensure(&self, plan: &NetworkPlan) -> Result<Changed, DriverError>;

    /// Makes the host's routes to pods and its published ports those of the plan's nodes. Without a network there is
    /// nothing to do: whoever makes it does this as well.
    async fn update(&self, plan: &NetworkPlan) -> Result<Changed, DriverError>;

    /// The link that the cluster's nodes have.
    async fn link(&self, plan: &NetworkPlan) -> Result<LinkFacts, DriverError>;

    /// The port of a node, of either kind. One that exists is kept and connected again, whatever is plugged in; one of the other
    /// kind has to be removed before.
    async fn ensure_port(
        &self,
        cluster: &ClusterName,
        node: &NetworkNode,
        kind: PortKind,
    ) -> Result<Port, DriverError>;

    /// Removes the port of a node, which cuts off what is plugged in.
    async fn remove_port(&self, cluster: &ClusterName, node: &NodeName) -> Result<Changed, DriverError>;

    /// Closes the host's ports that lead to a node: a refused connection is better than one that waits for a node that is
    /// off. [`Network::update`] opens them again.
    async fn unpublish(&self, cluster: &ClusterName, node: &NodeName) -> Result<Changed, DriverError>;

    /// Where this process reaches an address of the cluster's network.
    async fn reach(&self, cluster: &ClusterName, at: SocketAddrV4) -> Result<SocketAddr, DriverError>;

    /// Removes everything of the network that belongs to the name, known or not.
    async fn remove(&self, cluster: &ClusterName) -> Result<Changed, DriverError>;
}

/// Where this process reaches the APIs of clusters, whichever host they are on.
#[async_trait]
pub trait Reach: Send + Sync {
    /// `via` is a control plane: its host is asked.
    async fn api(&self, cluster: &Cluster, via: &dyn Machine) -> Result<SocketAddr, DriverError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_addresses_are_written_as_programs_take_them() {
        assert_eq!(Mac([2, 0xf1, 10, 213, 0, 255]).to_string(), "02:f1:0a:d5:00:ff");
    }
}
