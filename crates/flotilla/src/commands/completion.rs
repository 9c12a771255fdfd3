//! `flotilla completion`

use clap::CommandFactory;

use crate::args::{Cli, CompletionArgs, Shell};
use crate::screen::Screen;

pub(crate) fn run(args: &CompletionArgs, screen: &Screen) {
    let shell = match args.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "flotilla", &mut script);
    screen.line(String::from_utf8_lossy(&script).trim_end());
}
