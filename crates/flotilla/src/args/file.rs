//! Arguments of the commands that take a cluster file.

use std::path::PathBuf;

use clap::Args;

use super::OutputArgs;
use super::cluster::{LockArgs, WaitArgs};
use super::node::DrainArgs;

/// The cluster file.
#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// File that describes the cluster; `-` is standard input
    #[arg(long = "file", short = 'f', value_name = "FILE")]
    pub(crate) path: PathBuf,
}

/// Change a running cluster to match a file
///
/// Shows what would change and prompts first. Adds, resizes (with a restart of the node), starts and stops nodes, then
/// drains and removes others. Changes that are not possible are refused before anything is changed. Creates the cluster
/// if it does not exist. If interrupted, run it again to resume.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flotilla apply -f cluster.yaml\n  \
    flotilla apply -f cluster.yaml --dry-run     show what would change\n  \
    flotilla export | sed 's/1Gi/2Gi/' | flotilla apply -f - --yes")]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    pub(crate) file: FileArgs,
    /// Show what would change and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not prompt
    #[arg(long, short)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) draining: DrainArgs,
    #[command(flatten)]
    pub(crate) waiting: WaitArgs,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Show how a cluster differs from its file
///
/// Exits with 1 if it differs, else with 0.
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
