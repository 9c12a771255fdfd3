//! Sandboxes on the real kernel. Needs root; without it says so and passes.
//!
//! This file has its own `main`, because a sandbox starts the running binary again as its stages: that must happen
//! before a test harness starts threads. It understands as much of the harness's command line as `cargo test` and
//! `cargo nextest` use: `--list`, `--exact`, `--ignored` and filters.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a test harness")]
#![expect(clippy::unwrap_used, reason = "without #[test] the lint does not see that these are tests")]

use std::ffi::OsString;
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use flotilla_linux::sandbox;

mod cases;
mod support;

/// No case takes that long unless something that should have died did not: the programs in them sleep for a minute.
const LIMIT: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = sandbox::run_if_stage(&args) {
        return u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from);
    }
    if let Some(code) = support::run_if_helper(&args) {
        return code;
    }
    let args: Vec<String> = args.into_iter().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    let wanted = wanted(&args);
    if args.iter().any(|arg| arg == "--list") {
        for (name, _) in wanted {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    run(&wanted)
}

fn wanted(args: &[String]) -> Vec<cases::Case> {
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    // Values of `--format terse` and the like are no filters.
    let valued = ["--format", "--color", "--test-threads", "--skip", "-Z"];
    let filters: Vec<_> = args
        .iter()
        .enumerate()
        .filter(|(at, arg)| !arg.starts_with('-') && (*at == 0 || !valued.contains(&args[at - 1].as_str())))
        .map(|(_, arg)| arg.as_str())
        .collect();
    let chosen = |name: &str| {
        let matches = |filter: &&str| if has("--exact") { name == *filter } else { name.contains(filter) };
        filters.is_empty() || filters.iter().any(matches)
    };
    // None is ignored, so who asks for those gets none.
    cases::ALL.iter().copied().filter(|(name, _)| chosen(name) && !has("--ignored")).collect()
}

fn run(wanted: &[cases::Case]) -> ExitCode {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: the tests of the sandbox need root");
        return ExitCode::SUCCESS;
    }
    println!("\nrunning {} tests", wanted.len());
    let mut failed = Vec::new();
    for (name, case) in wanted {
        let start = Instant::now();
        let result = catch_unwind(case);
        let in_time = start.elapsed() < LIMIT;
        if !in_time {
            eprintln!("{name} took {:?}", start.elapsed());
        }
        let passed = result.is_ok() && in_time;
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        if !passed {
            failed.push(name);
        }
    }
    let verdict = if failed.is_empty() { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {verdict}. {} passed; {} failed; 0 ignored; 0 measured; {} filtered out",
        wanted.len() - failed.len(),
        failed.len(),
        cases::ALL.len() - wanted.len(),
    );
    if !failed.is_empty() {
        eprintln!("failed: {failed:?}");
        return ExitCode::from(101);
    }
    ExitCode::SUCCESS
}
