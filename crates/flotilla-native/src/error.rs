//! Errors of the native driver.

use std::io;
use std::path::PathBuf;

use flotilla_core::Code;
use flotilla_core::explain::one_line;
use flotilla_core::{DriverError, Finding, GuestError, IdRange, RecordError, Severity};
use flotilla_linux::cgroup::CgroupError;
use flotilla_linux::host::CommandError;
use flotilla_linux::machine::MachineError;
use flotilla_linux::net::NetError;
use flotilla_linux::nft::NftError;
use flotilla_linux::resolver::ResolverError;
use flotilla_linux::sysctl::SysctlError;
use flotilla_spec::NodeName;

use crate::driver::record;

#[derive(Debug, thiserror::Error)]
pub(super) enum NativeError {
    #[error("cannot {action} {}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot boot node {node}")]
    Boot { node: NodeName, source: MachineError },
    #[error("cannot connect node {node}")]
    Connect { node: NodeName, source: NetError },
    #[error("cannot create the network")]
    Network(#[from] NetError),
    #[error("cannot create the network")]
    Rules(#[from] NftError),
    #[error("cannot create the network")]
    Setting(#[from] SysctlError),
    #[error("cannot configure name servers")]
    Resolver(#[from] ResolverError),
    #[error("cannot use control groups")]
    Cgroup(#[from] CgroupError),
    #[error(
        "no {} user and group ids of this host are free for a node with `isolation: user`",
        IdRange::SIZE
    )]
    NoIdsLeft,
    #[error("no user and group ids were allocated for node {node}, which has `isolation: user`")]
    NoIds { node: NodeName },
    #[error("bundle {digest} does not exist")]
    NoBundle { digest: String },
    #[error("node {node} is not running")]
    Off { node: NodeName },
    #[error("cannot mount {} into node {node}", path.display())]
    MountSource { node: NodeName, path: PathBuf, source: io::Error },
    #[error("cannot mount {} into node {node}: it is in flotilla's own directory {}", path.display(), home.display())]
    OwnDirectory { node: NodeName, path: PathBuf, home: PathBuf },
    #[error("node {node} did not stop")]
    NotStopped { node: NodeName, source: Option<CgroupError> },
    #[error("node {node} runs, but its processes are not visible from here")]
    Unseen { node: NodeName },
    #[error("cannot read the record {}: it {}", path.display(), damage(source))]
    Record { path: PathBuf, uuid: String, source: RecordError },
    /// Something is at the place of an earlier release's mark.
    #[error("cannot tell whether the node has joined its cluster: {} is not a regular file", mark.display())]
    Mark { mark: PathBuf, record: PathBuf, uuid: String },
    #[error("cannot remove {} objects: {}", failures.len(), listed(failures))]
    Removal { failures: Vec<NativeError> },
}

const FREE_SPACE: &str = "free some space, or set FLOTILLA_HOME to a directory on a larger file system";

/// Whether PID 1 ended because its disk is full.
fn is_full(error: &MachineError) -> bool {
    let full = rustix::io::Errno::NOSPC.raw_os_error();
    matches!(error, MachineError::Ended { said, .. } if said.ends_with(&format!("(os error {full})")))
}

impl NativeError {
    fn code(&self) -> Code {
        let (name, exit_status) = match self {
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => ("RSRC_DISK_FULL", 26),
            Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                ("HOST_PERMISSION", 37)
            }
            Self::Boot { source, .. } if is_full(source) => ("RSRC_DISK_FULL", 26),
            Self::Io { .. } => ("HOST_IO", 30),
            Self::Network(_) | Self::Rules(_) | Self::Setting(_) | Self::Resolver(_) => ("IF_NETWORK", 70),
            Self::NoIdsLeft => ("HOST_NO_USER_NAMESPACES", 36),
            Self::NoBundle { .. } => ("BUNDLE_NOT_FOUND", 15),
            Self::MountSource { .. } | Self::OwnDirectory { .. } => ("HOST_NO_MOUNT", 35),
            Self::NotStopped { .. } => ("GUEST_STOP_TIMEOUT", 82),
            Self::Record { source: RecordError::Newer { .. }, .. } => ("HOST_STATE_NEWER", 38),
            Self::Record { .. } | Self::Mark { .. } => ("HOST_STATE_DAMAGED", 38),
            Self::Removal { failures } if !failures.is_empty() => return failures[0].code(),
            _ => ("DRV_NATIVE", 50),
        };
        Code { name, exit_status }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::NoIds { .. } => vec!["delete the node and add it again".into()],
            Self::NoIdsLeft => vec![
                "use `isolation: none`, or run flotilla where it has the ids from 1879048192 on (`/proc/self/uid_map`)".into(),
            ],
            Self::NoBundle { .. } => vec!["build it with `flotilla bundle build`".into()],
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => vec![FREE_SPACE.into()],
            Self::Boot { source, .. } if is_full(source) => vec![FREE_SPACE.into()],
            Self::Io { .. } => Vec::new(),
            Self::Cgroup(CgroupError::Occupied { .. }) => vec![
                "give the container a cgroup namespace of its own: `docker run --privileged --cgroupns=private`".into(),
            ],
            Self::NotStopped { .. } => vec![
                "processes that wait for a disk or a network file system end when that answers: run the command again to retry"
                    .into(),
            ],
            Self::Unseen { .. } => {
                vec!["run flotilla where the node was started: on the host, or in the same container".into()]
            }
            Self::Record { source: RecordError::Newer { .. }, .. } => {
                vec!["upgrade flotilla; nothing was changed".into()]
            }
            Self::Record { path: record, uuid, .. } | Self::Mark { record, uuid, .. } => {
                record::repairs(record, uuid)
            }
            Self::Removal { failures } => failures.iter().flat_map(Self::hints).collect(),
            Self::OwnDirectory { .. } => vec![
                "mount a directory outside of it: a node could change what flotilla knows, and `flotilla delete` removes what is there"
                    .into(),
            ],
            Self::MountSource { path, .. } => {
                vec![format!("create {}, or mount something else", path.display())]
            }
            _ => vec!["check this host with `flotilla doctor`".into()],
        }
    }
}

impl NativeError {
    /// The error as a finding of a check.
    pub(super) fn finding(self) -> Finding {
        let (Code { name, exit_status }, cure) = (self.code(), self.hints().join("; "));
        let what = self.to_string();
        let why = into_source(self).map(|source| format!(": {source}")).unwrap_or_default();
        Finding { code: name, exit_status, severity: Severity::Fatal, text: format!("{what}{why}"), cure }
    }
}

impl From<NativeError> for DriverError {
    fn from(error: NativeError) -> Self {
        match error {
            NativeError::Rules(NftError::Apply { source: CommandError::Cancelled { .. } }) => {
                Self::Guest(GuestError::Interrupted)
            }
            error => {
                let (code, hints) = (error.code(), error.hints());
                let what = error.to_string();
                let source = into_source(error);
                Self::Failed { what, code, hints, source }
            }
        }
    }
}

/// The causes: its own text is already part of the message.
fn into_source(error: NativeError) -> Option<Box<dyn std::error::Error + Send + Sync>> {
    Some(match error {
        NativeError::Io { source, .. } | NativeError::MountSource { source, .. } => Box::new(source),
        NativeError::Boot { source, .. } => Box::new(source),
        NativeError::Connect { source, .. } | NativeError::Network(source) => Box::new(source),
        NativeError::Rules(source) => Box::new(source),
        NativeError::Setting(source) => Box::new(source),
        NativeError::Resolver(source) => Box::new(source),
        NativeError::Cgroup(source) => Box::new(source),
        NativeError::NotStopped { source, .. } => Box::new(source?),
        NativeError::Record { source, .. } => Box::new(source),
        NativeError::NoBundle { .. }
        | NativeError::NoIdsLeft
        | NativeError::NoIds { .. }
        | NativeError::Off { .. }
        | NativeError::Unseen { .. }
        | NativeError::OwnDirectory { .. }
        | NativeError::Mark { .. }
        | NativeError::Removal { .. } => {
            return None;
        }
    })
}

fn damage(error: &RecordError) -> &'static str {
    match error {
        RecordError::Damaged(_) => "is damaged",
        RecordError::Newer { .. } => "was written by a newer flotilla",
    }
}

/// Errors with what caused them, in one line.
fn listed(errors: &[NativeError]) -> String {
    errors.iter().map(one_line).collect::<Vec<_>>().join("; ")
}

/// Names the file that an error is about.
pub(super) trait At<T> {
    fn at(self, action: &'static str, path: impl Into<PathBuf>) -> Result<T, NativeError>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, action: &'static str, path: impl Into<PathBuf>) -> Result<T, NativeError> {
        self.map_err(|source| NativeError::Io { action, path: path.into(), source })
    }
}
