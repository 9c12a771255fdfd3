//! What can go wrong with bundles, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use flotilla_core::event::size;
use flotilla_core::explain::run_as_root;
use flotilla_core::{Code, Explain};
use flotilla_files::LockError as FileLockError;
use flotilla_linux::host::CommandError;

use crate::lock::LockError;

#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("cannot {action} {path}")]
    Io {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot write to {path}")]
    NotWritable { path: PathBuf },
    #[error("changing bundles needs root: their files belong to root")]
    NotRoot,
    #[error("too little space in {path}: {} needed, {} free", size(*.needed), size(*.free))]
    DiskSpace { path: PathBuf, needed: u64, free: u64 },
    #[error("source '{origin}' cannot be used on this host: {}", .missing.iter().map(|m| m.what.as_str()).collect::<Vec<_>>().join("; "))]
    SourceUnavailable { origin: &'static str, missing: Vec<Missing> },
    #[error("cannot build {component}")]
    Component {
        component: String,
        #[source]
        source: Box<BundleError>,
    },
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error("wrong checksum of {what} ({component}): expected {expected}, got {actual}")]
    Checksum { component: String, what: String, expected: String, actual: String },
    #[error("{program} needs the library {library}, which no package of the userland contains")]
    Library { program: String, library: String },
    #[error("the packages of the userland have no {path}")]
    NoSuchFile { path: String },
    #[error("cannot read the program {path}")]
    Elf {
        path: PathBuf,
        #[source]
        source: object::Error,
    },
    #[error("kubeadm {version} needs the image {image}, but {reason}")]
    Image { version: String, image: String, reason: String },
    #[error("the image {image} is not in the store after its import")]
    NotImported { image: String },
    #[error("no bundle for {which}")]
    NotFound { which: String },
    #[error("{which} matches several bundles: {}", .digests.join(", "))]
    Ambiguous { which: String, digests: Vec<String> },
    #[error("the manifest of {bundle} cannot be read")]
    Manifest {
        bundle: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("{bundle} is damaged: {} of its files differ", .findings.len())]
    Damaged { bundle: String, findings: Vec<String> },
    #[error("cannot import {path}: {reason}")]
    Archive { path: PathBuf, reason: String },
    #[error("{path} is not a Kubernetes checkout: {reason}")]
    Checkout { path: PathBuf, reason: String },
    #[error(transparent)]
    Busy(#[from] FileLockError),
    #[error("interrupted")]
    Interrupted,
}

/// Something that a source needs and the host lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// For example "`go` is not in the PATH".
    pub what: String,
    /// What to do about it.
    pub cure: String,
}

pub type Result<T, E = BundleError> = std::result::Result<T, E>;

/// Adds what was tried, and on which file, to an input or output error.
pub(crate) trait At<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| BundleError::Io { action, path: path.to_owned(), source })
    }
}

impl BundleError {
    /// The error below the wrapping that names the component.
    fn root(&self) -> &Self {
        match self {
            Self::Component { source, .. } => source.root(),
            other => other,
        }
    }

    /// Ours or another program's: they all use the kernel's words.
    fn is_disk_full(&self) -> bool {
        match self {
            Self::Io { source, .. } => source.kind() == io::ErrorKind::StorageFull,
            Self::Command(error) => {
                error.tail().iter().any(|line| line.to_lowercase().contains("no space left on device"))
            }
            _ => false,
        }
    }

    /// The user interrupted the command.
    fn is_interruption(&self) -> bool {
        matches!(
            self,
            Self::Interrupted
                | Self::Command(CommandError::Cancelled { .. })
                | Self::Busy(FileLockError::Cancelled { .. })
        )
    }
}

impl Explain for BundleError {
    fn code(&self) -> Code {
        let (name, exit_status) = match self.root() {
            Self::Lock(LockError::UnknownVersion { .. }) => ("BUNDLE_UNKNOWN_VERSION", 14),
            Self::Ambiguous { .. } => ("BUNDLE_AMBIGUOUS", 14),
            Self::Checkout { .. } => ("BUNDLE_BAD_CHECKOUT", 14),
            Self::NotFound { .. } => ("BUNDLE_NOT_FOUND", 15),
            Self::Archive { .. } => ("BUNDLE_BAD_ARCHIVE", 18),
            Self::Damaged { .. } | Self::Manifest { .. } => ("BUNDLE_DAMAGED", 18),
            Self::DiskSpace { .. } => ("RSRC_DISK_FULL", 26),
            error if error.is_disk_full() => ("RSRC_DISK_FULL", 26),
            Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                ("HOST_PERMISSION", 37)
            }
            Self::Io { .. } => ("HOST_IO", 30),
            Self::NotWritable { .. } | Self::NotRoot => ("HOST_PERMISSION", 37),
            Self::SourceUnavailable { .. } => ("BUNDLE_NO_SOURCE", 39),
            Self::Checksum { .. } => ("BUNDLE_CHECKSUM", 40),
            error if error.is_interruption() => ("INTERRUPTED", 130),
            _ => ("BUNDLE_BUILD", 10),
        };
        Code { name, exit_status }
    }

    fn hints(&self) -> Vec<String> {
        match self.root() {
            Self::Lock(LockError::UnknownVersion { .. }) => {
                vec![
                    "build another version from its source: `flotilla bundle build --kubernetes-source PATH`"
                        .into(),
                ]
            }
            Self::NotRoot => vec![run_as_root()],
            Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                vec![run_as_root()]
            }
            Self::NotWritable { .. } => vec!["set FLOTILLA_HOME to a writable directory".into()],
            Self::DiskSpace { .. } => {
                vec!["free some space, or set FLOTILLA_HOME to a directory on a larger file system".into()]
            }
            error if error.is_disk_full() => {
                vec!["free some space and run the command again to resume".into()]
            }
            Self::SourceUnavailable { missing, .. } => {
                let mut hints: Vec<_> = missing.iter().map(|missing| missing.cure.clone()).collect();
                hints.push(
                    "or import a bundle from another machine: flotilla bundle export, flotilla bundle import"
                        .into(),
                );
                hints
            }
            Self::Checksum { .. } => {
                vec!["the file was deleted; if it fails again, a proxy or mirror modifies it".into()]
            }
            Self::Library { .. } | Self::NoSuchFile { .. } => {
                vec!["the packages differ from those in bundle/lock.toml: see docs/dev/bundles.md".into()]
            }
            Self::NotFound { .. } => vec!["list the bundles with: flotilla bundle list".into()],
            Self::Ambiguous { .. } => vec!["use more digits of the digest".into()],
            Self::Damaged { bundle, .. } => {
                vec![format!("remove and rebuild it: flotilla bundle remove {bundle}, flotilla bundle build")]
            }
            Self::Interrupted => vec!["run the command again".into()],
            error if error.is_interruption() => {
                vec!["run the command again to resume".into()]
            }
            _ => Vec::new(),
        }
    }

    fn details(&self) -> Vec<String> {
        match self.root() {
            Self::Damaged { findings, .. } => findings.clone(),
            Self::Command(error) => error.tail().to_vec(),
            _ => Vec::new(),
        }
    }
}
