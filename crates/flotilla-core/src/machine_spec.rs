//! What a driver is told about a machine: plain data.

use std::fmt;

use flotilla_spec::{ClusterName, Cpus, HostMount, Isolation, Memory, NodeName};
use serde::{Deserialize, Serialize};

use crate::cluster::{Cluster, IdRange, Node};

/// Which machine is meant. A driver derives all names from it, so that nothing else has to be remembered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MachineId {
    pub cluster: ClusterName,
    pub node: NodeName,
}

impl MachineId {
    pub fn new(cluster: &ClusterName, node: &NodeName) -> Self {
        Self { cluster: cluster.clone(), node: node.clone() }
    }
}

impl fmt::Display for MachineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.cluster, self.node)
    }
}

/// How a machine is kept apart from its host, beyond what its driver always does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MachineIsolation {
    #[default]
    None,
    /// It has a user namespace.
    User {
        /// None were handed out yet: it can be checked, and not booted.
        ids: Option<IdRange>,
    },
}

/// What a machine is to be. All of it may be other than what a machine that exists was made from: what that can be changed to
/// is up to its driver, at the next boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineSpec {
    pub id: MachineId,
    /// The digest of the bundle that its root is made from. One that exists keeps the bundle that it was made from.
    pub bundle: String,
    /// The digest of the bundle that its images are from.
    pub image_store: String,
    /// As they were asked for: how many that are is up to the host.
    pub cpus: Cpus,
    pub memory: Memory,
    /// Bytes, for drivers whose machines have disks of their own.
    pub disk: Option<u64>,
    pub mounts: Vec<HostMount>,
    /// One that exists has the same for its whole life.
    pub isolation: MachineIsolation,
    /// The node's number in its cluster: drivers that share the host's CPUs spread machines by it.
    pub number: u32,
}

impl MachineSpec {
    pub fn of(cluster: &Cluster, node: &Node) -> Self {
        Self {
            id: MachineId::new(cluster.name(), &node.spec.name),
            bundle: cluster.allocations.bundle_of(&node.spec.name).to_owned(),
            image_store: cluster.allocations.bundle.clone(),
            cpus: node.spec.cpus,
            memory: node.spec.memory,
            disk: node.spec.disk,
            mounts: node.spec.mounts.clone(),
            isolation: match node.spec.isolation {
                Isolation::None => MachineIsolation::None,
                Isolation::User => {
                    MachineIsolation::User { ids: cluster.allocations.ids.get(&node.spec.name).copied() }
                }
            },
            number: node.number,
        }
    }
}
