//! The network between the machines of a cluster, on one host.

use async_trait::async_trait;
use flotilla_spec::ClusterName;
use ipnet::Ipv4Net;

use crate::changed::Changed;
use crate::cluster::Cluster;
use crate::driver::DriverError;
use crate::facts::LinkFacts;
use crate::host::Refusal;

/// An address range that somebody on the host uses, and who.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subnet {
    pub range: Ipv4Net,
    pub user: String,
    /// The host looks there before it looks at its ordinary routes: however wide the range, packets for a narrower one
    /// of ours go there.
    pub before_main: bool,
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
    async fn check(&self, cluster: &Cluster) -> Result<Vec<Refusal>, DriverError>;

    /// Whether the cluster's network exists and nothing of it is missing, with the host's ports that lead to its nodes.
    async fn is_intact(&self, cluster: &Cluster) -> Result<bool, DriverError>;

    async fn ensure(&self, cluster: &Cluster) -> Result<Changed, DriverError>;

    /// The link that the cluster's nodes have.
    async fn link(&self, cluster: &Cluster) -> Result<LinkFacts, DriverError>;

    /// Makes the host's routes and ports those of the cluster's nodes, after nodes came or went. Without a network there is
    /// nothing to do: whoever makes it does this as well.
    async fn update(&self, cluster: &Cluster) -> Result<Changed, DriverError>;

    /// Removes everything of the network that belongs to the name, known or not.
    async fn remove(&self, cluster: &ClusterName) -> Result<Changed, DriverError>;
}
