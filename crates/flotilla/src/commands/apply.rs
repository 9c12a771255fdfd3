//! `flotilla apply`

mod control_plane;

use std::collections::BTreeSet;

use flotilla_bundle::BundleStore;
use flotilla_core::{Changed, Drain};
use flotilla_core::{Cluster, Event};
use flotilla_engine::EngineError;
use flotilla_engine::converge::Resize;
use flotilla_engine::store::Locked;
use flotilla_ops::{OpError, bring_up};
use flotilla_spec::{Change, ClusterFile, ClusterSpec, NodeName, NodeSpec, WantedPower};
use serde_json::json;

use crate::args::ApplyArgs;
use crate::cluster::{Cx, bundles, prepare};
use crate::commands::file::{self, FileError, Plan};
use crate::commands::start::{self, How, wait};
use crate::screen::Screen;
use crate::wiring::Wiring;

pub(crate) fn run(
    profile: Option<&str>,
    args: &ApplyArgs,
    screen: &Screen,
    wiring: &Wiring,
) -> Result<(), OpError> {
    let (cx, file) = file::open(profile, &args.file.path, screen, wiring)?;
    cx.require_root()?;
    if cx.store.load(&cx.name)?.is_none() {
        return make(&cx, args, &file);
    }
    if args.dry_run {
        let cluster = cx.store.get(&cx.name)?;
        let plan = Plan::new(&cx, &file, Some(&cluster))?;
        plan.feasible(&cx, &cluster)?;
        check(&cx, &cluster, &plan, args.draining.force)?;
        tell_outages(&cx, &plan);
        tell_plan(&cx, args, &plan);
        return Ok(());
    }
    // Held while a person thinks: what they agree to is what is done.
    let locked = cx.lock(&cx.name, "flotilla apply", args.lock)?;
    let mut cluster = cx.store.get(&cx.name)?;
    let plan = Plan::new(&cx, &file, Some(&cluster))?;
    plan.feasible(&cx, &cluster)?;
    check(&cx, &cluster, &plan, args.draining.force)?;
    prepare::warn(&cx, &plan.wanted);
    if !plan.changes.is_empty() && !agreed(&cx, args.yes, &plan)? {
        return Ok(());
    }
    cx.handle_signals()?;
    let drain = Drain { limit: args.draining.drain_timeout, force: args.draining.force };
    let changed = change(&cx, &locked, &mut cluster, &plan, drain, None)?;
    tell(&cx, args, &plan, changed);
    Ok(())
}

/// A cluster that is not there yet.
fn make(cx: &Cx, args: &ApplyArgs, file: &ClusterFile) -> Result<(), OpError> {
    let plan = Plan::new(cx, file, None)?;
    start::check_new(cx, &plan.wanted, Some(file))?;
    if args.dry_run {
        tell_plan(cx, args, &plan);
        return Ok(());
    }
    if !agreed(cx, args.yes, &plan)? {
        return Ok(());
    }
    let how = How { wait: wait::default(), dry_run: false, force: false, yes: args.yes, lock: args.lock };
    start::from_file(cx, file, &args.file.path, &how)
}

/// Refuses what cannot be done to that cluster as it is now. Changes nothing.
pub(crate) fn check(cx: &Cx, cluster: &Cluster, plan: &Plan, force: bool) -> Result<(), OpError> {
    if !plan.runs() && plan.changes.iter().any(Change::updates_labels) {
        return Err(FileError::Asleep { cluster: cx.name.clone() }.into());
    }
    control_plane::check(cx, &merged(cluster, plan)?, plan, force)
}

/// Shows what would change, and asks unless `yes` was given.
pub(crate) fn agreed(cx: &Cx, yes: bool, plan: &Plan) -> Result<bool, OpError> {
    if !cx.screen.is_json() {
        cx.screen.line(&plan.lines());
    }
    tell_outages(cx, plan);
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

/// A person has to know when nobody can write.
pub(crate) fn tell_outages(cx: &Cx, plan: &Plan) {
    for text in control_plane::outages(plan) {
        cx.screen.reporter().report(Event::Note { text });
    }
}

/// Does it in an order in which pods that must move have somewhere to go, and in which the same command goes on from
/// wherever this one was killed. All that can be settled without a machine is settled before the first one is touched.
/// With `only` one node changes: no other is started or stopped.
pub(crate) fn change(
    cx: &Cx,
    locked: &Locked,
    cluster: &mut Cluster,
    plan: &Plan,
    drain: Drain,
    only: Option<&NodeName>,
) -> Result<Changed, OpError> {
    let (engine, wait) = (cx.engine(), wait::default());
    // Once more: while a person thought, a node may have died.
    check(cx, cluster, plan, drain.force)?;
    let mut next = merged(cluster, plan)?;
    let bundle_store = BundleStore::open(cx.settings().home.clone(), cx.cancel.clone())?;
    next.allocations.bundles =
        bundles::of_new_nodes(cx, &bundle_store, &next.spec, &next.allocations.bundles)?;
    if only.is_none() {
        cx.wait(engine.finish_stop(cluster))?;
    }
    let _held = prepare::save(cx, &mut next)?;
    *cluster = next;
    let gone: Vec<_> = plan.changes.iter().filter_map(removed).cloned().collect();
    let resized: BTreeSet<_> = plan.changes.iter().filter_map(Change::restarts).cloned().collect();
    let resized: Vec<_> =
        cluster.nodes().map(|node| node.spec.name).filter(|name| resized.contains(name)).collect();
    let (wanted, force) = (&plan.wanted, drain.force);
    let how = Resize { nodes: &resized, wanted, going: &gone, force, alone: only.is_some() };
    let mut changed = cx.wait(engine.resize(locked, cluster, how, &wait))?;
    if let Some(node) = only {
        // Also where it is off: a command that was killed may have left it so in the middle of its restart. One that was
        // stopped gets what is new when it is started.
        let is_to_run = |known: &NodeSpec| known.name == *node && known.power == WantedPower::Running;
        if cluster.spec.nodes.iter().any(is_to_run) && cx.wait(engine.control_plane_is_on(cluster))? {
            changed = changed.or(cx.wait(bring_up::start_nodes(
                &cx.context(),
                locked,
                cluster,
                std::slice::from_ref(node),
                &wait,
            ))?);
        }
    } else if plan.runs() {
        changed = changed.or(cx.wait(engine.start_staying(cluster, &gone, &wait))?);
        cluster.allocations.adding.clear();
    }
    if plan.changes.iter().any(Change::updates_labels)
        || cluster.spec.taint_control_planes != plan.wanted.taint_control_planes
    {
        changed = changed.or(update_labels(cx, cluster, &plan.wanted)?);
    }
    if plan.changes.iter().any(Change::forwards) {
        changed = changed.or(cx.wait(engine.fleet.ensure_routes(cluster)).map_err(EngineError::from)?);
    }
    if only.is_some() {
        return Ok(changed);
    }
    control_plane::check_again(cx, cluster, plan, drain.force)?;
    if !gone.is_empty() {
        cx.wait(engine.delete_nodes(locked, cluster, &gone, drain))?;
        changed = Changed::Yes;
    }
    if plan.runs() {
        changed = changed.or(cx.wait(bring_up::finish_removals(&cx.context(), locked, cluster))?);
    }
    let stopped = if plan.runs() {
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

/// Gives nodes their new labels and taints: in the cluster first, so that a killed command still finds them to be
/// changed.
fn update_labels(cx: &Cx, cluster: &mut Cluster, wanted: &ClusterSpec) -> Result<Changed, OpError> {
    let before = cluster.spec.clone();
    for node in &mut cluster.spec.nodes {
        if let Some(wanted) = wanted.nodes.iter().find(|wanted| wanted.name == node.name) {
            node.labels.clone_from(&wanted.labels);
            node.taints.clone_from(&wanted.taints);
        }
    }
    cluster.spec.taint_control_planes = wanted.taint_control_planes;
    let changed = cx.wait(cx.engine().update_labels(cluster, &before))?;
    cx.store.save(cluster)?;
    Ok(changed)
}

fn removed(change: &Change) -> Option<&NodeName> {
    match change {
        Change::Remove { node, .. } => Some(node),
        _ => None,
    }
}

/// The cluster with the wanted nodes in it. Those that go stay in it until they are gone, and so do labels and taints of
/// those that stay (see [`update_labels`]), and sizes and mounts of those that must be off for new ones (see [`Resize`]).
fn merged(cluster: &Cluster, plan: &Plan) -> Result<Cluster, OpError> {
    let mut cluster = cluster.clone();
    let restarts = |node: &NodeSpec| plan.changes.iter().any(|change| change.restarts() == Some(&node.name));
    for node in &plan.wanted.nodes {
        match cluster.spec.nodes.iter_mut().find(|known| known.name == node.name) {
            Some(known) => {
                let mut next =
                    NodeSpec { labels: known.labels.clone(), taints: known.taints.clone(), ..node.clone() };
                if restarts(node) {
                    (next.cpus, next.memory) = (known.cpus, known.memory);
                    next.mounts.clone_from(&known.mounts);
                }
                *known = next;
                // A file that has a node wants to keep it.
                cluster.allocations.leaving.remove(&node.name);
            }
            None => cluster.spec.nodes.push(node.clone()),
        }
    }
    cluster.spec.node_defaults.clone_from(&plan.wanted.node_defaults);
    cluster.allocate()?;
    Ok(cluster)
}

impl Plan {
    /// Whether any node is to run afterwards.
    fn runs(&self) -> bool {
        self.wanted.nodes.iter().any(|node| node.power == WantedPower::Running)
    }
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
