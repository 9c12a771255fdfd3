//! Where things are in a bundle, and bundles in the state directory: nobody else knows these names.

use std::path::{Path, PathBuf};

/// The programs for the host.
pub const BIN: &str = "bin";
/// The root file system of nodes.
pub const ROOTFS: &str = "rootfs";
/// Containerd's image store.
pub const STORE: &str = "store";
/// Where the unpacked images are in a bundle. Nodes share them.
pub const SNAPSHOTS: &str = "store/io.containerd.snapshotter.v1.overlayfs/snapshots";
/// A read-only file system with them, made from them on each host.
pub const SNAPSHOTS_IMAGE: &str = "snapshots.erofs";

/// The paths in one bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleLayout {
    bundle: PathBuf,
}

impl BundleLayout {
    /// Of a bundle in a state directory.
    pub fn of(home: &Path, digest: &str) -> Self {
        Self { bundle: Self::bundles(home).join(digest) }
    }

    /// Of a bundle that is somewhere else, such as one that is being made.
    pub fn at(bundle: &Path) -> Self {
        Self { bundle: bundle.to_owned() }
    }

    /// The directory of all bundles, in a state directory.
    pub fn bundles(home: &Path) -> PathBuf {
        home.join("bundles")
    }

    pub fn bin(&self) -> PathBuf {
        self.bundle.join(BIN)
    }

    pub fn rootfs(&self) -> PathBuf {
        self.bundle.join(ROOTFS)
    }

    pub fn store(&self) -> PathBuf {
        self.bundle.join(STORE)
    }

    /// The kubectl for the host, which needs nothing else of the bundle.
    pub fn kubectl(&self) -> PathBuf {
        self.bin().join("kubectl")
    }

    /// The program that reads and changes packet rules: it runs in [`Self::rootfs`] only.
    pub fn nft(&self) -> PathBuf {
        self.rootfs().join("usr/sbin/nft")
    }

    pub fn snapshots(&self) -> PathBuf {
        self.bundle.join(SNAPSHOTS)
    }

    pub fn snapshots_image(&self) -> PathBuf {
        self.bundle.join(SNAPSHOTS_IMAGE)
    }
}
