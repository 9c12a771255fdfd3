//! `flotilla ssh`

use std::io::{self, IsTerminal};

use flotilla_core::{Attach, DriverError};
use flotilla_engine::EngineError;
use flotilla_ops::OpError;
use flotilla_ops::ssh::{self, Program, Request};

use crate::args::SshArgs;
use crate::cluster::Cx;

pub(crate) fn run(cx: &Cx, args: &SshArgs) -> Result<(), OpError> {
    let request =
        Request { cluster: cx.name.clone(), node: args.node.clone(), command: args.command.clone() };
    let program = cx.wait(ssh::run(&cx.context(), &request))?;
    let on_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let how = if on_terminal { Attach::Terminal } else { Attach::Streams };
    attach(cx, program, how)
}

/// The program in the node takes our place: its streams, its signals and its exit status are ours.
pub(super) fn attach(cx: &Cx, program: Program, how: Attach) -> Result<(), OpError> {
    let env = cx.settings().term.iter().map(|term| ("TERM".to_owned(), term.clone())).collect();
    match program.machine.guest().attach(program.argv, env, how) {
        Ok(never) => match never {},
        Err(error) => Err(EngineError::Driver(DriverError::Guest(error)).into()),
    }
}
