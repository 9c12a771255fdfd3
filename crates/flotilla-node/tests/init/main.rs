//! PID 1 on the real kernel. Needs root; without it says so and passes.
//!
//! This file has its own `main`, because it starts the running binary again as PID 1 of a new namespace, and as
//! what stands in for containerd there: that must happen before a test harness starts threads. It understands as
//! much of the harness's command line as `cargo test` and `cargo nextest` use.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a test harness")]
#![expect(clippy::unwrap_used, reason = "without #[test] the lint does not see that these are tests")]

use std::ffi::OsString;
use std::panic::catch_unwind;
use std::process::ExitCode;

mod cases;
mod node;
mod roles;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = roles::run_if_role(&args) {
        return u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from);
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
    let is_filter =
        |at: usize| !args[at].starts_with('-') && (at == 0 || !valued.contains(&args[at - 1].as_str()));
    let filters: Vec<&str> =
        (0..args.len()).filter(|at| is_filter(*at)).map(|at| args[at].as_str()).collect();
    let chosen = |name: &str| {
        let matches = |filter: &&str| if has("--exact") { name == *filter } else { name.contains(filter) };
        filters.is_empty() || filters.iter().any(matches)
    };
    // None is ignored, so who asks for those gets none.
    cases::ALL.iter().copied().filter(|(name, _)| chosen(name) && !has("--ignored")).collect()
}

fn run(wanted: &[cases::Case]) -> ExitCode {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: the tests of PID 1 need root");
        return ExitCode::SUCCESS;
    }
    println!("\nrunning {} tests", wanted.len());
    let mut failed = Vec::new();
    for (name, case) in wanted {
        let passed = catch_unwind(case).is_ok();
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        if !passed {
            failed.push(name);
        }
    }
    println!(
        "\ntest result: {}. {} passed; {} failed; 0 ignored; 0 measured; {} filtered out",
        if failed.is_empty() { "ok" } else { "FAILED" },
        wanted.len() - failed.len(),
        failed.len(),
        cases::ALL.len() - wanted.len(),
    );
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("failed: {failed:?}");
    ExitCode::from(101)
}
