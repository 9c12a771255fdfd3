//! `flotilla node …`

mod add;
mod delete;
mod list;
mod settings;
mod start;
mod stop;
mod update;

use flotilla_ops::OpError;
use flotilla_ops::node::NodesChanged;
use flotilla_spec::{NodeName, SpecError};
use serde_json::{Value, json};

use crate::args::NodeCommand;
use crate::cluster::Cx;
use crate::commands::{cp, ip, logs, pause, ssh, status};

pub(crate) fn run(cx: &Cx, command: NodeCommand) -> Result<u8, OpError> {
    let done = |()| 0;
    match command {
        NodeCommand::Add(args) => add::run(cx, &args).map(done),
        NodeCommand::Start(args) => start::run(cx, &args).map(done),
        NodeCommand::Stop(args) => stop::run(cx, &args).map(done),
        NodeCommand::Delete(args) => delete::run(cx, &args).map(done),
        NodeCommand::List(args) => list::run(cx, &args).map(done),
        NodeCommand::Update(args) => update::run(cx, &args).map(done),
        NodeCommand::Status(args) => status::run(cx, &args.for_cluster()),
        NodeCommand::Ip(args) => ip::run(cx, &args.ip).map(done),
        NodeCommand::Ssh(args) => ssh::run(cx, &args.for_cluster()),
        NodeCommand::Logs(args) => logs::run(cx, &args.logs),
        NodeCommand::Cp(args) => cp::run_for_node(cx, &args).map(done),
        NodeCommand::Pause(args) => pause::pause_node(cx, &args.pause, &args.name, args.force).map(done),
        NodeCommand::Unpause(args) => pause::unpause(cx, &args.pause, Some(&args.name)).map(done),
        NodeCommand::DockerEnv(_) => Err(SpecError::ComesWithDocker.into()),
    }
}

fn changed_json(done: &NodesChanged) -> Value {
    json!({"cluster": done.cluster, "changed": done.changed})
}

fn nodes_json(done: &NodesChanged) -> Value {
    json!({"cluster": done.cluster, "nodes": done.nodes})
}

/// Nodes as results name them: `node m02`, `nodes m02, m03`.
fn named(names: &[NodeName]) -> String {
    let kind = if names.len() == 1 { "node" } else { "nodes" };
    format!("{kind} {}", names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}

/// The same as the subject of a state: `node m02 is`, `nodes m02, m03 are`.
fn named_are(names: &[NodeName]) -> String {
    format!("{} {}", named(names), if names.len() == 1 { "is" } else { "are" })
}
