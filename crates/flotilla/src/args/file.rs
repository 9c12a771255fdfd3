//! What can be typed about a cluster's file.

use std::path::PathBuf;

use clap::Args;

use super::OutputArgs;
use super::cluster::LockArgs;
use super::node::DrainArgs;

/// The file of a cluster.
#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// File that describes the cluster; `-` is standard input
    #[arg(long = "file", short = 'f', value_name = "FILE")]
    pub(crate) path: PathBuf,
}

/// Make a cluster as its file says, while it runs
///
/// Shows what would change and asks before it does it. Nodes are added, resized (with a restart of that node), started,
/// stopped, and last removed, their pods moved. What cannot change is refused before anything is touched. A cluster that
/// is not there is made. Killed or interrupted at any moment, it is finished by running it again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla apply -f cluster.yaml\n  \
    flotilla apply -f cluster.yaml --dry-run     what would change\n  \
    flotilla export | sed 's/1Gi/2Gi/' | flotilla apply -f - --yes")]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    pub(crate) file: FileArgs,
    /// Say what would change, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) draining: DrainArgs,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Show how a cluster differs from its file
///
/// Exits with 0 if it does not, with 1 if it does.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla diff -f cluster.yaml\n  \
    flotilla diff -f cluster.yaml -o json | jq -r '.changes[].action'")]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    pub(crate) file: FileArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
