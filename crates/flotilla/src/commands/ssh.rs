//! `flotilla ssh`

use std::io::{self, IsTerminal};

use flotilla_engine::port::{Attach, DriverError};
use flotilla_engine::{Cluster, EngineError, Node};

use crate::args::SshArgs;
use crate::cluster::{Cx, node_of};
use crate::failure::Failure;

/// The shell or command in the node takes our place: its streams, its signals and its exit status are ours.
pub(crate) fn run(cx: &Cx, args: &SshArgs) -> Result<(), Failure> {
    let cluster = cx.cluster()?;
    let (node, command) = target(&cluster, args)?;
    let machine = cx.wait(cx.engine().machine(&cx.name, &node.spec.name))?;
    let program = if command.is_empty() {
        vec!["bash".to_owned(), "-l".to_owned()]
    } else {
        vec!["bash".to_owned(), "-c".to_owned(), command.join(" ")]
    };
    let on_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let how = if on_terminal { Attach::Terminal } else { Attach::Streams };
    let env = cx.settings().term.iter().map(|term| ("TERM".to_owned(), term.clone())).collect();
    match machine.exec().attach(program, env, how) {
        Ok(never) => match never {},
        Err(error) => Err(EngineError::Driver(DriverError::Exec(error)).into()),
    }
}

/// Where to go and what to run. The first word may name the node: `flotilla ssh m02`.
fn target<'a>(cluster: &Cluster, args: &'a SshArgs) -> Result<(Node, &'a [String]), Failure> {
    if let (None, Some((first, rest))) = (&args.node, args.command.split_first())
        && let Ok(node) = node_of(cluster, Some(first))
    {
        return Ok((node, rest));
    }
    Ok((node_of(cluster, args.node.as_deref())?, &args.command))
}
