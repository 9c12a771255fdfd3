//! One file per command, each with a `run`.

mod bundle;
mod completion;
mod version;

use crate::args::{Cli, Command};
use crate::failure::Failure;
use crate::screen::Screen;

pub(crate) fn run(cli: Cli, screen: &Screen) -> Result<(), Failure> {
    match cli.command {
        Command::Bundle(command) => bundle::run(command, screen),
        Command::Version(args) => {
            version::run(&args, screen);
            Ok(())
        }
        Command::Completion(args) => {
            completion::run(&args, screen);
            Ok(())
        }
    }
}
