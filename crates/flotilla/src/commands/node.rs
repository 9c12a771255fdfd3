//! `flotilla node …`

mod add;
pub(crate) mod delete;
mod list;
mod start;
mod stop;

use std::process::ExitCode;

use flotilla_engine::Cluster;
use flotilla_spec::NodeName;

use crate::args::NodeCommand;
use crate::cluster::{Cx, node_of};
use crate::commands::{ip, logs, ssh, status};
use crate::failure::Failure;

pub(crate) fn run(cx: &Cx, command: NodeCommand) -> Result<ExitCode, Failure> {
    let done = |()| ExitCode::SUCCESS;
    match command {
        NodeCommand::Add(args) => add::run(cx, &args).map(done),
        NodeCommand::Start(args) => start::run(cx, &args).map(done),
        NodeCommand::Stop(args) => stop::run(cx, &args).map(done),
        NodeCommand::Delete(args) => delete::run(cx, &args).map(done),
        NodeCommand::List(args) => list::run(cx, &args).map(done),
        NodeCommand::Status(args) => status::run(cx, &args),
        NodeCommand::Ip(args) => ip::run(cx, &args).map(done),
        NodeCommand::Ssh(args) => ssh::run(cx, &args).map(done),
        NodeCommand::Logs(args) => logs::run(cx, &args).map(done),
    }
}

/// The nodes' full names; one that the cluster does not have is an error.
fn names(cluster: &Cluster, wanted: &[String]) -> Result<Vec<NodeName>, Failure> {
    let mut names = Vec::new();
    for wanted in wanted {
        let name = node_of(cluster, Some(wanted))?.spec.name;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

fn joined(names: &[NodeName]) -> String {
    names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
