//! `flotilla apply`

mod control_plane;

use std::collections::BTreeSet;

use flotilla_engine::port::{Changed, Drain};
use flotilla_engine::{Cluster, EngineError};
use flotilla_spec::{Change, ClusterFile, ClusterSpec, NodeName, NodeSpec, Role, WantedPower};
use serde_json::json;

use crate::args::ApplyArgs;
use crate::cluster::{Cx, prepare};
use crate::commands::file::{self, FileError, Plan};
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
        let cluster = cx.store.get(&cx.name)?;
        let plan = Plan::new(&cx, &file, Some(&cluster))?;
        plan.feasible(&cx, &cluster)?;
        tell_plan(&cx, args, &plan);
        return Ok(());
    }
    // Held while a person thinks: what they agree to is what is done.
    let _lock = cx.lock(&cx.name, "flotilla apply", args.lock)?;
    let mut cluster = cx.store.get(&cx.name)?;
    let plan = Plan::new(&cx, &file, Some(&cluster))?;
    plan.feasible(&cx, &cluster)?;
    prepare::warn(&cx, &plan.wanted);
    if !plan.changes.is_empty() && !agreed(&cx, args.yes, &plan)? {
        return Ok(());
    }
    cx.heed_signals()?;
    let drain = Drain { limit: args.draining.drain_timeout, force: args.draining.force };
    let changed = change(&cx, &mut cluster, &plan, drain)?;
    tell(&cx, args, &plan, changed);
    Ok(())
}

/// A cluster that is not there yet.
fn make(cx: &Cx, args: &ApplyArgs, file: &ClusterFile) -> Result<(), Failure> {
    let plan = Plan::new(cx, file, None)?;
    start::check_new(cx, &plan.wanted, Some(file))?;
    if args.dry_run {
        tell_plan(cx, args, &plan);
        return Ok(());
    }
    if !agreed(cx, args.yes, &plan)? {
        return Ok(());
    }
    let how = How { wait: wait::default(), dry_run: false, force: false, lock: args.lock };
    start::from_file(cx, file, &args.file.path, &how)
}

/// Shows what would change, and asks unless `yes` was given.
pub(crate) fn agreed(cx: &Cx, yes: bool, plan: &Plan) -> Result<bool, Failure> {
    if !cx.screen.is_json() {
        cx.screen.line(&plan.lines());
    }
    if yes {
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
pub(crate) fn change(cx: &Cx, cluster: &mut Cluster, plan: &Plan, drain: Drain) -> Result<Changed, Failure> {
    let engine = cx.engine();
    let runs = plan.wanted.nodes.iter().any(|node| node.power == WantedPower::Running);
    if !runs && plan.changes.iter().any(Change::relabels) {
        return Err(FileError::Asleep { cluster: cx.name.clone() }.into());
    }
    let gone: Vec<_> = plan.changes.iter().filter_map(removed).cloned().collect();
    control_plane::check(cx, cluster, plan, drain.force)?;
    cx.wait(engine.finish_stop(cluster))?;
    let mut changed = resize(cx, cluster, plan)?;
    merge(cluster, &plan.wanted)?;
    prepare::save(cx, cluster)?;
    if runs {
        // Workers that go need not come up first.
        let mut staying = cluster.clone();
        let goes = |node: &&mut NodeSpec| node.role == Role::Worker && gone.contains(&node.name);
        for node in staying.spec.nodes.iter_mut().filter(goes) {
            node.power = WantedPower::Stopped;
        }
        changed = changed.or(cx.wait(engine.start(&staying, &wait::default()))?);
        cluster.handed_out.adding.clear();
    }
    if plan.changes.iter().any(Change::relabels)
        || cluster.spec.taint_control_planes != plan.wanted.taint_control_planes
    {
        changed = changed.or(relabel(cx, cluster, &plan.wanted)?);
    }
    if plan.changes.iter().any(Change::forwards) {
        changed = changed.or(cx.wait(engine.driver.ensure_routes(cluster)).map_err(EngineError::from)?);
    }
    if !gone.is_empty() {
        cx.wait(engine.delete_nodes(cluster, &gone, drain))?;
        changed = Changed::Yes;
    }
    let stopped = if runs {
        let off = cluster.spec.nodes.iter().filter(|node| node.power == WantedPower::Stopped);
        let off: Vec<_> = off.map(|node| node.name.clone()).collect();
        cluster.spec.hand_over_primary(&off);
        cx.store.save(cluster)?;
        cx.wait(engine.stop_nodes(cluster, &off, drain.force))?
    } else {
        cx.wait(engine.stop(cluster, false))?
    };
    Ok(changed.or(stopped))
}

/// Gives nodes that run the sizes and mounts that they get when they boot. Each is off before that is saved: killed in
/// between, it is still to be changed. Of several control planes one after the other is off.
fn resize(cx: &Cx, cluster: &mut Cluster, plan: &Plan) -> Result<Changed, Failure> {
    let resized: BTreeSet<_> = plan.changes.iter().filter_map(Change::restarts).cloned().collect();
    let mut one_by_one: Vec<_> = cluster.spec.control_planes().map(|node| node.name.clone()).collect();
    one_by_one.retain(|name| resized.contains(name) && cluster.spec.control_planes().count() > 1);
    let mut changed = Changed::No;
    for name in &one_by_one {
        changed = changed.or(cx.wait(cx.engine().power_off(cluster, std::slice::from_ref(name)))?);
        let wanted = plan.wanted.nodes.iter().find(|wanted| wanted.name == *name);
        let known = cluster.spec.nodes.iter_mut().find(|known| known.name == *name);
        if let (Some(known), Some(wanted)) = (known, wanted) {
            (known.cpus, known.memory) = (wanted.cpus, wanted.memory);
            known.mounts.clone_from(&wanted.mounts);
        }
        prepare::save(cx, cluster)?;
        changed = changed.or(cx.wait(cx.engine().start(cluster, &wait::default()))?);
    }
    let others: Vec<_> = resized.into_iter().filter(|name| !one_by_one.contains(name)).collect();
    Ok(changed.or(cx.wait(cx.engine().power_off(cluster, &others))?))
}

/// Gives nodes their new labels and taints: in the cluster first, so that a killed command still finds them to be
/// changed.
fn relabel(cx: &Cx, cluster: &mut Cluster, wanted: &ClusterSpec) -> Result<Changed, Failure> {
    let before = cluster.spec.clone();
    for node in &mut cluster.spec.nodes {
        if let Some(wanted) = wanted.nodes.iter().find(|wanted| wanted.name == node.name) {
            node.labels.clone_from(&wanted.labels);
            node.taints.clone_from(&wanted.taints);
        }
    }
    cluster.spec.taint_control_planes = wanted.taint_control_planes;
    let changed = cx.wait(cx.engine().relabel(cluster, &before))?;
    cx.store.save(cluster)?;
    Ok(changed)
}

fn removed(change: &Change) -> Option<&NodeName> {
    match change {
        Change::Remove { node, .. } => Some(node),
        _ => None,
    }
}

/// Puts the wanted nodes into the cluster. Those that go stay in it until they are gone, and so do labels and taints of
/// those that stay: see [`relabel`].
fn merge(cluster: &mut Cluster, wanted: &ClusterSpec) -> Result<(), Failure> {
    for node in &wanted.nodes {
        match cluster.spec.nodes.iter_mut().find(|known| known.name == node.name) {
            Some(known) => {
                let (labels, taints) = (known.labels.clone(), known.taints.clone());
                *known = NodeSpec { labels, taints, ..node.clone() };
            }
            None => cluster.spec.nodes.push(node.clone()),
        }
    }
    cluster.spec.node_defaults.clone_from(&wanted.node_defaults);
    Ok(cluster.hand_out()?)
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
