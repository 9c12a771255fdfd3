//! `flotilla node update`

use std::time::Duration;

use flotilla_core::Cluster;
use flotilla_core::{Changed, Drain};
use flotilla_engine::EngineError;
use flotilla_ops::OpError;
use flotilla_spec::{Change, NodeName, change};
use serde_json::json;

use super::settings::{Of, Settings};
use crate::args::NodeUpdateArgs;
use crate::cluster::{Cx, node_of, prepare, this_host};
use crate::commands::apply;
use crate::commands::file::Plan;

pub(crate) fn run(cx: &Cx, args: &NodeUpdateArgs) -> Result<(), OpError> {
    let mut problems = Vec::new();
    let settings = Settings::parse(&args.settings, Of::KnownNode, &mut problems);
    if !problems.is_empty() {
        return Err(EngineError::Spec(problems).into());
    }
    node_of(&cx.cluster()?, Some(&args.node))?;
    // Held while a person thinks: what they agree to is what is done.
    let locked = cx.lock(&cx.name, "flotilla node update", args.lock)?;
    let mut cluster = cx.store.get(&cx.name)?;
    let node = node_of(&cluster, Some(&args.node))?.spec.name;
    let plan = plan(&cluster, &node, &settings)?;
    plan.feasible(cx, &cluster)?;
    apply::check(cx, &cluster, &plan, args.force)?;
    check_alone(cx, &cluster, &node, &plan)?;
    if args.dry_run {
        apply::tell_outages(cx, &plan);
        cx.screen.result(&plan.to_json(), || match plan.changes.as_slice() {
            [] => format!("{node} is like that already: nothing to do"),
            _ => plan.lines(),
        });
        return Ok(());
    }
    // What changes at once needs no question.
    let restarts = plan.changes.iter().any(|change| change.restarts().is_some());
    if !plan.changes.is_empty() && !apply::agreed(cx, args.yes || !restarts, &plan)? {
        return Ok(());
    }
    cx.handle_signals()?;
    prepare::warn(cx, &plan.wanted);
    // No node goes, so none is drained.
    let drain = Drain { limit: Duration::ZERO, force: args.force };
    let changed = apply::change(cx, &locked, &mut cluster, &plan, drain, Some(&node))?;
    let mut value = plan.to_json();
    value["node"] = json!(node.as_ref());
    value["changed"] = json!(changed.is_yes() || !plan.changes.is_empty());
    cx.screen.result(&value, || match (plan.changes.as_slice(), changed) {
        ([], Changed::No) => format!("{node} is like that already: nothing to do"),
        _ => format!("{node} is changed"),
    });
    Ok(())
}

/// Refuses what could be done to the node only if others were started or unpaused for it.
fn check_alone(cx: &Cx, cluster: &Cluster, node: &NodeName, plan: &Plan) -> Result<(), OpError> {
    let is_on = || cx.wait(cx.engine().machine(&cx.name, node)).is_ok();
    let restarts = plan.changes.iter().any(|change| change.restarts().is_some());
    if plan.changes.iter().any(Change::updates_labels) || restarts && is_on() {
        cx.wait(cx.engine().can_start_nodes(cluster, std::slice::from_ref(node)))?;
    }
    Ok(())
}

/// How the cluster would change. All that is wrong with it is told.
fn plan(cluster: &Cluster, node: &NodeName, settings: &Settings) -> Result<Plan, OpError> {
    let mut wanted = cluster.spec.clone();
    for node in wanted.nodes.iter_mut().filter(|known| known.name == *node) {
        settings.apply_to(node)?;
    }
    let problems = cluster.spec.new_problems(wanted.check(&this_host()), &this_host());
    if !problems.is_empty() {
        return Err(EngineError::Spec(problems).into());
    }
    Ok(Plan { changes: change::changes(&cluster.spec, &wanted), wanted, file: None })
}
