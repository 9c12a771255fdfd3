//! `flotilla logs`: the logs of a node's services and of the containers in kube-system.

use flotilla_core::{Cmd, LogFile, Power, Session};
use flotilla_engine::EngineError;
use flotilla_spec::{ClusterName, NodeName};
use serde::{Deserialize, Serialize};

use crate::ssh::{self, Streams};
use crate::{Context, OpError, lookup};

/// PID 1's own logs and those of the containers in kube-system.
const FILES: &str = "/var/log/flotilla/*.log /var/log/pods/kube-system_*/*/*.log";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub cluster: ClusterName,
    /// By its full or short name; the primary one if none is named.
    pub node: Option<String>,
    /// How many lines of each log.
    pub lines: u32,
    pub follow: bool,
    pub streams: Streams,
}

#[derive(Debug)]
pub enum Logs {
    /// A program in the node shows them, and goes on if it was asked to follow.
    Running(Session),
    /// What a node that is off has left.
    Off(OfflineLogs),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfflineLogs {
    pub node: NodeName,
    /// Other nodes of the cluster run.
    pub cluster_runs: bool,
    pub files: Vec<LogFile>,
}

/// A node that is off cannot be followed.
pub async fn run(cx: &Context<'_>, request: &Request) -> Result<Logs, OpError> {
    let cluster = lookup::cluster(cx, &request.cluster).await?;
    let node = lookup::node(&cluster, request.node.as_deref())?.spec.name;
    let engine = cx.engine(cluster.name());
    let mut machines = engine.machines(&cluster).await?;
    let cluster_runs = machines.values().any(|machine| machine.state().power == Power::On);
    let off = machines.remove(&node).filter(|it| it.state().power == Power::Off && !request.follow);
    let lines = usize::try_from(request.lines).unwrap_or(usize::MAX);
    let left = off.map(|machine| machine.offline_logs(lines)).transpose().map_err(unreadable(&node))?;
    if let Some(files) = left.flatten() {
        return Ok(Logs::Off(OfflineLogs { node, cluster_runs, files }));
    }
    let machine = engine.machine(&cluster, &node).await?;
    Ok(Logs::Running(ssh::open(machine.as_ref(), program(request), request.streams).await?))
}

fn program(request: &Request) -> Cmd {
    let follow = if request.follow { "-F" } else { "" };
    // The pattern of a log that does not exist stands for itself.
    let line = format!(
        "set --; for log in {FILES}; do [ -e \"$log\" ] && set -- \"$@\" \"$log\"; done; \
         exec tail -v -n {} {follow} \"$@\"",
        request.lines
    );
    Cmd::new(["bash", "-c", &line])
}

fn unreadable(node: &NodeName) -> impl FnOnce(std::io::Error) -> EngineError {
    let path = format!("the logs of node {node}").into();
    move |source| EngineError::Io { action: "read", path, source }
}
