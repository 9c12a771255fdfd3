//! Where the user's own clients find clusters.

use std::io;
use std::path::PathBuf;

use flotilla_spec::ClusterName;

use crate::bootstrap::ApiAccess;
use crate::changed::Changed;

/// The kubeconfig could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// The user's own file: no cluster fails because of it.
    #[error("cannot change the kubeconfig")]
    Personal { source: Box<dyn std::error::Error + Send + Sync> },
    /// The file beside the cluster's state.
    #[error("cannot {action} {}", path.display())]
    Own { action: &'static str, path: PathBuf, source: io::Error },
}

/// Something in the user's kubeconfig has the cluster's name and is not the cluster's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} has a {what} {name} that this cluster did not write", path.display())]
pub struct NameTaken {
    pub path: PathBuf,
    /// `cluster`, `user` or `context`.
    pub what: &'static str,
    pub name: String,
}

/// Why a cluster cannot be put into the user's kubeconfig.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigRefusal {
    #[error(transparent)]
    Taken(#[from] NameTaken),
    #[error(transparent)]
    Unusable(Box<dyn std::error::Error + Send + Sync>),
}

/// What the removal of a cluster from the kubeconfig did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeconfigRemoval {
    pub changed: Changed,
    /// What has the cluster's name and stays, because it cannot be shown to be the cluster's.
    pub left: Option<String>,
}

/// The user's kubeconfig: cluster, user and context of a cluster are named like it. Blocks for a moment.
///
/// Only what the cluster has written is ever changed: it is known by its certificate authority. That a file cannot be read
/// or written, or that the name is taken in it, is [`KubeconfigError::Personal`].
pub trait Kubeconfig: Send + Sync {
    /// Whether the kubeconfig has the cluster as its current context.
    fn has(&self, name: &ClusterName, access: &ApiAccess) -> Result<bool, KubeconfigError>;

    /// Whether the kubeconfig has the cluster with these credentials, as its current context or not.
    fn has_entry(&self, name: &ClusterName, access: &ApiAccess) -> Result<bool, KubeconfigError>;

    /// Whether the kubeconfig leads to the cluster, with the credentials of whichever control plane.
    fn leads_to(&self, name: &ClusterName, access: &ApiAccess) -> Result<bool, KubeconfigError>;

    /// Why the cluster cannot be put into the kubeconfig, if it cannot.
    fn refusal(&self, name: &ClusterName) -> Option<KubeconfigRefusal>;

    /// The file that has the cluster, or would get it.
    fn path(&self, name: &ClusterName) -> PathBuf;

    /// The cluster's own file, beside its state: it has this cluster and no other.
    fn own_path(&self, name: &ClusterName) -> PathBuf;

    /// Whether the current context is that of the cluster.
    fn is_current(&self, name: &ClusterName) -> Result<bool, KubeconfigError>;

    /// Adds the cluster and makes it the current context.
    fn put(&self, name: &ClusterName, access: &ApiAccess) -> Result<Changed, KubeconfigError>;

    /// Leaves it known but no longer the current one.
    fn unset_context(&self, name: &ClusterName) -> Result<Changed, KubeconfigError>;

    /// Takes out what the cluster has written. `authorities` are those that its machines have, for the case that nothing
    /// else tells.
    fn remove(
        &self,
        name: &ClusterName,
        authorities: &[Vec<u8>],
    ) -> Result<KubeconfigRemoval, KubeconfigError>;
}
