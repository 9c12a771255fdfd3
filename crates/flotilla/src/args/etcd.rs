//! Arguments of the commands about etcd and of `recover`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::cluster::{LockArgs, WaitArgs};
use super::{Output, OutputArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum EtcdCommand {
    /// Show the members of etcd: leader, health, how many more may fail
    ///
    /// Exits with 2 if etcd has no quorum or a member has raised an alarm.
    #[command(after_help = "Examples:\n  \
        flotilla etcd status\n  \
        flotilla etcd status -o json | jq '.members[] | select(.up | not)'")]
    Status(OutputArgs),
    /// Save and restore etcd snapshots
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

/// Save an etcd snapshot
///
/// The cluster keeps running. The file contains the cluster's secrets, so only you can read it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla etcd snapshot save before.snapshot\n  \
    flotilla etcd snapshot save nightly.snapshot --force")]
pub(crate) struct SnapshotSaveArgs {
    /// File to write
    pub(crate) file: PathBuf,
    /// Overwrite an existing file
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Restore etcd from a snapshot
///
/// Checks first that the file is a complete snapshot of this cluster. Everything written after the snapshot is lost from
/// the API; the old data is kept on the nodes' disks. The API is unavailable meanwhile. Pods keep running; afterwards the
/// kubelets make them match the restored objects. If interrupted, run it again to resume.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla etcd snapshot restore before.snapshot\n  \
    flotilla etcd snapshot restore before.snapshot --yes\n  \
    flotilla etcd snapshot restore db --force      a copy of a member's database")]
pub(crate) struct SnapshotRestoreArgs {
    /// File that `flotilla etcd snapshot save` wrote
    pub(crate) file: PathBuf,
    /// Do not prompt
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Restore a file without a checksum, or one that is not proven to be from this cluster
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) waiting: WaitArgs,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Rebuild etcd after permanent loss of quorum
///
/// Recreates etcd with one member, from the newest data of a surviving control plane or from a snapshot, and removes the
/// other members; the next `flotilla start` lets them join again. Their old data is kept on their disks. Writes that the
/// survivor has not received are lost. If a majority of the control planes have their data, start them instead: `recover`
/// then refuses without --force.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla recover\n  \
    flotilla recover --from nightly.snapshot --yes")]
pub(crate) struct RecoverArgs {
    /// Snapshot to recover from, instead of a survivor's data
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Do not prompt
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Recover even if a majority of the control planes have their data, or if the snapshot is not proven to be from
    /// this cluster
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
