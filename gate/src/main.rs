//! Runs the project's tests and reports what failed. `scripts/test` builds and starts it.
//!
//! It runs the stages of a tier in their order, each with a time limit and with all output in one log. A failed stage does not end
//! the run before the real clusters, so that one run names everything that is wrong. Each failed test runs again alone, which
//! tells a test that always fails from one that fails at random. The last lines name every failure with its line in the log.

#![expect(clippy::print_stdout, reason = "this is a program for developers")]

mod clock;
mod compile;
mod guard;
mod libtest;
mod lock;
mod log;
mod machine;
mod memory;
mod program;
mod report;
mod run;
mod stage;
mod suite;

use std::process::ExitCode;

use anyhow::Result;

fn main() -> Result<ExitCode> {
    let mut argv = std::env::args_os().skip(1);
    if argv.next().is_some_and(|word| word == guard::WORD) {
        return guard::main(argv.collect());
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(tier) = stage::Tier::of(&words) else {
        anyhow::bail!("expected fast, core, full, `e2e [NAME...]` or nothing; see scripts/test");
    };
    match run::Run::begin(tier)? {
        Some(run) => run.finish(),
        None => Ok(run::INTERRUPTED.into()),
    }
}
