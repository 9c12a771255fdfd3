//! `flotilla apply`

use flotilla_engine::Cluster;
use flotilla_engine::port::{Changed, Drain};
use flotilla_spec::error::SpecError;
use flotilla_spec::{Change, ClusterFile, ClusterSpec, NodeName, WantedPower};
use serde_json::json;

use crate::args::ApplyArgs;
use crate::cluster::Cx;
use crate::commands::file::{self, FileError, Plan};
use crate::commands::node::delete;
use crate::commands::start::{self, How, wait};
use crate::failure::Failure;
use crate::screen::Screen;

pub(crate) fn run(profile: Option<&str>, args: &ApplyArgs, screen: &Screen) -> Result<(), Failure> {
    let (cx, file) = file::open(profile, &args.file.path, screen)?;
    cx.require_root()?;
    if cx.store.load(&cx.name)?.is_none() {
        return make(&cx, args, &file);
    }
    if args.dry_run {
        let plan = Plan::new(&cx, &file, cx.store.load(&cx.name)?.as_ref())?;
        plan.feasible(&cx)?;
        tell_plan(&cx, args, &plan);
        return Ok(());
    }
    // Held while a person thinks: what they agree to is what is done.
    let _lock = cx.lock(&cx.name, "flotilla apply", args.lock)?;
    let mut cluster = cx.store.get(&cx.name)?;
    let plan = Plan::new(&cx, &file, Some(&cluster))?;
    plan.feasible(&cx)?;
    if !plan.changes.is_empty() && !agreed(&cx, args, &plan)? {
        return Ok(());
    }
    cx.heed_signals()?;
    let drain = Drain { limit: args.draining.drain_timeout, force: args.draining.force };
    let changed = apply(&cx, &mut cluster, &plan, drain)?;
    tell(&cx, args, &plan, changed);
    Ok(())
}

/// A cluster that is not there yet.
fn make(cx: &Cx, args: &ApplyArgs, file: &ClusterFile) -> Result<(), Failure> {
    let plan = Plan::new(cx, file, None)?;
    if args.dry_run {
        tell_plan(cx, args, &plan);
        return Ok(());
    }
    if !agreed(cx, args, &plan)? {
        return Ok(());
    }
    let how = How { wait: wait::default(), dry_run: false, force: false, lock: args.lock };
    start::from_file(cx, file, &how)
}

fn agreed(cx: &Cx, args: &ApplyArgs, plan: &Plan) -> Result<bool, Failure> {
    if !cx.screen.is_json() {
        cx.screen.line(&plan.lines());
    }
    if args.yes {
        return Ok(true);
    }
    let yes =
        cx.screen.ask(&format!("change cluster {} like that?", cx.name)).ok_or(FileError::NobodyToAsk)?;
    if !yes {
        cx.screen.line("nothing was changed");
    }
    Ok(yes)
}

/// Does it in an order in which pods that must move have somewhere to go, and in which the same command goes on from
/// wherever this one was killed.
fn apply(cx: &Cx, cluster: &mut Cluster, plan: &Plan, drain: Drain) -> Result<Changed, Failure> {
    let engine = cx.engine();
    cx.wait(engine.finish_stop(cluster))?;
    // Off before the new size is saved: killed in between, the size is still to be changed.
    let resized: Vec<_> = plan.changes.iter().filter_map(Change::restarts).cloned().collect();
    let mut changed = cx.wait(engine.stop_nodes(cluster, &resized, None))?;

    let gone: Vec<_> = plan.changes.iter().filter_map(removed).cloned().collect();
    merge(cluster, &plan.wanted)?;
    cx.store.save(cluster)?;
    let runs = plan.wanted.nodes.iter().any(|node| node.power == WantedPower::Running);
    if runs {
        // Those that go need not come up first.
        let mut staying = cluster.clone();
        for node in staying.spec.nodes.iter_mut().filter(|node| gone.contains(&node.name)) {
            node.power = WantedPower::Stopped;
        }
        changed = changed.or(cx.wait(engine.start(&staying, &wait::default()))?);
    }
    if !gone.is_empty() {
        delete::remove(cx, cluster, &gone, drain)?;
        changed = Changed::Yes;
    }
    let stopped = if runs {
        let off = cluster.spec.nodes.iter().filter(|node| node.power == WantedPower::Stopped);
        let off: Vec<_> = off.map(|node| node.name.clone()).collect();
        cx.wait(engine.stop_nodes(cluster, &off, None))?
    } else {
        cx.wait(engine.stop(cluster, false))?
    };
    Ok(changed.or(stopped))
}

fn removed(change: &Change) -> Option<&NodeName> {
    match change {
        Change::Remove { node, .. } => Some(node),
        _ => None,
    }
}

/// Puts the wanted nodes into the cluster. Those that go stay in it until they are gone.
fn merge(cluster: &mut Cluster, wanted: &ClusterSpec) -> Result<(), Failure> {
    let prefix = cluster.spec.network.node_pod_prefix;
    for node in &wanted.nodes {
        match cluster.spec.nodes.iter_mut().find(|known| known.name == node.name) {
            Some(known) => known.clone_from(node),
            None => cluster.spec.nodes.push(node.clone()),
        }
        cluster.handed_out.hand_out(&node.name, prefix).ok_or(SpecError::NoAddressLeft)?;
    }
    Ok(())
}

fn tell_plan(cx: &Cx, args: &ApplyArgs, plan: &Plan) {
    cx.screen.result(&plan.to_json(), || match plan.changes.as_slice() {
        [] => format!("{} is as {} says: nothing to do", cx.name, file::name_of(&args.file.path)),
        _ => plan.lines(),
    });
}

fn tell(cx: &Cx, args: &ApplyArgs, plan: &Plan, changed: Changed) {
    let mut value = plan.to_json();
    value["changed"] = json!(changed.is_yes());
    cx.screen.result(&value, || {
        let file = file::name_of(&args.file.path);
        match changed {
            Changed::Yes => format!("{} is as {file} says", cx.name),
            Changed::No => format!("{} is as {file} says: nothing to do", cx.name),
        }
    });
}
