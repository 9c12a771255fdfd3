//! The network of this host: for each cluster a bridge with ports, packet rules, routes to pods and published ports.

use std::net::{SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use flotilla_core::{
    Changed, DriverError, LinkFacts, Network, NetworkNode, NetworkPlan, NetworkState, Port, PortKind,
    Refusal, Subnet,
};
use flotilla_spec::{ClusterName, NodeName};

use crate::blocking;
use crate::names::Names;

mod bridge;
mod check;
mod host_routes;
pub(crate) mod nft;
mod ports;
mod remove;
mod sockets;

/// Networks of bridges. It knows nothing of machines: they are plugged into its ports. Needs root to change something.
#[derive(Debug, Clone)]
pub struct BridgeNetwork {
    /// The state directory.
    home: PathBuf,
}

impl BridgeNetwork {
    /// `home` is the state directory, whose bundles have the programs that are needed.
    pub fn new(home: &Path) -> Self {
        Self { home: home.to_owned() }
    }

    fn names(&self, cluster: &ClusterName) -> Names {
        Names::of(&self.home, cluster)
    }
}

#[async_trait]
impl Network for BridgeNetwork {
    async fn used(&self, except: &ClusterName) -> Result<Vec<Subnet>, DriverError> {
        let except = except.clone();
        blocking(self, move |network| bridge::in_use(&network.names(&except))).await
    }

    async fn check(&self, plan: &NetworkPlan) -> Result<Vec<Refusal>, DriverError> {
        let plan = plan.clone();
        blocking(self, move |network| network.check_ports(&plan)).await
    }

    async fn state(&self, plan: &NetworkPlan) -> Result<NetworkState, DriverError> {
        let plan = plan.clone();
        blocking(self, move |network| network.network_state(&plan)).await
    }

    async fn ensure(&self, plan: &NetworkPlan) -> Result<Changed, DriverError> {
        let plan = plan.clone();
        blocking(self, move |network| network.make_network(&plan)).await
    }

    async fn update(&self, plan: &NetworkPlan) -> Result<Changed, DriverError> {
        let plan = plan.clone();
        blocking(self, move |network| network.update_network(&plan)).await
    }

    async fn link(&self, plan: &NetworkPlan) -> Result<LinkFacts, DriverError> {
        let plan = plan.clone();
        blocking(self, move |network| network.link_facts(&plan)).await
    }

    async fn ensure_port(
        &self,
        cluster: &ClusterName,
        node: &NetworkNode,
        kind: PortKind,
    ) -> Result<Port, DriverError> {
        let (cluster, node) = (cluster.clone(), node.clone());
        blocking(self, move |network| network.make_socket(&cluster, &node, kind)).await
    }

    async fn remove_port(&self, cluster: &ClusterName, node: &NodeName) -> Result<Changed, DriverError> {
        let (cluster, node) = (cluster.clone(), node.clone());
        blocking(self, move |network| network.remove_socket(&cluster, &node)).await
    }

    async fn unpublish(&self, cluster: &ClusterName, node: &NodeName) -> Result<Changed, DriverError> {
        let (cluster, node) = (cluster.clone(), node.clone());
        blocking(self, move |network| network.close_ports(&cluster, &node)).await
    }

    /// The host has an address in the cluster's network.
    async fn reach(&self, _: &ClusterName, at: SocketAddrV4) -> Result<SocketAddr, DriverError> {
        Ok(at.into())
    }

    async fn remove(&self, cluster: &ClusterName) -> Result<Changed, DriverError> {
        let cluster = cluster.clone();
        blocking(self, move |network| network.remove_network(&cluster)).await
    }
}
