//! `flotilla`: arguments → settings → command → screen.
//!
//! The same binary is PID 1 of the nodes and their `systemctl`, and starts itself again as a stage wherever a fresh
//! process of one thread is needed: to launch a machine, to enter one, to run something in a sandbox.

mod args;
mod cluster;
mod commands;
mod completion;
mod debug;
mod failure;
mod interrupt;
mod screen;
mod settings;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use flotilla_core::Code;

use crate::args::Cli;
use crate::screen::Screen;
use crate::settings::Settings;

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
    if completion::answer_if_asked(&arguments) {
        return ExitCode::SUCCESS;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error, args::wants_json(&arguments)),
    };
    let mut settings = Settings::from_environment();
    if let Some(level) = cli.debug_level() {
        debug::print_from(level);
        // Bars and lines would be written over each other.
        settings.progress = false;
    }
    // Before, for a command that was killed, and after, for this one.
    settings.share_home();
    let screen = Screen::new(cli.output(), &settings);
    let done = commands::run(cli, &screen).and_then(|status| screen.finish().map(|()| status));
    settings.share_home();
    match done {
        Ok(status) => status,
        Err(failure) => {
            screen.failure(&failure);
            ExitCode::from(failure.exit_status())
        }
    }
}

/// Help goes to stdout and is no error, asked for or not; a wrong argument is, with minikube's status for it.
fn usage(error: &clap::Error, wants_json: bool) -> ExitCode {
    const USAGE: Code = Code { name: "MK_USAGE", exit_status: 14 };
    // Nobody is left to tell if even this cannot be written.
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = write!(anstream::stdout(), "{}", error.render().ansi());
        return ExitCode::SUCCESS;
    }
    if !error.use_stderr() {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    if wants_json {
        screen::usage_error(USAGE, error);
    } else {
        let _ = error.print();
    }
    ExitCode::from(USAGE.exit_status)
}
