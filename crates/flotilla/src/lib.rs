//! The command line: arguments → settings → command → screen.
//!
//! [`run`] does what the program does, so that tests can do the same with settings, streams and a world of their own.

mod args;
mod cluster;
mod commands;
mod completion;
mod debug;
mod interrupt;
mod screen;
mod settings;
mod wiring;

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use flotilla_core::Code;
use flotilla_ops::OpError;

use crate::args::Cli;
use crate::screen::Screen;

pub use completion::answer_shell;
pub use screen::{Captured, Console};
pub use settings::Settings;
pub use wiring::Wiring;

/// All commands and flags, as clap has them.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs one command and gives the program's exit status. `arguments` begin with the program's own name; `wire` is
/// [`Wiring::real`], or gives fakes.
pub fn run(
    arguments: &[OsString],
    mut settings: Settings,
    console: &Console,
    wire: impl FnOnce(&Settings) -> Result<Wiring, OpError>,
) -> u8 {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, args::wants_json(arguments), console),
    };
    if let Some(level) = cli.debug_level() {
        debug::print_from(level);
        // Bars and lines would be written over each other.
        settings.progress = false;
    }
    // Before, for a command that was killed, and after, for this one.
    settings.share_home();
    let screen = Screen::new(cli.output(), &settings, console);
    let done = wire(&settings)
        .and_then(|wiring| commands::run(cli, &screen, &wiring))
        .and_then(|status| screen.finish().map(|()| status));
    settings.share_home();
    match done {
        Ok(status) => status,
        Err(failure) => {
            screen.failure(&failure);
            failure.exit_status()
        }
    }
}

/// Help goes to stdout and is no error, asked for or not; a wrong argument is, with minikube's status for it.
fn usage(error: &clap::Error, wants_json: bool, console: &Console) -> u8 {
    const USAGE: Code = Code { name: "MK_USAGE", exit_status: 14 };
    let text = error.render().ansi().to_string();
    let text = text.trim_end_matches('\n');
    // Nobody is left to tell if even this cannot be written.
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand || !error.use_stderr() {
        let _ = console.out(text);
        return 0;
    }
    if wants_json {
        screen::usage_error(USAGE, error, console);
    } else {
        console.err(text);
    }
    USAGE.exit_status
}
