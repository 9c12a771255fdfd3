//! `flotilla pause`, `flotilla unpause`

use flotilla_ops::OpError;
use flotilla_ops::pause::{self, Change, Request};

use crate::args::PauseArgs;
use crate::cluster::Cx;

/// The whole cluster.
pub(crate) fn pause(cx: &Cx, args: &PauseArgs) -> Result<(), OpError> {
    change(cx, args, None, Change::Pause { force: true })
}

/// One node; if etcd would lose its majority by it, only with `force`.
pub(crate) fn pause_node(cx: &Cx, args: &PauseArgs, node: &str, force: bool) -> Result<(), OpError> {
    change(cx, args, Some(node), Change::Pause { force })
}

pub(crate) fn unpause(cx: &Cx, args: &PauseArgs, node: Option<&str>) -> Result<(), OpError> {
    change(cx, args, node, Change::Unpause)
}

fn change(cx: &Cx, args: &PauseArgs, node: Option<&str>, change: Change) -> Result<(), OpError> {
    let request = Request {
        cluster: cx.name.clone(),
        node: node.map(str::to_owned),
        namespaces: (!args.all_namespaces).then(|| args.namespaces.clone()),
        change,
        busy: args.lock.busy(),
    };
    cx.handle_signals()?;
    let paused = cx.wait(pause::run(&cx.context(), &request))?;
    cx.screen.result(&paused, || {
        let whose = request.namespaces.map_or_else(|| "all namespaces".into(), |names| names.join(", "));
        let done = match change {
            Change::Pause { .. } => "paused",
            Change::Unpause => "unpaused",
        };
        let count = paused.containers;
        let containers = if count == 1 { "container" } else { "containers" };
        let what = paused
            .node
            .as_ref()
            .map_or_else(|| format!("cluster {}", cx.name), |node| format!("node {node}"));
        format!("{done} {what}: {count} {containers} in {whose}")
    });
    Ok(())
}
