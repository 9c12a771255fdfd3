//! Converges a cluster: observe, plan, apply.

mod last_data;
mod observe;
mod remove;
mod restart;
mod retire;
mod schedule;
mod scope;
mod work;
mod write_kubeconfig;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use flotilla_core::Cancel;
use flotilla_spec::{ClusterSpec, DriverName, NodeName, NodeSpec, Role, WantedPower};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde::{Deserialize, Serialize};

use crate::error::EngineError;
use crate::fleet::Fleet;
use crate::nodes::Nodes;
use crate::plan::{self, Action, Observed, Plan, PlannedStep};
use crate::store::{ClusterStore, Locked};
use crate::view::View;
use flotilla_core::cluster::{self, Cluster, Node};
use flotilla_core::event::{Event, Outcome, Reporter, Step};
use flotilla_core::explain::{one_line, profile_flag};
use flotilla_core::{
    ApiAccess, Bootstrapper, Bundles, Changed, Condition, Drain, DriverError, GuestError, Kubeconfig,
    Machine, MachineState, Power,
};

pub use restart::Resize;
pub use retire::{ControlPlaneChange, Leaving};
pub use schedule::Lanes;

use schedule::Schedule;
use work::Work;

/// What a command changes one cluster with. Its view lasts as long as the engine: machines are listed once.
pub struct Engine<'a> {
    pub fleet: Fleet<'a>,
    pub bootstrapper: &'a dyn Bootstrapper,
    pub bundles: &'a dyn Bundles,
    pub kubeconfig: &'a dyn Kubeconfig,
    pub store: &'a ClusterStore,
    pub reporter: &'a dyn Reporter,
    pub cancel: &'a Cancel,
    pub lanes: Lanes,
    pub view: View,
}

impl std::fmt::Debug for Engine<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("store", &self.store).field("view", &self.view).finish_non_exhaustive()
    }
}

/// The conditions that `start` waits for, and the time limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    pub conditions: BTreeSet<Condition>,
    pub limit: Duration,
}

impl Wait {
    /// What must hold so that the cluster works.
    pub const CLUSTER: [Condition; 6] = [
        Condition::ApiServer,
        Condition::NodeReady,
        Condition::DefaultServiceAccount,
        Condition::Controllers,
        Condition::KubeProxy,
        Condition::Dns,
    ];
    /// What must hold so that a node takes pods.
    pub const NODE: [Condition; 4] =
        [Condition::ApiServer, Condition::NodeReady, Condition::DefaultServiceAccount, Condition::KubeProxy];
    /// The limit of commands whose user has set none.
    pub const LIMIT: Duration = Duration::from_mins(6);

    /// Waits until the cluster works.
    pub fn for_cluster(limit: Duration) -> Self {
        Self { conditions: Self::CLUSTER.into(), limit }
    }

    /// Waits until nodes of a cluster take pods.
    pub fn for_nodes(limit: Duration) -> Self {
        Self { conditions: Self::NODE.into(), limit }
    }
}

const WITHOUT_NETWORK: &str = "the cluster was made with `--cni none`: its nodes are NotReady until you install a pod \
     network, and are not waited for";
const WITHOUT_DNS: &str =
    "CoreDNS tolerates the taints of no node: it does not run, and DNS is not waited for";

impl Engine<'_> {
    /// The administrator's way to the API by a control plane, as its host's network leads there.
    pub async fn access(
        &self,
        cluster: &Cluster,
        via: &dyn Machine,
    ) -> Result<Option<ApiAccess>, EngineError> {
        let api = self.fleet.reach_api(cluster, via.driver()).await?;
        Ok(self.bootstrapper.access(&cluster::url(api), via).await?)
    }

    /// The machines, with what is inside.
    pub fn nodes(&self) -> Nodes<'_> {
        Nodes::of(self.fleet, self.bundles)
    }

    /// The plan that `start` would apply.
    pub async fn plan_start(
        &self,
        cluster: &Cluster,
        wait: &BTreeSet<Condition>,
    ) -> Result<Plan, EngineError> {
        let observed = self.observe(cluster).await?;
        can_start(cluster, &observed)?;
        let plan = plan::start(cluster, &observed, wait);
        can_boot_all(cluster, &plan, |node| observed.is_on(node))?;
        Ok(plan)
    }

    /// Starts everything. Returns whether anything changed. As soon as the cluster has data, that is saved.
    pub async fn start(
        &self,
        locked: &Locked,
        cluster: &Cluster,
        wait: &Wait,
    ) -> Result<Changed, EngineError> {
        let machines = self.machines(cluster).await?;
        let observed = self.observe_with(cluster, &machines).await?;
        note_founded(locked, cluster, &observed)?;
        can_start(cluster, &observed)?;
        let left_alone = |node: &&NodeSpec| node.power == WantedPower::Running;
        for node in cluster.spec.nodes.iter().filter(left_alone) {
            if let Some(why) = observed.unknown(&node.name) {
                self.warn(format!("node {} is left alone: {why}", node.name));
            }
        }
        let plan = plan::start(cluster, &observed, &wait.conditions);
        let work = Work::on(cluster, machines).knowing(&observed).within(wait.limit).saving(locked);
        self.do_start(&plan, &work, &wait.conditions).await
    }

    async fn do_start(
        &self,
        plan: &Plan,
        work: &Work<'_>,
        conditions: &BTreeSet<Condition>,
    ) -> Result<Changed, EngineError> {
        if !plan.changes_something() && self.holds(plan, work).await {
            return Ok(Changed::No);
        }
        let changed = self.apply(plan, work).await?;
        if !plan.changes_something() || plan.only_publishes() && !changed.is_yes() {
            return Ok(Changed::No);
        }
        let cluster = work.cluster()?;
        if plan::attainable(cluster, conditions) != *conditions {
            let text = if plan::has_pod_network(cluster) { WITHOUT_DNS } else { WITHOUT_NETWORK };
            self.reporter.report(Event::Note { text: text.into() });
        }
        Ok(Changed::Yes)
    }

    /// Whether the conditions that the plan only waits for already hold. Then there is nothing to report.
    async fn holds(&self, plan: &Plan, work: &Work<'_>) -> bool {
        let at_once = work.within(Duration::ZERO);
        for step in &plan.steps {
            if self.act(&step.action, &at_once).await.is_err() {
                return false;
            }
        }
        true
    }

    /// Finishes a `stop` that was killed: `start` cannot use a machine that is shutting down.
    ///
    /// Not for a control plane while others should run: it may still be a member of etcd, and has to leave before it
    /// is powered off.
    pub async fn finish_stop(&self, cluster: &Cluster) -> Result<(), EngineError> {
        let control_plane_runs = cluster.spec.control_planes().any(|node| node.power == WantedPower::Running);
        let may_stop = |node: &&NodeSpec| node.role == Role::Worker || !control_plane_runs;
        let stopped = cluster.spec.nodes.iter().filter(|node| node.power == WantedPower::Stopped);
        for node in stopped.filter(may_stop) {
            match self.power_off_machine(&node.driver(), &node.name).await {
                // Nobody can say whether it is on; whoever needs it says so.
                Err(DriverError::Unreachable { .. }) => {}
                stopped => drop(stopped?),
            }
        }
        Ok(())
    }

    async fn power_off_machine(&self, owner: &DriverName, node: &NodeName) -> Result<Changed, DriverError> {
        let stopped = self.fleet.stop(owner, self.view.cluster(), node).await;
        if !matches!(stopped, Ok(Changed::No)) {
            self.view.list_again();
        }
        stopped
    }

    /// Makes a node's machine, boots it or repairs it. `was_on` says that it ran before.
    async fn ensure_machine(
        &self,
        cluster: &Cluster,
        node: &Node,
        was_on: bool,
    ) -> Result<Arc<dyn Machine>, EngineError> {
        if !was_on {
            can_boot(cluster, node)?;
        }
        let ensured = self.nodes().ensure(cluster, node, was_on).await;
        match &ensured {
            Ok(machine) => self.view.put(machine),
            Err(_) => self.view.list_again(),
        }
        Ok(ensured?)
    }

    /// Boots the machine of a node that is off, and nothing else.
    pub async fn boot(&self, cluster: &Cluster, node: &Node) -> Result<(), EngineError> {
        self.ensure_machine(cluster, node, false).await.map(drop)
    }

    /// Powers all nodes off; `keep_context` leaves the user's kubeconfig unchanged.
    pub async fn stop(&self, cluster: &Cluster, keep_context: bool) -> Result<Changed, EngineError> {
        let machines = self.machines(cluster).await?;
        let published = !keep_context && self.is_current(cluster.name())?;
        let observed = Observed { published, ..powers(&machines) };
        let plan = plan::stop(cluster, &observed);
        self.apply(&plan, &Work::on(cluster, machines)).await?;
        let all: Vec<_> = observed.machines.keys().cloned().collect();
        require_known(cluster, &observed, &all, "stop")?;
        Ok(if plan.changes_something() { Changed::Yes } else { Changed::No })
    }

    /// Drains nodes before they are powered off. If one of them cannot be drained, all are uncordoned.
    pub async fn drain_nodes(
        &self,
        cluster: &Cluster,
        nodes: &[NodeName],
        how: Drain,
    ) -> Result<Changed, EngineError> {
        let machines = self.machines(cluster).await?;
        require_known(cluster, &powers(&machines), nodes, "drain")?;
        let plan = plan::drain_nodes(&powers(&machines), nodes, how);
        let work = Work::on(cluster, machines);
        self.or_admit(self.apply(&plan, &work).await, nodes, &work).await
    }

    /// Powers nodes off until they are started again; control planes leave etcd first. With `force` they do not leave
    /// if etcd would lose quorum.
    pub async fn stop_nodes(
        &self,
        cluster: &Cluster,
        nodes: &[NodeName],
        force: bool,
    ) -> Result<Changed, EngineError> {
        let machines = self.machines(cluster).await?;
        let is_control_plane = |name: &NodeName| cluster.spec.control_planes().any(|node| node.name == *name);
        let (control_planes, workers): (Vec<_>, Vec<_>) = nodes.iter().cloned().partition(is_control_plane);
        let observed = if control_planes.is_empty() {
            powers(&machines)
        } else {
            self.observe_with(cluster, &machines).await?
        };
        require_known(cluster, &observed, nodes, "stop")?;
        let why = (Leaving::Stopped, force);
        let retiring = self.retiring_or_forced(cluster, &observed, &control_planes, why)?;
        let plan = plan::stop_nodes(&observed, nodes, &retiring);
        let work = Work::on(cluster, machines).knowing(&observed);
        let changed = self.apply(&plan, &work).await?;
        self.publish_anew(&retiring, &work).await?;
        for node in workers.iter().filter(|node| observed.is_on(node)) {
            let Ok((cluster, via)) = work.via(None).await else { break };
            // A failure is not reported: Kubernetes notices the silent node itself in less than a minute. If one call
            // fails, the next would fail as well.
            if self.bootstrapper.mark_stopped(cluster, node, via.as_ref()).await.is_err() {
                break;
            }
        }
        Ok(changed)
    }

    /// Sets the labels and taints of nodes to those of their spec, where they differed before.
    pub async fn update_labels(&self, cluster: &Cluster, was: &ClusterSpec) -> Result<Changed, EngineError> {
        let machines = self.machines(cluster).await?;
        self.apply(&plan::update_labels(cluster, was), &Work::on(cluster, machines)).await
    }

    /// After a failure, uncordons the nodes that were being drained.
    async fn or_admit(
        &self,
        done: Result<Changed, EngineError>,
        nodes: &[NodeName],
        work: &Work<'_>,
    ) -> Result<Changed, EngineError> {
        if done.is_ok() {
            return done;
        }
        let Ok((cluster, via)) = work.via(None).await else { return done };
        for node in nodes {
            if let Err(error) = self.bootstrapper.uncordon(cluster, node, via.as_ref()).await {
                let text = format!("{error}: if the node is still cordoned, run `kubectl uncordon {node}`");
                self.reporter.report(Event::Warning { text });
            }
        }
        done
    }

    /// Updates routes, names and keepalived in all nodes that run.
    async fn configure_nodes(
        &self,
        cluster: &Cluster,
        machines: &BTreeMap<NodeName, Arc<dyn Machine>>,
    ) -> Result<Changed, EngineError> {
        let on_left_alone = |error: &GuestError| {
            match error {
            GuestError::OtherVersion { node } => self.warn(format!(
                "node {node} was booted by another version of flotilla and keeps the routes and names that it has: restart \
                 the cluster with `flotilla stop` and `flotilla start`"
            )),
            error => self.warn_of_routes(cluster, error),
        }
        };
        Ok(self.nodes().configure(cluster, machines, on_left_alone).await?)
    }

    fn warn_of_routes(&self, cluster: &Cluster, error: &dyn std::error::Error) {
        self.warn(format!(
            "cannot update the routes of all nodes: {}; `flotilla start{}` retries",
            one_line(error),
            profile_flag(cluster.name())
        ));
    }

    pub fn warn(&self, text: impl Into<String>) {
        self.reporter.report(Event::Warning { text: text.into() });
    }

    /// Removes everything that belongs to the name. Returns whether anything existed.
    pub async fn delete(&self, locked: &Locked) -> Result<Changed, EngineError> {
        let work = Work::deleting(locked, self.authorities().await);
        self.apply(&plan::delete(locked.name()), &work).await
    }

    /// The machine of a node that must be running.
    pub async fn machine(&self, cluster: &Cluster, node: &NodeName) -> Result<Arc<dyn Machine>, EngineError> {
        let (name, mut machines) = (cluster.name(), self.machines(cluster).await?);
        let state = machines.get(node).map(|machine| machine.state());
        if let Some(MachineState { power: Power::Unknown(why), .. }) = state {
            let (cluster, nodes) = (name.clone(), vec![node.clone()]);
            return Err(EngineError::Unknown { cluster, nodes, doing: "use", why });
        }
        machines.retain(|_, machine| machine.state().power == Power::On);
        if machines.is_empty() {
            return Err(EngineError::Stopped(name.clone()));
        }
        let not_running = || EngineError::NotRunning { cluster: name.clone(), node: node.clone() };
        machines.remove(node).ok_or_else(not_running)
    }

    /// Whether any control plane is on. Only then can the members be listed.
    pub async fn control_plane_is_on(&self, cluster: &Cluster) -> Result<bool, EngineError> {
        let observed = powers(&self.machines(cluster).await?);
        Ok(cluster.spec.control_planes().any(|node| observed.is_on(&node.name)))
    }

    /// Every machine of the cluster, listed when they are first asked for. A node whose host does not answer, or whose
    /// driver this flotilla lacks, has one that is neither on nor off.
    pub async fn machines(
        &self,
        cluster: &Cluster,
    ) -> Result<BTreeMap<NodeName, Arc<dyn Machine>>, EngineError> {
        debug_assert_eq!(cluster.name(), self.view.cluster(), "an engine is for one cluster");
        Ok(self.view.machines(self.fleet, &cluster.spec.nodes).await?)
    }

    /// Applies the steps, each as soon as its dependencies are done and its kind has a free slot. A failed step stops
    /// those that depend on it, not the others; the first failure is the error, the others are reported. Returns
    /// whether anything changed.
    async fn apply(&self, plan: &Plan, work: &Work<'_>) -> Result<Changed, EngineError> {
        let mut changed = Changed::No;
        if plan.steps.is_empty() {
            return Ok(changed);
        }
        if let Some(cluster) = work.cluster {
            can_boot_all(cluster, plan, |node| work.is_on(node))?;
        }
        let steps = plan.steps.iter().map(|step| step.name.clone()).collect();
        let (expected, work_time) = (Some(plan.expected(self.lanes)), Some(plan.work()));
        self.reporter.report(Event::Plan { steps, expected, work: work_time });
        let mut schedule = Schedule::of(plan, self.lanes);
        let mut failure = None;
        let mut running = FuturesUnordered::new();
        loop {
            while !self.cancel.is_cancelled()
                && let Some(index) = schedule.begin()
            {
                running.push(async move { (index, self.run(&plan.steps[index], work).await) });
            }
            let Some((index, ended)) = running.next().await else { break };
            schedule.end(index, ended.is_ok());
            match ended {
                Ok(outcome) => {
                    let did =
                        outcome == Outcome::Done && !matches!(plan.steps[index].action, Action::Wait(_));
                    changed = changed.or(if did { Changed::Yes } else { Changed::No });
                }
                Err(error) if failure.is_some() => self.tell_another(&error),
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) => Err(error),
            None if !schedule.all_done() => Err(EngineError::Interrupted),
            None => Ok(changed),
        }
    }

    /// Only the first failure becomes the error, so the others are reported as warnings.
    fn tell_another(&self, error: &EngineError) {
        if !error.is_interruption() {
            self.reporter.report(Event::Warning { text: format!("also: {error}") });
        }
    }

    async fn run(&self, step: &PlannedStep, work: &Work<'_>) -> Result<Outcome, EngineError> {
        tracing::debug!("step {}: {}", step.name, step.title);
        let told = Step::start(self.reporter, &step.name, &step.title, Some(step.expected));
        let outcome = self.act(&step.action, work).await?;
        told.done(outcome);
        Ok(outcome)
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each action")]
    async fn act(&self, action: &Action, work: &Work<'_>) -> Result<Outcome, EngineError> {
        let outcome = |changed: Changed| if changed.is_yes() { Outcome::Done } else { Outcome::Kept };
        if !matches!(action, Action::Wait(_)) {
            self.view.changed();
        }
        match action {
            Action::Network => Ok(outcome(self.fleet.ensure_network(work.cluster()?).await?)),
            Action::Machine(node) => {
                let (cluster, was_on) = (work.cluster()?, work.is_on(node));
                work.put(self.ensure_machine(cluster, &work.node(node)?, was_on).await?);
                Ok(Outcome::Done)
            }
            Action::Routes => Ok(outcome(self.configure_nodes(work.cluster()?, &work.machines()).await?)),
            Action::Join(node) => {
                let (cluster, node, machine) = work.at(node)?;
                let (_, via) = work.via(Some(&node.spec.name)).await?;
                Ok(self.bootstrapper.join(cluster, &node, machine.as_ref(), via.as_ref(), work.limit).await?)
            }
            Action::Drain(node, how) => {
                let (cluster, via) = work.via(None).await?;
                if !work.is_on(node) {
                    // Waiting for its pods to terminate would never end: the kubelet that terminates them is off.
                    self.bootstrapper.mark_stopped(cluster, node, via.as_ref()).await?;
                }
                self.bootstrapper.drain(cluster, node, via.as_ref(), *how).await?;
                Ok(Outcome::Done)
            }
            Action::UpdateLabels(node, was) => {
                let (cluster, via) = work.via(None).await?;
                let node = work.node(node)?;
                Ok(outcome(self.bootstrapper.update_labels(cluster, &node, was, via.as_ref()).await?))
            }
            Action::LeaveControlPlane(node) => {
                let (cluster, via) = work.via(Some(node)).await?;
                let (machine, node) = (work.machine(node), work.node(node)?);
                work.leaves(&node.spec.name);
                self.bootstrapper.leave(cluster, &node, machine.as_deref(), via.as_ref()).await?;
                Ok(Outcome::Done)
            }
            Action::RemoveMember(stranger) => {
                let (cluster, via) = work.via(None).await?;
                self.bootstrapper.remove_member(cluster, stranger, via.as_ref()).await?;
                Ok(Outcome::Done)
            }
            Action::RemoveFromApi(node) => {
                let (cluster, via) = work.via(Some(node)).await?;
                self.bootstrapper.remove_from_api(cluster, node, via.as_ref()).await?;
                Ok(Outcome::Done)
            }
            Action::RemoveMachine(node) => {
                let removed = self.fleet.remove(&work.owner(node), work.name, node).await;
                match &removed {
                    Ok(_) => self.view.remove(node),
                    Err(_) => self.view.list_again(),
                }
                Ok(outcome(removed?))
            }
            Action::Renew(nodes) => {
                let cluster = work.cluster()?;
                let due = nodes.iter().map(|name| work.at(name).map(|(_, node, machine)| (node, machine)));
                let due: Vec<_> = due.collect::<Result<_, _>>()?;
                let control_planes = work.vias().await?;
                self.bootstrapper.renew(cluster, &due, &control_planes).await?;
                Ok(Outcome::Done)
            }
            Action::StartApi(node) => {
                let (cluster, node, machine) = work.at(node)?;
                let others = work.other_control_planes(cluster, &node.spec.name);
                let started =
                    self.bootstrapper.start_api(cluster, &node, machine.as_ref(), &others, work.limit);
                let outcome = started.await?;
                // From here on people store something: whatever fails later, its loss is a loss.
                work.locked()?.set_founded()?;
                Ok(outcome)
            }
            Action::Complete(node) => {
                let (cluster, node, machine) = work.at(node)?;
                Ok(self.bootstrapper.complete(cluster, &node, machine.as_ref(), work.limit).await?)
            }
            Action::Unpause(node) => {
                let (_, _, machine) = work.at(node)?;
                self.bootstrapper.unpause(machine.as_ref(), None).await?;
                Ok(Outcome::Done)
            }
            Action::WriteKubeconfig => {
                let (cluster, machine) = work.via(None).await?;
                let access = self.access(cluster, machine.as_ref()).await?;
                let Some(access) = access else { return Ok(Outcome::Kept) };
                Ok(outcome(self.write_kubeconfig(cluster.name(), &access)?))
            }
            Action::Wait(conditions) => {
                let (cluster, machine) = work.via(None).await?;
                let (meant, machines) = (work.meant(cluster), work.machines_meant());
                self.bootstrapper.wait(&meant, machine.as_ref(), &machines, conditions, work.limit).await?;
                Ok(Outcome::Done)
            }
            Action::Stop(node) => Ok(outcome(self.power_off_machine(&work.owner(node), node).await?)),
            Action::UnsetContext => Ok(outcome(self.unset_context(work.name)?)),
            Action::RemoveFromKubeconfig => {
                Ok(outcome(self.remove_from_kubeconfig(work.name, &work.authorities)?))
            }
            Action::RemoveAll => {
                self.view.list_again();
                Ok(outcome(self.fleet.remove_all(work.name).await?))
            }
            Action::RemoveState => Ok(outcome(work.locked()?.remove()?)),
        }
    }
}

/// Saves that the cluster has run if anything says so: its first `start` may have failed after it had data.
fn note_founded(locked: &Locked, cluster: &Cluster, observed: &Observed) -> Result<(), EngineError> {
    if cluster.allocations.founded || !observed.has_run() { Ok(()) } else { locked.set_founded() }
}

/// Refuses to bootstrap a second, empty cluster next to the members of the first, and to start a cluster whose
/// certificate authority has expired.
fn can_start(cluster: &Cluster, observed: &Observed) -> Result<(), EngineError> {
    if let Some((node, authority)) = &observed.expired_authority {
        let (cluster, node) = (cluster.name().clone(), node.clone());
        return Err(EngineError::AuthorityExpired { cluster, node, authority: authority.clone() });
    }
    let unknown = observed.all_unknown();
    if let Some((_, why)) = unknown.first().filter(|_| observed.initial_members.is_empty()) {
        // Any of them may be a member of a cluster that runs.
        let nodes = unknown.iter().map(|(node, _)| (*node).clone()).collect();
        let (cluster, why) = (cluster.name().clone(), (*why).to_owned());
        return Err(EngineError::Unknown { cluster, nodes, doing: "start", why });
    }
    let has_run = cluster.allocations.founded || observed.has_run();
    if !has_run || !observed.initial_members.is_empty() {
        return Ok(());
    }
    let lost = cluster.spec.control_planes().map(|node| node.name.clone()).collect();
    let members = observed.orphans.iter().cloned().collect();
    let emptied = observed.emptied.iter().cloned().collect();
    Err(EngineError::ControlPlaneLost { cluster: cluster.name().clone(), lost, emptied, members })
}

/// Refuses a plan that boots a node that must not boot, before its first step.
fn can_boot_all(
    cluster: &Cluster,
    plan: &Plan,
    is_on: impl Fn(&NodeName) -> bool,
) -> Result<(), EngineError> {
    for step in &plan.steps {
        if let Action::Machine(name) = &step.action
            && let Some(node) = cluster.node(name).filter(|_| !is_on(name))
        {
            can_boot(cluster, &node)?;
        }
    }
    Ok(())
}

/// Refuses to boot a node with a mount over what it owns, which earlier releases accepted: cleaning up would delete the
/// user's files.
fn can_boot(cluster: &Cluster, node: &Node) -> Result<(), EngineError> {
    let conflict = node.spec.mounts.iter().find_map(|mount| Some((mount.clone(), mount.conflict()?)));
    let Some((mount, owned)) = conflict else { return Ok(()) };
    let (cluster, node) = (cluster.name().clone(), node.spec.name.clone());
    Err(EngineError::MountOver { cluster, node, mount, owned })
}

/// Refuses to do something to nodes whose host does not answer.
fn require_known(
    cluster: &Cluster,
    observed: &Observed,
    nodes: &[NodeName],
    doing: &'static str,
) -> Result<(), EngineError> {
    let unknown: Vec<_> = nodes.iter().filter(|node| observed.unknown(node).is_some()).cloned().collect();
    let Some(why) = unknown.first().and_then(|node| observed.unknown(node)) else { return Ok(()) };
    let (cluster, why) = (cluster.name().clone(), why.to_owned());
    Err(EngineError::Unknown { cluster, nodes: unknown, doing, why })
}

/// The power state of each machine.
fn powers(machines: &BTreeMap<NodeName, Arc<dyn Machine>>) -> Observed {
    let machines = machines.iter().map(|(name, machine)| (name.clone(), machine.state())).collect();
    Observed { machines, ..Observed::nothing() }
}
