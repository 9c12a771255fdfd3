//! What can be typed about etcd, and about a control plane that has lost its majority.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::cluster::LockArgs;
use super::{Output, OutputArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum EtcdCommand {
    /// Show the members of etcd: who leads, who is up, how many may still fail
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

/// Make the API hold what it held when a snapshot was saved
///
/// Everything that was written since is gone. The API does not answer meanwhile; pods run on, and are then made to match
/// what the API holds again. Killed or interrupted, it is finished by running it again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla etcd snapshot restore before.snapshot\n  \
    flotilla etcd snapshot restore before.snapshot --yes")]
pub(crate) struct SnapshotRestoreArgs {
    /// File made by `flotilla etcd snapshot save`
    pub(crate) file: PathBuf,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Bring back a control plane that has lost its majority for good
///
/// Makes an etcd of one member out of what a surviving control plane has, or of a snapshot. All others leave it, and
/// join it anew with the next `flotilla start`. What a majority had agreed on and no survivor has heard of is lost:
/// where the others can be started, start them instead.
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
