//! `flotilla node …`

mod add;
mod delete;
mod list;
mod settings;
mod start;
mod stop;
mod update;

use flotilla_core::Cluster;
use flotilla_engine::EngineError;
use flotilla_ops::OpError;
use flotilla_spec::{NodeName, SpecError, WantedPower};

use crate::args::NodeCommand;
use crate::cluster::{Cx, node_of};
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
        NodeCommand::Ssh(args) => ssh::run(cx, &args.for_cluster()).map(done),
        NodeCommand::Logs(args) => logs::run(cx, &args.logs).map(done),
        NodeCommand::Cp(args) => cp::run_for_node(cx, &args).map(done),
        NodeCommand::Pause(args) => pause::pause_node(cx, &args.pause, &args.name, args.force).map(done),
        NodeCommand::Unpause(args) => pause::unpause(cx, &args.pause, Some(&args.name)).map(done),
        NodeCommand::DockerEnv(_) => Err(SpecError::ComesWithDocker.into()),
    }
}

/// The nodes' full names; one that the cluster does not have is an error.
fn names(cluster: &Cluster, wanted: &[String]) -> Result<Vec<NodeName>, OpError> {
    let mut names = Vec::new();
    for wanted in wanted {
        let name = node_of(cluster, Some(wanted))?.spec.name;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

/// A worker is nothing without a control plane.
fn control_plane_is_to_run(cluster: &Cluster) -> Result<(), OpError> {
    if cluster.spec.control_planes().any(|node| node.power == WantedPower::Running) {
        return Ok(());
    }
    Err(EngineError::Stopped(cluster.name().clone()).into())
}

fn joined(names: &[NodeName]) -> String {
    names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
