//! `cargo xtask bench`: how long things take. Never a test: a busy machine is not a bug.
//!
//! ```text
//! bundle           how long a bundle takes to build
//! start            a round of commands on a cluster of one node
//! nodes            a round of commands on clusters of several
//! control_planes   the same with several control planes, and what a client sees when one dies
//! ├ session        rounds, and what is said about them
//! ├ watch          one command, and what is awaited meanwhile
//! ├ command        one command: wall time, CPU time, its steps
//! ├ api            the cluster as its API shows it, by watches: a question costs what is to be measured
//! ├ pod            the pod that stands for all pods
//! ├ node           CPU, memory and disk of nodes, read on the host
//! └ figures        median, spread and aim, as a table and as JSON
//! ```

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::program;

mod api;
mod bundle;
mod command;
mod control_planes;
mod figures;
mod node;
mod nodes;
mod pod;
mod session;
mod start;
mod watch;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Build bundles from nothing, one version after the other in one new state directory (11 GB, 15 minutes and more)
    Bundle {
        /// Kubernetes versions; the first is the cold one
        #[arg(default_values_t = ["v1.37.1".to_owned(), "v1.36.4".to_owned()])]
        versions: Vec<String>,
        /// Print JSON instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Make, stop, start and delete a cluster of one node: time, CPU, memory and disk (a minute a run)
    Start(session::Args),
    /// Make clusters of 3 and of 10 nodes; add, stop, start and delete a node: time, memory and disk (two minutes a run)
    Nodes(session::Args),
    /// Make a cluster of 3 control planes; add, delete and kill one: time, fail-over, memory (two minutes a run)
    ControlPlanes(session::Args),
}

pub(crate) fn run(command: Command) -> Result<()> {
    let project = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let flotilla = release(&project)?;
    match command {
        Command::Bundle { versions, json } => bundle::run(&project, &flotilla, &versions, json),
        Command::Start(args) => session::run(&project, flotilla, &args, &start::run),
        Command::Nodes(args) => session::run(&project, flotilla, &args, &nodes::run),
        Command::ControlPlanes(args) => session::run(&project, flotilla, &args, &control_planes::run),
    }
}

/// Builds the program as people have it. Gives its path.
fn release(project: &Path) -> Result<String> {
    program::run(&["cargo", "build", "--release", "--quiet"], project, &[])?;
    Ok(program::run(&["scripts/binary", "release"], project, &[])?.trim().to_owned())
}
