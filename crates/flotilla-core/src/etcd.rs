//! etcd of a cluster: its members, its data on the nodes' disks, snapshots of it.

use std::fmt;
use std::io::{self, Read, Seek};
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::bootstrap::{BootstrapError, Member};
use crate::cluster::{Cluster, Node};
use crate::driver::Machine;
use crate::guest::Writer;

/// A member with what it says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStatus {
    pub member: Member,
    pub is_leader: bool,
    /// None as long as it does not answer.
    pub version: Option<String>,
    /// How much it knows of what the members have agreed on: the more, the higher.
    pub agreed: Option<u64>,
    /// The last write that it has, in the order of all writes.
    pub revision: Option<u64>,
    /// How many bytes its database has on disk.
    pub size: Option<u64>,
    /// It answers and knows of no leader: it can write nothing.
    pub is_leaderless: bool,
    /// The alarms that it has raised, in etcd's words: `NOSPACE`, `CORRUPT`. With one of them no member takes writes.
    pub alarms: Vec<String>,
    /// What else it says is wrong.
    pub complaints: Vec<String>,
}

/// What is in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub revision: u64,
    pub keys: u64,
    pub bytes: u64,
}

/// Bytes that can be read again from their beginning, wherever they are.
pub trait Content: Read + Seek + Send + Sync + fmt::Debug {}

impl<T: Read + Seek + Send + Sync + fmt::Debug> Content for T {}

/// A file that is a snapshot of some etcd.
#[derive(Debug)]
pub struct SnapshotFile {
    pub content: Box<dyn Content>,
    /// It ends with the checksum that `etcdctl snapshot save` writes. A copy of a member's database has none.
    pub has_checksum: bool,
    /// The certificate authorities of the cluster that it is of, in PEM. Empty if the file does not tell.
    pub authorities: Vec<Vec<u8>>,
}

/// The cluster that a snapshot was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotOrigin {
    ThisCluster,
    AnotherCluster,
    /// It does not have the objects that would tell.
    Unknown,
}

/// A file that is no snapshot, or not the one that was saved.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("it is not a snapshot of etcd")]
    NotSnapshot,
    #[error("it is damaged: its checksum does not match")]
    Damaged,
    #[error("it cannot be read")]
    Io(#[from] io::Error),
}

/// Where the data of a recreated etcd comes from.
#[derive(Debug)]
pub enum Source {
    /// A snapshot that was saved before.
    File(SnapshotFile),
    /// What the control plane itself has, which may be all that is left.
    Own,
}

/// What can be asked of the etcd in a control plane, and done to its data. No call deletes data: what is replaced is kept in
/// the node ([`Etcd::copies`]).
#[async_trait]
pub trait Etcd: Send + Sync {
    /// The members, asked of the one in this machine, and each for its own state. Waits for none of them, but a few seconds
    /// for an election that is going on.
    async fn member_status(
        &self,
        cluster: &Cluster,
        via: &dyn Machine,
    ) -> Result<Vec<MemberStatus>, BootstrapError>;

    /// Whether the disk of a control plane, on or off, has a database of etcd. None if nobody can say: it is off, and its host
    /// cannot reach its disk, or the data is not on it.
    async fn has_data(&self, node: &Node, machine: &dyn Machine) -> Result<Option<bool>, BootstrapError>;

    /// What tells the data of a machine that is on from data that replaces it later. Empty if there is none. A machine that
    /// does not answer is an error.
    async fn data_id(&self, machine: &dyn Machine) -> Result<String, BootstrapError>;

    /// Where in a machine that is on earlier data of etcd is kept, the oldest first.
    async fn copies(&self, machine: &dyn Machine) -> Result<Vec<String>, BootstrapError>;

    /// Stops a control plane whose etcd does not answer, and says what is in its database.
    async fn stop_and_examine(&self, machine: &dyn Machine) -> Result<Snapshot, BootstrapError>;

    /// Writes a snapshot of this machine's etcd member to `target`. Needs no quorum.
    async fn save_snapshot(&self, via: &dyn Machine, target: Writer) -> Result<Snapshot, BootstrapError>;

    /// Reads a file once, from its beginning to its end, and says what it proves by itself. Blocks that long.
    fn check_snapshot(&self, content: Box<dyn Content>) -> Result<SnapshotFile, SnapshotError>;

    /// Whether a snapshot is of the cluster whose authority a control plane, on or off, has on its disk. None if it has
    /// none.
    async fn snapshot_origin(
        &self,
        snapshot: &SnapshotFile,
        machine: &dyn Machine,
    ) -> Result<Option<SnapshotOrigin>, BootstrapError>;

    /// Recreates etcd with `node` as its only member, from a snapshot or from what that node has itself: the cluster is
    /// what it was then. `others` are the machines of all other control planes that exist. They have to be on, and
    /// have not joined afterwards.
    async fn restore(
        &self,
        cluster: &Cluster,
        node: &Node,
        machine: &dyn Machine,
        others: &[Arc<dyn Machine>],
        source: Source,
    ) -> Result<Snapshot, BootstrapError>;

    /// Does the last part of an [`Etcd::restore`] that was killed after etcd had been recreated in `machine`.
    async fn finish_restore(
        &self,
        cluster: &Cluster,
        machine: &dyn Machine,
        others: &[Arc<dyn Machine>],
    ) -> Result<(), BootstrapError>;
}
