//! `flotilla recover`

use flotilla_core::explain::profile_flag;
use flotilla_ops::OpError;
use flotilla_ops::recover::{self, Prepared, Recovered, Request};
use serde_json::json;

use super::etcd::{agreed, tell_copies};
use crate::args::RecoverArgs;
use crate::cluster::Cx;

pub(crate) fn run(cx: &Cx, args: &RecoverArgs) -> Result<(), OpError> {
    let request = Request {
        cluster: cx.name.clone(),
        from: args.from.clone(),
        force: args.force,
        busy: args.lock.busy(),
    };
    let prepared = cx.wait(recover::prepare(&cx.context(), request))?;
    let question = format!("Recover etcd of cluster {}?", cx.name);
    if !agreed(cx, args.yes, &lines(cx, args, &prepared), &question)? {
        return Ok(());
    }
    cx.handle_signals()?;
    let recovered = cx.wait(prepared.run(&cx.context()))?;
    let Recovered { cluster, node, changed, copies, .. } = &recovered;
    let value = json!({"cluster": cluster, "node": node, "changed": changed, "copies": copies});
    cx.screen.result(&value, || match recovered.keys {
        Some(keys) => format!("recovered etcd of cluster {} ({keys} keys)", cx.name),
        None => format!("etcd of cluster {} is already recovered", cx.name),
    });
    tell_copies(cx, &recovered.copies);
    if recovered.has_others {
        let text = format!("node {} is the only member of etcd", recovered.node);
        let flag = profile_flag(&cx.name);
        cx.screen.note(&text, &format!("`flotilla start{flag}` lets the other control planes join it"));
    }
    Ok(())
}

/// What is going to happen.
fn lines(cx: &Cx, args: &RecoverArgs, prepared: &Prepared) -> Vec<String> {
    let what = match &args.from {
        Some(file) => file.display().to_string(),
        None => "the newest data of a control plane".to_owned(),
    };
    let names: Vec<_> = prepared.control_planes().iter().map(ToString::to_string).collect();
    let guard = if args.force { "" } else { " or have their data" };
    vec![
        format!("control planes of cluster {}: {}", cx.name, names.join(", ")),
        format!("starts those that exist; if a majority of them answer{guard}, nothing else is changed"),
        format!("otherwise recreates etcd with one member from {what} and removes the others from it"),
        "writes that this member has not received are lost; old data is kept on the nodes' disks".to_owned(),
    ]
}
