//! Where things are in a node.

use std::path::{Path, PathBuf};

use flotilla_node_api::Unit;

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

    /// Where the node's control groups are mounted.
    pub(crate) fn cgroups(&self) -> PathBuf {
        self.join("sys/fs/cgroup")
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.join("var/log/flotilla")
    }

    /// Where the output of a service goes.
    pub(crate) fn log_of(&self, unit: &Unit) -> PathBuf {
        self.logs().join(format!("{unit}.log"))
    }

    /// The packet filter rules to load at boot.
    pub(crate) fn nft_rules(&self) -> PathBuf {
        self.join("etc/flotilla/nft.conf")
    }

    /// Where a file is that has this absolute path in the node.
    pub(crate) fn at(&self, path: &Path) -> PathBuf {
        self.join(path.strip_prefix("/").unwrap_or(path))
    }

    fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.0.join(path)
    }
}
