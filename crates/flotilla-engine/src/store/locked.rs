//! Reading a cluster without a lock, and the right to change it.

use flotilla_core::Cluster;
use flotilla_files::FileLock;
use flotilla_spec::ClusterName;

use super::ClusterStore;
use crate::error::EngineError;

/// A cluster as it was read without a lock: another command may be changing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peeked {
    pub cluster: Cluster,
    pub(super) revision: Revision,
}

/// What a cluster was read from. Two that are equal are of the same state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Revision {
    pub(super) state: Option<String>,
    /// Version 1 stored the spec in a separate file.
    pub(super) spec: Option<String>,
}

/// The lock of a cluster, until it is dropped. Only its holder can save the cluster.
#[derive(Debug)]
pub struct Locked {
    pub(super) store: ClusterStore,
    pub(super) name: ClusterName,
    #[expect(dead_code, reason = "held for what its end does")]
    pub(super) lock: FileLock,
}

impl Locked {
    pub fn name(&self) -> &ClusterName {
        &self.name
    }

    /// The current cluster; none if it was never saved, or was deleted meanwhile. A cluster that was peeked at is
    /// read again only if another command has changed it.
    pub fn refresh(&self, peeked: Option<Peeked>) -> Result<Option<Cluster>, EngineError> {
        let revision = self.store.revision(&self.name)?;
        match peeked {
            Some(peeked) if peeked.revision == revision => Ok(Some(peeked.cluster)),
            _ => self.store.parse(&self.name, &revision),
        }
    }

    /// Like [`Locked::refresh`], of a cluster that must exist.
    pub fn refresh_existing(&self, peeked: Peeked) -> Result<Cluster, EngineError> {
        self.refresh(Some(peeked))?.ok_or_else(|| self.store.no_cluster(&self.name))
    }

    /// One file and one rename: a crash leaves the old or the new cluster, never a mixture.
    pub fn save(&self, cluster: &Cluster) -> Result<(), EngineError> {
        self.store.save(cluster)
    }
}
