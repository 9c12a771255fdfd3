//! `flotilla node update`

use flotilla_core::Changed;
use flotilla_engine::EngineError;
use flotilla_ops::OpError;
use flotilla_ops::node::update::{self, Request};
use flotilla_spec::NodeName;
use serde_json::json;

use super::settings::{self, Of};
use crate::args::NodeUpdateArgs;
use crate::cluster::Cx;
use crate::commands::file::{self, agreed, tell_outages};

pub(crate) fn run(cx: &Cx, args: &NodeUpdateArgs) -> Result<(), OpError> {
    let mut problems = Vec::new();
    let settings = settings::parse(&args.settings, Of::KnownNode, &mut problems);
    if !problems.is_empty() {
        return Err(EngineError::Spec(problems).into());
    }
    let (cluster, node, busy) = (cx.name.clone(), args.node.clone(), args.lock.busy());
    let (force, wait_limit) = (args.force, args.waiting.wait_timeout);
    let request = Request { cluster, node, settings, force, wait_limit, busy };
    let context = cx.context();
    if args.dry_run {
        let (node, plan) = cx.wait(update::plan(&context, &request))?;
        tell_outages(cx, &plan);
        cx.screen.result(&file::to_json(&plan), || match plan.changes.as_slice() {
            [] => unchanged(&node),
            _ => file::lines(&plan),
        });
        return Ok(());
    }
    let (node, prepared) = cx.wait(update::prepare(&context, &request))?;
    let plan = prepared.plan.clone();
    // What changes at once needs no question.
    if !plan.changes.is_empty() && !agreed(cx, args.yes || !plan.restarts(), &plan)? {
        return Ok(());
    }
    cx.handle_signals()?;
    let changed = cx.wait(prepared.run())?;
    let mut value = file::to_json(&plan);
    value["node"] = json!(node.as_ref());
    value["changed"] = json!(changed.is_yes() || !plan.changes.is_empty());
    cx.screen.result(&value, || match (plan.changes.as_slice(), changed) {
        ([], Changed::No) => unchanged(&node),
        _ => format!("updated node {node}"),
    });
    Ok(())
}

fn unchanged(node: &NodeName) -> String {
    format!("node {node} already has these settings: nothing to do")
}
