//! `flotilla ssh`

use std::io::{self, IsTerminal};

use flotilla_engine::EngineError;
use flotilla_engine::port::{Attach, DriverError};

use crate::args::SshArgs;
use crate::cluster::{Cx, node_of};
use crate::failure::Failure;

/// The shell or command in the node takes our place: its streams, its signals and its exit status are ours.
pub(crate) fn run(cx: &Cx, args: &SshArgs) -> Result<(), Failure> {
    let cluster = cx.cluster()?;
    let node = node_of(&cluster, args.node.as_deref())?;
    let machine = cx.wait(cx.engine().machine(&cx.name, &node.spec.name))?;
    let program = if args.command.is_empty() {
        vec!["bash".to_owned(), "-l".to_owned()]
    } else {
        vec!["bash".to_owned(), "-c".to_owned(), args.command.join(" ")]
    };
    let on_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let how = if on_terminal { Attach::Terminal } else { Attach::Streams };
    let env = cx.settings().term.iter().map(|term| ("TERM".to_owned(), term.clone())).collect();
    match machine.exec().attach(program, env, how) {
        Ok(never) => match never {},
        Err(error) => Err(EngineError::Driver(DriverError::Exec(error)).into()),
    }
}
