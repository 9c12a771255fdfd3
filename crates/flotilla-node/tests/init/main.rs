//! PID 1 on the real kernel. Needs root; without it the cases are ignored.
//!
//! This file has its own `main`, because it starts the running binary again as PID 1 of a new namespace, and as
//! what stands in for containerd there: that must happen before a test harness starts threads.

#![expect(clippy::print_stderr, reason = "what a failed case leaves is shown")]
#![expect(clippy::unwrap_used, reason = "without #[test] the lint does not see that these are tests")]

use std::ffi::OsString;
use std::process::ExitCode;

use flotilla_testkit::{harness, is_root};

mod cases;
mod node;
mod roles;
mod services;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = roles::run_if_role(&args) {
        return u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from);
    }
    let all = cases::ALL.iter().chain(services::ALL);
    let cases = all.map(|(name, case)| -> harness::Case { (name, Box::new(case)) }).collect();
    harness::run(&args, (!is_root()).then_some("root"), cases)
}
