//! What makes, finds, powers and removes machines.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use flotilla_node_api::NodeConfig;
use flotilla_spec::error::Requirement;
use flotilla_spec::{ClusterName, NodeName};
use ipnet::Ipv4Net;

use crate::changed::Changed;
use crate::cluster::Cluster;
use crate::explain::Code;
use crate::facts::{HostFacts, LinkFacts, RootFacts};
use crate::guest::{Guest, GuestError};

/// A machine's power, as found.
///
/// ```text
/// (absent) ──ensure──▶ On ◀──ensure── Off        remove: from each of them to (absent)
///                      └────stop────▶ Off
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    On,
    Off,
}

/// What a driver sees of a machine without asking anything inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineState {
    pub power: Power,
    /// Nothing of what the driver gave it (links, rules) is missing. Only a machine that is on can be intact.
    pub intact: bool,
}

/// The end of a log that a machine has left on its disk.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LogFile {
    /// Its path in the machine.
    pub path: String,
    pub text: String,
}

/// One node's machine, whatever it is made of.
pub trait Machine: Send + Sync {
    fn name(&self) -> &NodeName;
    fn state(&self) -> MachineState;
    fn guest(&self) -> &dyn Guest;

    /// The process of the host that the machine ends with; none if it is off, or no process of the host.
    fn pid(&self) -> Option<u32> {
        None
    }

    /// The directory of the host that is its `/var`, whether it is on or off; none where its disk is its own.
    fn var(&self) -> Option<PathBuf> {
        None
    }

    /// The last lines of each log of the node's services and of the containers in kube-system, as a machine that is off
    /// has left them; none if the host cannot reach its disk.
    fn offline_logs(&self, _lines: usize) -> io::Result<Option<Vec<LogFile>>> {
        Ok(None)
    }

    /// Reads a small file from the disk of a machine that is off; none if there is none, or if the host cannot reach
    /// its disk.
    fn read_disk(&self, _path: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(None)
    }
}

/// An address range that somebody on the host uses, and who.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subnet {
    pub range: Ipv4Net,
    pub user: String,
    /// The host looks there before it looks at its ordinary routes: however wide the range, packets for a narrower one
    /// of ours go there.
    pub before_main: bool,
}

/// Something a host check has to say.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// A stable name, as errors have them: `HOST_NO_OVERLAY`.
    #[serde(rename = "name")]
    pub code: &'static str,
    #[serde(skip)]
    pub exit_status: u8,
    pub severity: Severity,
    /// What was looked at, and what was found.
    pub text: String,
    /// What to do about it; empty where all is well.
    pub cure: String,
}

/// Something that a node wants of the host and cannot have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub requirement: Requirement,
    pub finding: Finding,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    Good,
    /// It works without, but not as well.
    Warning,
    /// No machine can be made here.
    Fatal,
}

/// A driver could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// `code` says what kind; the driver's own error is the source.
    #[error("{what}")]
    Failed {
        what: String,
        code: Code,
        hints: Vec<String>,
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    #[error(transparent)]
    Guest(#[from] GuestError),
}

/// Makes, finds and removes the machines of a cluster, and the network between them.
///
/// Every call is idempotent: what already exists is a success, and so is the removal of what is not.
#[async_trait]
pub trait Driver: Send + Sync {
    /// Looks at the host and says what it lacks, and what is well. Changes nothing.
    async fn examine(&self) -> Vec<Finding>;

    /// Looks at what the nodes of a cluster that are to run want of the host, and names what they cannot have: ports that
    /// others listen on, directories that do not exist. Changes nothing.
    async fn check(&self, cluster: &Cluster) -> Result<Vec<Refusal>, DriverError>;

    /// Address ranges that are in use on the host by others than this cluster.
    async fn subnets_in_use(&self, except: &ClusterName) -> Result<Vec<Subnet>, DriverError>;

    /// Whether the cluster's network is there and whole, with the host's ports that lead to its nodes.
    async fn has_network(&self, cluster: &Cluster) -> Result<bool, DriverError>;

    async fn ensure_network(&self, cluster: &Cluster) -> Result<Changed, DriverError>;

    /// The host, as far as it matters inside nodes.
    async fn facts(&self) -> Result<HostFacts, DriverError>;

    /// The link that the cluster's nodes have.
    async fn link(&self, cluster: &Cluster) -> Result<LinkFacts, DriverError>;

    /// The root that a node has, or will have.
    async fn root(&self, cluster: &Cluster, node: &NodeName) -> Result<RootFacts, DriverError>;

    /// Brings the host's routes and ports in line with the nodes of the cluster: those to nodes that are gone are removed.
    async fn ensure_routes(&self, cluster: &Cluster) -> Result<Changed, DriverError>;

    /// The machines that exist, in whatever state.
    async fn find(&self, cluster: &ClusterName) -> Result<Vec<Arc<dyn Machine>>, DriverError>;

    /// Makes the machine if it does not exist, and turns it on if it is off: with `config` inside. Gives one that is on
    /// already the link that it lacks, and changes nothing else in it. Programs can run in it afterwards.
    async fn ensure(
        &self,
        cluster: &Cluster,
        node: &NodeName,
        config: &NodeConfig,
    ) -> Result<Arc<dyn Machine>, DriverError>;

    /// Turns the machine off in an orderly way; it keeps its disk. No port of the host leads to it any more.
    async fn stop(&self, cluster: &ClusterName, node: &NodeName) -> Result<Changed, DriverError>;

    /// Removes the machine with its disk.
    async fn remove(&self, cluster: &ClusterName, node: &NodeName) -> Result<Changed, DriverError>;

    /// Removes everything that belongs to the name, known or not: machines, network, rules. The state directory may be
    /// damaged or gone.
    async fn remove_all(&self, cluster: &ClusterName) -> Result<Changed, DriverError>;
}
