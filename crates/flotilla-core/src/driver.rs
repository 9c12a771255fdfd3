//! What makes, finds, powers and removes machines.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use flotilla_node_api::NodeConfig;
use flotilla_spec::{ClusterName, DriverName, NodeName};
use serde::{Deserialize, Serialize};

use crate::capabilities::Capabilities;
use crate::changed::Changed;
use crate::cluster::Cluster;
use crate::explain::Code;
use crate::facts::RootFacts;
use crate::guest::{Guest, GuestError};
use crate::host::Refusal;

/// A machine's power, as found.
///
/// ```text
/// (absent) ──ensure──▶ On ◀──ensure── Off        remove: from each of them to (absent)
///                      └────stop────▶ Off
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Power {
    On,
    Off,
    /// The host of the machine does not answer, and why. The machine may be on, and may be a member of its cluster.
    Unknown(String),
}

/// What a driver sees of a machine without asking anything inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

impl MachineState {
    /// Of a machine that nothing can be said about.
    pub fn unknown(why: impl Into<String>) -> Self {
        Self { power: Power::Unknown(why.into()), intact: false }
    }
}

/// One node's machine, whatever it is made of.
pub trait Machine: Send + Sync {
    fn name(&self) -> &NodeName;
    /// Who made it.
    fn driver(&self) -> &DriverName;
    fn state(&self) -> MachineState;
    fn guest(&self) -> &dyn Guest;

    /// The process of the host that the machine ends with; none if it is off, or no process of the host.
    fn pid(&self) -> Option<u32> {
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

    /// Whether a file of any size exists on the disk of a machine that is off; not if the host cannot reach its disk.
    fn is_on_disk(&self, _path: &str) -> io::Result<bool> {
        Ok(false)
    }

    /// Removes a file from the disk of a machine that is off, if it exists and the host can reach its disk.
    fn remove_from_disk(&self, _path: &str) -> io::Result<()> {
        Ok(())
    }
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
    /// Nothing is known of the machines there: they may be on.
    #[error("host {host} does not answer")]
    Unreachable { host: String, why: String },
    #[error(transparent)]
    Guest(#[from] GuestError),
}

/// Makes, finds, powers and removes machines.
///
/// Every call is idempotent: what exists already is a success, and so is the removal of what does not. A driver whose host
/// does not answer says [`DriverError::Unreachable`], never that there are no machines.
#[async_trait]
pub trait Driver: Send + Sync {
    /// What nodes of a cluster call it.
    fn name(&self) -> &DriverName;

    /// What its machines can do. Plain data: nothing is asked.
    fn capabilities(&self) -> Capabilities;

    /// Looks at what these nodes want of the host, and names what they cannot have: directories that do not exist. Changes
    /// nothing.
    async fn check(&self, cluster: &Cluster, nodes: &[NodeName]) -> Result<Vec<Refusal>, DriverError>;

    /// The machines of a cluster that exist, in whatever state.
    async fn list(&self, cluster: &ClusterName) -> Result<Vec<Arc<dyn Machine>>, DriverError>;

    /// The root that a node has, or will have.
    async fn root(&self, cluster: &Cluster, node: &NodeName) -> Result<RootFacts, DriverError>;

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

    /// Removes every machine that belongs to the name, known or not. The state directory may be damaged or gone.
    async fn remove_all(&self, cluster: &ClusterName) -> Result<Changed, DriverError>;
}
