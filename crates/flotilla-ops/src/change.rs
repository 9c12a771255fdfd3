//! Changing a cluster that exists: what differs from what is wanted, whether it can be done, and doing it.

mod control_plane;
mod error;

use std::collections::BTreeSet;
use std::time::Duration;

use flotilla_core::{Changed, Cluster, Drain};
use flotilla_engine::EngineError;
use flotilla_engine::converge::{Engine, Resize, Wait};
use flotilla_engine::store::Locked;
use flotilla_spec::change::{self, Change};
use flotilla_spec::{ClusterFile, ClusterSpec, NodeName, NodeSpec, WantedPower};

use crate::{Context, OpError, admission, bring_up, bundles};

pub use error::FileError;

/// How a cluster would change, or what would be made where there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub wanted: ClusterSpec,
    pub changes: Vec<Change>,
    /// What asked for it, if that was a file.
    pub(crate) file: Option<ClusterFile>,
}

impl Plan {
    /// Everything wrong with it is reported; whether it can be done is [`Plan::feasible`].
    pub(crate) fn new(
        cx: &Context<'_>,
        file: &ClusterFile,
        cluster: Option<&Cluster>,
    ) -> Result<Self, OpError> {
        let (known, wanted) = if let Some(cluster) = cluster {
            let known = with_chosen_ranges(cluster);
            let wanted = file.expanded_over(&known);
            (known, wanted)
        } else {
            let wanted = file.expanded(&cx.bundles.default_version());
            (ClusterSpec { nodes: Vec::new(), ..wanted.clone() }, wanted)
        };
        let mut problems = file.check(&wanted, &cx.host);
        if cluster.is_some() {
            problems = known.new_problems(problems, &cx.host);
        }
        admission::refuse(problems, None)?;
        Ok(Self { changes: change::changes(&known, &wanted), wanted, file: Some(file.clone()) })
    }

    /// Refuses it if any of it cannot be done to that cluster: before anybody is asked, and before a node is stopped for
    /// it.
    pub(crate) async fn feasible(&self, cx: &Context<'_>, cluster: &Cluster) -> Result<(), OpError> {
        let refused: Vec<_> = self.changes.iter().filter(|change| change.obstacle().is_some()).collect();
        if refused.is_empty() {
            return self.check(cx, cluster).await;
        }
        let renewed: Option<BTreeSet<_>> = refused.iter().map(|change| change.renews()).collect();
        let workers = renewed.unwrap_or_default().into_iter().cloned().collect();
        let changes = refused.iter().map(ToString::to_string).collect();
        Err(FileError::Impossible { cluster: cluster.name().clone(), changes, workers }.into())
    }

    /// Refuses what new nodes, or new requirements of others, cannot have of the host.
    pub(crate) async fn check(&self, cx: &Context<'_>, cluster: &Cluster) -> Result<(), OpError> {
        let is_new = |node: &&NodeSpec| !cluster.spec.nodes.iter().any(|known| known.name == node.name);
        let new = self.wanted.nodes.iter().filter(is_new);
        let mut problems = admission::bundle_problems(cx, &self.wanted, new)?;
        let mut wanted = Cluster::new(self.wanted.clone(), cluster.allocations.clone());
        problems.extend(wanted.allocate().err());
        // Of new nodes the check of the spec has told. One that runs already would not boot again.
        let restarting = |node: &&NodeSpec| self.changes.iter().any(|it| it.restarts() == Some(&node.name));
        let restarting = self.wanted.nodes.iter().filter(restarting);
        problems.extend(restarting.flat_map(NodeSpec::conflicting_mounts));
        problems.extend(admission::host_problems(cx, &wanted).await?);
        admission::refuse(problems, self.file.as_ref())
    }

    /// When the API does not answer while the plan is done.
    pub fn outages(&self) -> Vec<String> {
        control_plane::outages(self)
    }

    /// Whether a node that runs restarts for it.
    pub fn restarts(&self) -> bool {
        self.changes.iter().any(|change| change.restarts().is_some())
    }
}

/// A change that was checked, with the cluster's lock: what a user agrees to is what is done.
#[derive(Debug)]
pub struct Prepared<'a> {
    pub plan: Plan,
    pub(crate) cx: Context<'a>,
    pub(crate) locked: Locked,
    pub(crate) cluster: Cluster,
    pub(crate) drain: Drain,
    pub(crate) wait_limit: Duration,
    /// One node changes: no other is started or stopped.
    pub(crate) only: Option<NodeName>,
}

impl Prepared<'_> {
    /// Does it in an order in which pods that must move have somewhere to go, and in which the same command goes on from
    /// wherever this one was killed. All that can be settled without a machine is settled before the first one is touched.
    pub async fn run(self) -> Result<Changed, OpError> {
        let Self { plan, cx, locked, mut cluster, drain, wait_limit, only } = self;
        let wait = if only.is_some() { Wait::for_nodes(wait_limit) } else { Wait::for_cluster(wait_limit) };
        run(&cx, &locked, &mut cluster, &plan, drain, &wait, only.as_ref()).await
    }
}

async fn run(
    cx: &Context<'_>,
    locked: &Locked,
    cluster: &mut Cluster,
    plan: &Plan,
    drain: Drain,
    wait: &Wait,
    only: Option<&NodeName>,
) -> Result<Changed, OpError> {
    let engine = &cx.engine(cluster.name());
    // Once more: while a user thought, a node may have died.
    check(engine, cluster, plan, drain.force).await?;
    let mut next = merged(cluster, plan)?;
    next.allocations.bundles = bundles::of_new_nodes(cx, &next.spec, &next.allocations.bundles)?;
    if only.is_none() {
        engine.finish_stop(cluster).await?;
    }
    let _held = admission::save(cx, engine, locked, &mut next).await?;
    *cluster = next;
    let gone: Vec<_> = plan.changes.iter().filter_map(removed).cloned().collect();
    let resized: BTreeSet<_> = plan.changes.iter().filter_map(Change::restarts).cloned().collect();
    let resized: Vec<_> =
        cluster.nodes().map(|node| node.spec.name).filter(|name| resized.contains(name)).collect();
    let (wanted, force) = (&plan.wanted, drain.force);
    let how = Resize { nodes: &resized, wanted, going: &gone, force, alone: only.is_some() };
    let mut changed = engine.resize(locked, cluster, how, wait).await?;
    if let Some(node) = only {
        // Also where it is off: a command that was killed may have left it so in the middle of its restart. One that was
        // stopped gets what is new when it is started.
        let is_to_run = |known: &NodeSpec| known.name == *node && known.power == WantedPower::Running;
        if cluster.spec.nodes.iter().any(is_to_run) && engine.control_plane_is_on(cluster).await? {
            let node = std::slice::from_ref(node);
            changed = changed.or(bring_up::start_nodes(engine, locked, cluster, node, wait).await?);
        }
    } else if plan.runs() {
        changed = changed.or(engine.start_staying(locked, cluster, &gone, wait).await?);
        cluster.allocations.adding.clear();
    }
    if plan.changes.iter().any(Change::updates_labels)
        || cluster.spec.taint_control_planes != plan.wanted.taint_control_planes
        || is_relabelling(engine, cluster, plan).await?
    {
        changed = changed.or(update_labels(engine, locked, cluster, &plan.wanted).await?);
    }
    if plan.changes.iter().any(Change::forwards) {
        changed = changed.or(cx.fleet.ensure_routes(cluster).await.map_err(EngineError::from)?);
    }
    if only.is_some() {
        return Ok(changed);
    }
    control_plane::check_again(engine, cluster, plan, drain.force).await?;
    if !gone.is_empty() {
        engine.delete_nodes(locked, cluster, &gone, drain).await?;
        changed = Changed::Yes;
    }
    if !plan.runs() {
        return Ok(changed.or(engine.stop(cluster, false).await?));
    }
    changed = changed.or(bring_up::finish_removals(engine, locked, cluster).await?);
    let off = cluster.spec.nodes.iter().filter(|node| node.power == WantedPower::Stopped);
    let off: Vec<_> = off.map(|node| node.name.clone()).collect();
    cluster.spec.hand_over_primary(&off);
    locked.save(cluster)?;
    Ok(changed.or(engine.stop_nodes(cluster, &off, drain.force).await?))
}

/// Refuses what cannot be done to that cluster as it is now. Changes nothing.
pub(crate) async fn check(
    engine: &Engine<'_>,
    cluster: &Cluster,
    plan: &Plan,
    force: bool,
) -> Result<(), OpError> {
    if !plan.runs() && plan.changes.iter().any(Change::updates_labels) {
        return Err(FileError::Asleep { cluster: cluster.name().clone() }.into());
    }
    control_plane::check(engine, &merged(cluster, plan)?, plan, force).await
}

/// Whether a killed command may have left labels or taints in the cluster, and they can be taken away.
async fn is_relabelling(engine: &Engine<'_>, cluster: &Cluster, plan: &Plan) -> Result<bool, OpError> {
    let may_be = !cluster.allocations.relabelling.is_empty() && plan.runs();
    Ok(may_be && engine.control_plane_is_on(cluster).await?)
}

/// Gives nodes their new labels and taints. What is new is saved as such before the cluster gets it, and as the spec
/// afterwards: so any command after a killed one finds what is to be set or taken away.
async fn update_labels(
    engine: &Engine<'_>,
    locked: &Locked,
    cluster: &mut Cluster,
    wanted: &ClusterSpec,
) -> Result<Changed, OpError> {
    let mut next = cluster.spec.clone();
    for node in &mut next.nodes {
        if let Some(wanted) = wanted.nodes.iter().find(|wanted| wanted.name == node.name) {
            node.labels.clone_from(&wanted.labels);
            node.taints.clone_from(&wanted.taints);
        }
    }
    next.taint_control_planes = wanted.taint_control_planes;
    for (before, node) in cluster.spec.nodes.iter().zip(&next.nodes) {
        let taints = next.taints_of(node);
        if before.labels != node.labels || cluster.spec.taints_of(before) != taints {
            let left = cluster.allocations.relabelling.entry(node.name.clone()).or_default();
            left.add(&node.labels, &taints);
        }
    }
    locked.save(cluster)?;
    let before = std::mem::replace(&mut cluster.spec, next);
    let changed = engine.update_labels(cluster, &before).await?;
    cluster.allocations.relabelling.clear();
    locked.save(cluster)?;
    Ok(changed)
}

pub(crate) fn removed(change: &Change) -> Option<&NodeName> {
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
                // A file that has a node wants to keep it. `node update` says nothing about other nodes.
                if plan.file.is_some() {
                    cluster.allocations.leaving.remove(&node.name);
                }
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
    pub(crate) fn runs(&self) -> bool {
        self.wanted.nodes.iter().any(|node| node.power == WantedPower::Running)
    }
}

/// A cluster's spec with the ranges that were chosen for it: a file may name them as well.
fn with_chosen_ranges(cluster: &Cluster) -> ClusterSpec {
    let mut spec = cluster.spec.clone();
    spec.network.subnet = Some(cluster.allocations.subnet);
    spec.network.pod_subnet = Some(cluster.allocations.pod_subnet);
    spec
}
