//! The command line: arguments → settings → command → screen.
//!
//! [`run`] does what the program does, so that tests can do the same with settings, streams and a world of their own.

mod args;
mod arguments;
mod attach;
mod audit;
mod cluster;
mod commands;
mod completion;
mod debug;
mod foreign;
mod interrupt;
mod owned;
mod profile;
mod profile_file;
mod screen;
mod settings;
mod suggestions;
mod wiring;

use std::ffi::OsString;

use clap::error::ErrorKind;

use flotilla_core::Code;
use flotilla_ops::OpError;

use crate::arguments::CalledAs;
use crate::audit::Typed;
use crate::profile::Profile;
use crate::screen::Screen;

pub use completion::answer_shell;
pub use screen::{Captured, Console};
pub use settings::Settings;
pub use wiring::{Replacement, Wiring};

/// All commands and flags, as clap has them.
pub fn command() -> clap::Command {
    args::command()
}

/// Runs one command and gives the program's exit status. `arguments` begin with the program's own name; `wire` is
/// [`Wiring::real`], or gives fakes.
pub fn run(
    arguments: &[OsString],
    mut settings: Settings,
    console: &Console,
    wire: impl FnOnce(&Settings) -> Result<Wiring, OpError>,
) -> u8 {
    let typed_as = arguments;
    let called_as = CalledAs::of(arguments);
    let arguments = match called_as {
        CalledAs::Kubectl => arguments::of_kubectl(arguments),
        CalledAs::Flotilla | CalledAs::Minikube => arguments::normalised(arguments, command()),
    };
    let cli = match args::parse(&arguments) {
        Ok(cli) => cli,
        Err(error) => {
            let profile = Profile::new(None, &settings, called_as.default_cluster());
            return usage(error, &arguments, profile.default(), console);
        }
    };
    if let Some(level) = cli.debug_level() {
        debug::print_from(level);
        // Bars and lines would be written over each other.
        settings.progress = false;
    }
    // Before, for a command that was killed, and after, for this one.
    settings.share_home();
    let profile = Profile::new(cli.profile.clone(), &settings, called_as.default_cluster());
    let named = profile.given().is_some() || profile.default() != called_as.default_cluster();
    let repeated = arguments::under_own_name(called_as, typed_as, &arguments, named);
    let screen = Screen::new(cli.output(), cli.progress(), &repeated, &settings, console)
        .with_default(profile.default());
    let accepted = cli.accepted;
    let (changes, is_start) = (cli.command.is_audited(), cli.command.is_start());
    let typed = Typed::new(cli.command.word(), &arguments);
    let done = wire(&settings)
        .and_then(|wiring| {
            let done = commands::run(cli.command, &profile, &screen, &wiring);
            if changes {
                profile_file::synchronise(&settings, &wiring.store);
            }
            done
        })
        .and_then(|status| screen.finish().map(|()| status));
    settings.share_home();
    let status = match done {
        Ok(status) => status,
        Err(failure) => {
            screen.failure(&failure);
            failure.exit_status()
        }
    };
    let log = audit::text(&typed, &screen.logged(), status);
    if changes && !accepted.skip_audit {
        let profile = screen.cluster().map_or_else(|| profile.name().to_owned(), ToString::to_string);
        let user = accepted.user.as_deref().or(settings.user.as_deref()).unwrap_or("unknown");
        audit::add(&settings, &typed, &audit::Ran { user, profile: &profile, status });
    }
    if is_start {
        audit::keep_last_start(&settings, &log);
    }
    let in_directory = accepted
        .log_dir
        .as_ref()
        .map(|directory| (directory, "--log_dir", audit::write_log_file(directory, &settings, &typed, &log)));
    let in_file =
        accepted.log_file.as_ref().map(|file| (file, "--log_file", audit::append_to(file, &settings, &log)));
    for (path, flag, written) in in_directory.into_iter().chain(in_file) {
        if let Err(error) = written {
            let text = format!("cannot write a log to {}: {error}", path.display());
            screen.warning(&text, &format!("give another path with `{flag}`"));
        }
    }
    status
}

/// Help goes to stdout and is no error, asked for or not; a wrong argument is, with minikube's status for it. `default` is the
/// cluster of commands that name none.
fn usage(error: clap::Error, arguments: &[OsString], default: &str, console: &Console) -> u8 {
    const USAGE: Code = Code { name: "MK_USAGE", exit_status: 14 };
    // Nobody is left to tell if even help cannot be written.
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand || !error.use_stderr() {
        let _ = console.out(rendered(&error).trim_end_matches('\n'));
        return 0;
    }
    let wants_json = args::wants_json(arguments);
    if let Some(answer) = foreign::answer(&error, arguments, &command(), default) {
        screen::foreign_words(USAGE, &answer, wants_json, console);
        return USAGE.exit_status;
    }
    let error = suggestions::only_typing_errors(error);
    if wants_json {
        screen::usage_error(USAGE, &error, console);
    } else {
        console.err(rendered(&error).trim_end_matches('\n'));
    }
    USAGE.exit_status
}

fn rendered(error: &clap::Error) -> String {
    error.render().ansi().to_string()
}
