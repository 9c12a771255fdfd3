//! What makes, finds, powers and removes machines.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use flotilla_node_api::NodeConfig;
use flotilla_spec::{ClusterName, DriverName, NodeName};
use serde::{Deserialize, Serialize};

use crate::capabilities::Capabilities;
use crate::changed::Changed;
use crate::explain::Code;
use crate::facts::GuestFacts;
use crate::guest::{Guest, GuestError};
use crate::host::{Finding, Refusal};
use crate::machine_spec::{MachineId, MachineSpec};
use crate::network::Port;
use crate::record::MachineRecord;

/// A machine's power, as found.
///
/// ```text
/// (absent) ──boot──▶ On ◀──boot── Off        remove: from each of them to (absent)
///                    └───stop───▶ Off
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
    /// Nothing of what the driver gave it is missing: it is plugged into its port, and not frozen. Only a machine that is on
    /// can be intact.
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

/// The name of a detail: the number of the process of its host that a machine ends with.
pub const PROCESS: &str = "pid";

/// One node's machine, whatever it is made of.
#[async_trait]
pub trait Machine: Send + Sync {
    fn name(&self) -> &NodeName;
    /// Driver that created it.
    fn driver(&self) -> &DriverName;
    fn state(&self) -> MachineState;
    fn guest(&self) -> &dyn Guest;

    /// What was recorded of the machine last, on or off: nothing of one that is new, or whose disk was replaced. A record
    /// that cannot be read is an error, and so is a machine that is unknown.
    async fn record(&self) -> Result<MachineRecord, DriverError>;

    /// Records something of the machine, on or off: beside its disk, where it can neither see nor change it. It is
    /// written as a whole or not at all, and goes with the machine.
    async fn set_record(&self, record: &MachineRecord) -> Result<(), DriverError>;

    /// The digests of the bundles that it needs, on or off: for its root, and for its images.
    async fn bundles(&self) -> Result<Vec<String>, DriverError>;

    /// Details for people, by names like [`PROCESS`]. No decision depends on them.
    fn details(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
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

    /// Whether a file of any size exists on the disk of a machine that is off; none if the host cannot reach its disk.
    fn is_on_disk(&self, _path: &str) -> io::Result<Option<bool>> {
        Ok(None)
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

/// Makes, finds, powers and removes machines. Their network is not its business, but for the [`Port`] that a machine is
/// plugged into.
///
/// Every call is idempotent: what exists already is a success, and so is the removal of what does not. A driver whose host
/// does not answer says [`DriverError::Unreachable`], never that there are no machines.
#[async_trait]
pub trait Driver: Send + Sync {
    /// Name by which a node's spec selects it.
    fn name(&self) -> &DriverName;

    /// What its machines can do. Constant data.
    fn capabilities(&self) -> Capabilities;

    /// Names what the host lacks for these machines, such as directories to mount. Changes nothing.
    async fn check(&self, wanted: &[MachineSpec]) -> Result<Vec<Refusal>, DriverError>;

    /// All existing machines of a cluster, in any state.
    async fn list(&self, cluster: &ClusterName) -> Result<Vec<Arc<dyn Machine>>, DriverError>;

    /// Looks at what the driver needs of its host, for `flotilla doctor`. It may take a second. Changes nothing.
    async fn examine_options(&self) -> Vec<Finding> {
        Vec::new()
    }

    /// What has to be known of a machine before its inside can be computed.
    async fn guest_facts(&self, spec: &MachineSpec) -> Result<GuestFacts, DriverError>;

    /// Makes the machine if it does not exist, and turns it on, plugged into `port` and with `config` inside. Programs can
    /// run in it afterwards. One that is on already stays as it is.
    async fn boot(
        &self,
        spec: &MachineSpec,
        port: &Port,
        config: &NodeConfig,
    ) -> Result<Arc<dyn Machine>, DriverError>;

    /// Repairs a machine that is on, without a reboot: plugs it into `port` if it is not, and thaws it. What is inside is for
    /// the node to repair.
    async fn plug(&self, id: &MachineId, port: &Port) -> Result<Arc<dyn Machine>, DriverError>;

    /// Turns the machine off in an orderly way; it keeps its disk.
    async fn stop(&self, id: &MachineId) -> Result<Changed, DriverError>;

    /// Removes the machine with its disk.
    async fn remove(&self, id: &MachineId) -> Result<Changed, DriverError>;

    /// Removes every machine that belongs to the name, known or not. The state directory may be damaged or gone.
    async fn remove_all(&self, cluster: &ClusterName) -> Result<Changed, DriverError>;
}
