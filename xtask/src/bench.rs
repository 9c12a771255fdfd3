//! `cargo xtask bench`: how long things take. Never a test: a busy machine is not a bug.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::program;

mod bundle;
mod start;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Build bundles from nothing, one version after the other in one new state folder (11 GB, 15 minutes and more)
    Bundle {
        /// Kubernetes versions; the first is the cold one
        #[arg(default_values_t = ["v1.37.1".to_owned(), "v1.36.4".to_owned()])]
        versions: Vec<String>,
        /// Print JSON instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Make, stop, start and delete a cluster of one node: time, CPU, memory and disk (a minute a run)
    Start(start::Args),
}

pub(crate) fn run(command: Command) -> Result<()> {
    let project = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let flotilla = release(&project)?;
    match command {
        Command::Bundle { versions, json } => bundle::run(&project, &flotilla, &versions, json),
        Command::Start(args) => start::run(&project, flotilla, &args),
    }
}

/// Builds the program as people have it. Gives its path.
fn release(project: &Path) -> Result<String> {
    program::run(&["cargo", "build", "--release", "--quiet"], project, &[])?;
    Ok(program::run(&["scripts/binary", "release"], project, &[])?.trim().to_owned())
}
