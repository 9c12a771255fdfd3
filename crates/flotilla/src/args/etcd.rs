//! What can be typed about etcd, and about a control plane that has lost its majority.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::cluster::LockArgs;
use super::{Output, OutputArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum EtcdCommand {
    /// Show the members of etcd: who leads, who is up, how many may still fail
    ///
    /// The exit status is 2 if etcd has no quorum or a member has raised an alarm.
    #[command(after_help = "Examples:\n  \
        flotilla etcd status\n  \
        flotilla etcd status -o json | jq '.members[] | select(.up | not)'")]
    Status(OutputArgs),
    /// Save and restore all that the cluster's API holds
    #[command(
        subcommand,
        after_help = "Examples:\n  \
        flotilla etcd snapshot save before.snapshot\n  \
        flotilla etcd snapshot restore before.snapshot"
    )]
    Snapshot(SnapshotCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    Save(SnapshotSaveArgs),
    Restore(SnapshotRestoreArgs),
}

/// Write all that the API holds to one file
///
/// The cluster goes on meanwhile. The file holds its secrets: only you can read it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla etcd snapshot save before.snapshot\n  \
    flotilla etcd snapshot save nightly.snapshot --force")]
pub(crate) struct SnapshotSaveArgs {
    /// File to write
    pub(crate) file: PathBuf,
    /// Write over a file that is there
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Restore etcd from a snapshot
///
/// Checks first that the file is a whole snapshot of this cluster. Everything that was written after the snapshot is gone
/// from the API; the old data is kept on the nodes' disks. The API does not answer meanwhile. Pods keep running, and are
/// then made to match what the API holds again. If interrupted, run it again to resume.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla etcd snapshot restore before.snapshot\n  \
    flotilla etcd snapshot restore before.snapshot --yes\n  \
    flotilla etcd snapshot restore db --force      a copy of a member's database")]
pub(crate) struct SnapshotRestoreArgs {
    /// File made by `flotilla etcd snapshot save`
    pub(crate) file: PathBuf,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Restore a file that has no checksum, or that is not proven to be of this cluster
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Rebuild etcd after permanent loss of quorum
///
/// Recreates etcd with one member, from the newest data that a surviving control plane has or from a snapshot. The others
/// leave it and join it again with the next `flotilla start`; their old data is kept on their disks. Writes that the
/// survivor has not received are lost. While a majority of the control planes have their data, start them instead:
/// `recover` then refuses without --force.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla recover\n  \
    flotilla recover --from nightly.snapshot --yes")]
pub(crate) struct RecoverArgs {
    /// Snapshot to begin from, instead of what the survivor has
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Recover even if a majority of the control planes have their data, or if the snapshot is not proven to be of this
    /// cluster
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl EtcdCommand {
    pub(super) fn output(&self) -> Output {
        match self {
            Self::Status(output) => output.output,
            Self::Snapshot(SnapshotCommand::Save(args)) => args.output.output,
            Self::Snapshot(SnapshotCommand::Restore(args)) => args.output.output,
        }
    }
}
