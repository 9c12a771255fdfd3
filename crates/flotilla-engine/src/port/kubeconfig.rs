//! Where the person's own clients find clusters.

use flotilla_spec::ClusterName;

use super::{ApiAccess, Changed};
use crate::error::EngineError;

/// What the removal of a cluster from the kubeconfig did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpublished {
    pub changed: Changed,
    /// What has the cluster's name and stays, because it cannot be shown to be the cluster's.
    pub left: Option<String>,
}

/// The person's kubeconfig: cluster, user and context of a cluster are named like it. Blocks for a moment.
///
/// Only what the cluster has written is ever changed: it is known by its certificate authority. That a file cannot be read
/// or written, or that the name is taken in it, is [`EngineError::Kubeconfig`].
pub trait Kubeconfig: Send + Sync {
    /// Whether the kubeconfig has the cluster as its current context.
    fn has(&self, name: &ClusterName, access: &ApiAccess) -> Result<bool, EngineError>;

    /// Whether the current context is that of the cluster.
    fn is_current(&self, name: &ClusterName) -> Result<bool, EngineError>;

    /// Adds the cluster and makes it the current context.
    fn put(&self, name: &ClusterName, access: &ApiAccess) -> Result<Changed, EngineError>;

    /// Leaves it known but no longer the current one.
    fn deselect(&self, name: &ClusterName) -> Result<Changed, EngineError>;

    /// Takes out what the cluster has written. `authorities` are those that its machines have, for the case that nothing
    /// else tells.
    fn remove(&self, name: &ClusterName, authorities: &[Vec<u8>]) -> Result<Unpublished, EngineError>;
}
