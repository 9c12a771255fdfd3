//! `flotilla`: arguments and environment → [`flotilla::run`] → exit status.
//!
//! The same binary is PID 1 of the nodes and their `systemctl` and `sudo`, and starts itself again as a stage wherever a fresh
//! process of one thread is needed: to launch a machine, to enter one, to run something in a sandbox.

use std::process::ExitCode;

use flotilla::{Console, Settings, Wiring};

fn main() -> ExitCode {
    // First, while there is one thread only.
    let arguments: Vec<_> = std::env::args_os().collect();
    let stages = [
        flotilla_node::stage::run_if_stage,
        flotilla_linux::enter::run_if_stage,
        flotilla_linux::sandbox::run_if_stage,
    ];
    if let Some(status) = stages.iter().find_map(|run_if_stage| run_if_stage(&arguments)) {
        return ExitCode::from(u8::try_from(status).unwrap_or(1));
    }
    if flotilla::answer_shell(&arguments) {
        return ExitCode::SUCCESS;
    }
    let (settings, console) = (Settings::from_environment(), Console::of_process());
    ExitCode::from(flotilla::run(&arguments, settings, &console, Wiring::real))
}
