//! `flotilla completion`

use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};

use crate::args::{CompletionArgs, Shell};
use crate::completion::VARIABLE;
use crate::screen::Screen;

/// The script only asks the program: what can be typed is always what this version knows.
pub(crate) fn run(args: &CompletionArgs, screen: &Screen) {
    const PROGRAM: &str = "flotilla";
    let shell: &dyn EnvCompleter = match args.shell {
        Shell::Bash => &Bash,
        Shell::Zsh => &Zsh,
        Shell::Fish => &Fish,
    };
    let mut script = Vec::new();
    let written = shell.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script);
    written.expect("memory can be written to");
    screen.line(String::from_utf8_lossy(&script).trim_end());
}
