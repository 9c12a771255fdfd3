//! Sandboxes and other processes on the real kernel. Needs root; without it they are ignored.
//!
//! This file has its own `main`, because a sandbox starts the running binary again as its stages: that must happen
//! before a test harness starts threads.

#![expect(clippy::unwrap_used, reason = "without #[test] the lint does not see that these are tests")]

use std::ffi::OsString;
use std::process::ExitCode;

use flotilla_linux::sandbox;
use flotilla_testkit::{harness, is_root};

mod cases;
mod groups;
mod machines;
mod support;
mod users;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let stages = [
        sandbox::run_if_stage,
        flotilla_linux::machine::run_if_launcher,
        flotilla_linux::enter::run_if_stage,
    ];
    if let Some(code) = stages.iter().find_map(|run_if_stage| run_if_stage(&args)) {
        return u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from);
    }
    if let Some(code) = support::run_if_helper(&args).or_else(|| machines::run_if_init(&args)) {
        return code;
    }
    if is_root() {
        machines::remove_left_over();
    }
    let cases = cases::ALL.iter().chain(groups::ALL).chain(machines::ALL).chain(users::ALL);
    let cases = cases.map(|(name, case)| -> harness::Case { (name, Box::new(case)) }).collect();
    harness::run(&args, (!is_root()).then_some("root"), cases)
}
