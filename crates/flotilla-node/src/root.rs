//! Where things are in a node.

use std::path::{Path, PathBuf};

/// The root of a node's files, as seen from here.
#[derive(Debug, Clone)]
pub(crate) struct Root(PathBuf);

impl Root {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// What is of use only while PID 1 lives.
    pub(crate) fn run(&self) -> PathBuf {
        self.join("run/flotilla")
    }

    /// Where PID 1 listens.
    pub(crate) fn control_socket(&self) -> PathBuf {
        self.run().join("init.sock")
    }

    pub(crate) fn containerd_socket(&self) -> PathBuf {
        self.join("run/containerd/containerd.sock")
    }

    /// Where the node's control groups are mounted.
    pub(crate) fn cgroups(&self) -> PathBuf {
        self.join("sys/fs/cgroup")
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.join("var/log/flotilla")
    }

    /// The packet filter rules to load at boot.
    pub(crate) fn nft_rules(&self) -> PathBuf {
        self.flotilla().join("nft.conf")
    }

    /// What the host writes for us and our services.
    pub(crate) fn flotilla(&self) -> PathBuf {
        self.join("etc/flotilla")
    }

    /// Kubeadm's directory; the kubelet's credentials are in it.
    pub(crate) fn kubernetes(&self) -> PathBuf {
        self.join("etc/kubernetes")
    }

    /// The kubelet's own directory; kubeadm writes its configuration into it.
    pub(crate) fn kubelet(&self) -> PathBuf {
        self.join("var/lib/kubelet")
    }

    /// Where a node's admin puts flags for the kubelet.
    pub(crate) fn kubelet_defaults(&self) -> PathBuf {
        self.join("etc/default/kubelet")
    }

    /// Where a file is that has this absolute path in the node.
    pub(crate) fn at(&self, path: &Path) -> PathBuf {
        self.join(path.strip_prefix("/").unwrap_or(path))
    }

    fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.0.join(path)
    }
}
