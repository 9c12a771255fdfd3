//! `flotilla pause`, `flotilla unpause`

use std::sync::Arc;

use flotilla_core::Cluster;
use flotilla_core::{Machine, Power};
use flotilla_engine::EngineError;
use flotilla_ops::OpError;
use serde_json::json;

use crate::args::PauseArgs;
use crate::cluster::{Cx, node_of};

/// Where etcd and the API server are.
const SYSTEM: &str = "kube-system";

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

#[derive(Clone, Copy)]
enum Change {
    Pause { force: bool },
    Unpause,
}

/// The machines that run; that of a control plane must.
fn running(cx: &Cx, cluster: &Cluster) -> Result<Vec<Arc<dyn Machine>>, EngineError> {
    cx.require_control_plane(cluster)?;
    let machines = cx.wait(cx.engine().machines(&cx.name))?.into_values();
    Ok(machines.filter(|machine| machine.state().power == Power::On).collect())
}

fn change(cx: &Cx, args: &PauseArgs, node: Option<&str>, change: Change) -> Result<(), OpError> {
    let cluster = cx.cluster()?;
    let only = node.map(|node| node_of(&cluster, Some(node))).transpose()?;
    cx.handle_signals()?;
    let verb = match change {
        Change::Pause { .. } => "pause",
        Change::Unpause => "unpause",
    };
    let _lock = cx.lock(&cx.name, &format!("flotilla {verb}"), args.lock)?;
    let namespaces = (!args.all_namespaces).then_some(args.namespaces.as_slice());
    let engine = cx.engine();
    let machines = match only {
        Some(node) => {
            let machine = cx.wait(engine.machine(&cx.name, &node.spec.name))?;
            let freezes_etcd = namespaces.is_none_or(|names| names.iter().any(|name| name == SYSTEM));
            if matches!(change, Change::Pause { force: false })
                && freezes_etcd
                && !cx.wait(engine.bootstrapper.is_paused(machine.as_ref()))
            {
                cx.wait(engine.can_pause(&cluster, &node.spec.name))?;
            }
            vec![machine]
        }
        None => running(cx, &cluster)?,
    };
    let mut count = 0;
    for machine in machines {
        let done = match change {
            Change::Pause { .. } => cx.wait(engine.bootstrapper.pause(machine.as_ref(), namespaces)),
            Change::Unpause => cx.wait(engine.bootstrapper.unpause(machine.as_ref(), namespaces)),
        };
        count += done.map_err(EngineError::from)?;
    }
    let value = json!({"cluster": cx.name.as_ref(), "containers": count});
    cx.screen.result(&value, || {
        let whose = namespaces.map_or_else(|| "all namespaces".into(), |namespaces| namespaces.join(", "));
        let done = match change {
            Change::Pause { .. } => "paused",
            Change::Unpause => "unpaused",
        };
        let containers = if count == 1 { "container" } else { "containers" };
        format!("{done} {count} {containers} in {whose}")
    });
    Ok(())
}
