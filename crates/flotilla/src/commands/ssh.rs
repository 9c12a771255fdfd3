//! `flotilla ssh`

use std::io::{self, IsTerminal};

use flotilla_core::{Attach, DriverError};
use flotilla_core::{Cluster, Node};
use flotilla_engine::EngineError;
use flotilla_ops::OpError;

use crate::args::SshArgs;
use crate::cluster::{Cx, node_of};

/// The shell or command in the node takes our place: its streams, its signals and its exit status are ours.
pub(crate) fn run(cx: &Cx, args: &SshArgs) -> Result<(), OpError> {
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
    match machine.guest().attach(program, env, how) {
        Ok(never) => match never {},
        Err(error) => Err(EngineError::Driver(DriverError::Guest(error)).into()),
    }
}

/// Where to go and what to run. The first word may name the node: `flotilla ssh m02`.
fn target<'a>(cluster: &Cluster, args: &'a SshArgs) -> Result<(Node, &'a [String]), OpError> {
    if let (None, Some((first, rest))) = (&args.node, args.command.split_first())
        && let Ok(node) = node_of(cluster, Some(first))
    {
        // Behind the node's name, clap takes `--` for a word of the command.
        let separated = rest.split_first().filter(|(first, _)| *first == "--");
        return Ok((node, separated.map_or(rest, |(_, command)| command)));
    }
    Ok((node_of(cluster, args.node.as_deref())?, &args.command))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    #[test]
    fn the_first_word_may_name_the_node_with_or_without_two_dashes_behind_it() {
        let mut cluster = flotilla_testkit::fake::cluster("10.213.0.0/24");
        let worker = flotilla_spec::NodeSpec::plain("demo-m02".parse().unwrap(), flotilla_spec::Role::Worker);
        cluster.spec.nodes.push(worker);
        cluster.allocate().unwrap();
        for (words, node, command) in [
            (&[][..], "demo", &[][..]),
            (&["m02"], "demo-m02", &[]),
            (&["m02", "--", "ps", "-e"], "demo-m02", &["ps", "-e"]),
            (&["m02", "ps", "-e"], "demo-m02", &["ps", "-e"]),
            (&["--", "ps", "-e"], "demo", &["ps", "-e"]),
            (&["-n", "m02", "--", "ps"], "demo-m02", &["ps"]),
        ] {
            let typed = ["flotilla", "ssh"].iter().chain(words);
            let Command::Ssh(args) = Cli::try_parse_from(typed).unwrap().command else { panic!("{words:?}") };
            let (found, rest) = target(&cluster, &args).unwrap();
            assert_eq!(
                (found.spec.name.as_ref(), rest),
                (node, command.iter().map(ToString::to_string).collect::<Vec<_>>().as_slice()),
                "{words:?}"
            );
        }
    }
}
