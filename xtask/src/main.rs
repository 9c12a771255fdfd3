//! The project's own tasks: what is too much for a shell script.

#![expect(clippy::print_stdout, reason = "a task talks to the developer who ran it")]

use clap::Parser;

mod bench;
mod lock;
mod program;

/// The project's own tasks
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Time things
    #[command(subcommand)]
    Bench(bench::Command),
    /// Change or check what bundles are made of (bundle/lock.toml)
    #[command(subcommand)]
    Lock(lock::Command),
}

fn main() -> anyhow::Result<()> {
    match Task::parse() {
        Task::Bench(command) => bench::run(command),
        Task::Lock(command) => lock::run(command),
    }
}
