//! Where the person's own clients find clusters.

use flotilla_spec::ClusterName;

use super::{ApiAccess, Changed};
use crate::error::EngineError;

/// The person's kubeconfig: cluster, user and context of a cluster are named like it. Blocks for a moment.
pub trait Kubeconfig: Send + Sync {
    /// Whether clients would reach the cluster by it, and do so without being told which.
    fn has(&self, name: &ClusterName, access: &ApiAccess) -> Result<bool, EngineError>;

    /// Whether the current context is that of the cluster.
    fn is_current(&self, name: &ClusterName) -> Result<bool, EngineError>;

    fn put(&self, name: &ClusterName, access: &ApiAccess) -> Result<Changed, EngineError>;

    /// Leaves it known but no longer the current one.
    fn deselect(&self, name: &ClusterName) -> Result<Changed, EngineError>;

    /// Takes out what is named like the cluster.
    fn remove(&self, name: &ClusterName) -> Result<Changed, EngineError>;
}
