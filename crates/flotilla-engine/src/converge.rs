//! Converges a cluster: observe, plan, apply.

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
use flotilla_spec::{ClusterName, ClusterSpec, NodeName, NodeSpec, Role, WantedPower};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::EngineError;
use crate::fleet::{Fleet, Found};
use crate::nodes::Nodes;
use crate::plan::{self, Action, Observed, Plan, PlannedStep};
use crate::quorum::{self, Quorum};
use crate::store::ClusterStore;
use crate::unknown::UnknownMachine;
use flotilla_core::cluster::{Cluster, Node};
use flotilla_core::event::{Event, Outcome, Reporter, Step};
use flotilla_core::{
    Bootstrapper, Changed, Condition, Drain, DriverError, Kubeconfig, KubernetesState, Machine, MachineState,
    Member, Membership, Power,
};

pub use restart::Resize;
pub use retire::{ControlPlaneChange, Leaving};
pub use schedule::Lanes;

use schedule::Schedule;
use work::Work;

/// What a change needs.
#[derive(Clone, Copy)]
pub struct Engine<'a> {
    pub fleet: Fleet<'a>,
    pub bootstrapper: &'a dyn Bootstrapper,
    pub kubeconfig: &'a dyn Kubeconfig,
    pub store: &'a ClusterStore,
    pub reporter: &'a dyn Reporter,
    pub cancel: &'a Cancel,
    pub lanes: Lanes,
}

impl std::fmt::Debug for Engine<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("store", &self.store).finish_non_exhaustive()
    }
}

/// The conditions that `start` waits for, and the time limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    pub conditions: BTreeSet<Condition>,
    pub limit: Duration,
}

impl Wait {
    /// What must hold so that a pod can run.
    pub const PODS: [Condition; 3] =
        [Condition::ApiServer, Condition::NodeReady, Condition::DefaultServiceAccount];

    /// What a command waits for that does not let people choose.
    pub fn for_pods() -> Self {
        Self { conditions: Self::PODS.into(), limit: Duration::from_mins(6) }
    }
}

const WITHOUT_NETWORK: &str = "the cluster was made with `--cni none`: its nodes are NotReady until you install a pod \
     network, and are not waited for";

impl Engine<'_> {
    /// Observes the cluster. Never waits long, changes nothing.
    pub async fn observe(&self, cluster: &Cluster) -> Result<Observed, EngineError> {
        let machines = self.machines(cluster.name()).await?;
        self.observe_with(cluster, &machines).await
    }

    async fn observe_with(
        &self,
        cluster: &Cluster,
        machines: &BTreeMap<NodeName, Arc<dyn Machine>>,
    ) -> Result<Observed, EngineError> {
        let network = self.fleet.has_network(cluster).await?;
        let routes = self.nodes().are_configured(cluster, machines).await?;
        let mut memberships = BTreeMap::new();
        let is_known = |machine: &dyn Machine| !matches!(machine.state().power, Power::Unknown(_));
        for (name, machine) in machines.iter().filter(|(_, machine)| is_known(machine.as_ref())) {
            memberships.insert(name.clone(), self.bootstrapper.membership(machine.as_ref()).await?);
        }
        let control_planes = || cluster.nodes().filter(|node| node.spec.role == Role::ControlPlane);
        let holds_data = |name: &NodeName| memberships.get(name).is_some_and(|it| *it != Membership::None);
        let initial_members: BTreeSet<_> =
            control_planes().map(|node| node.spec.name).filter(|name| holds_data(name)).collect();
        let workers = cluster.spec.nodes.iter().filter(|node| node.role == Role::Worker);
        let orphans = workers.map(|node| node.name.clone()).filter(|name| holds_data(name));
        let orphans = if initial_members.is_empty() { orphans.collect() } else { BTreeSet::new() };
        let is_joined = |name: &NodeName| {
            memberships.get(name) == Some(&Membership::Member) && machines[name].state().power == Power::On
        };
        let mut joined: BTreeSet<_> = machines.keys().filter(|name| is_joined(name)).cloned().collect();
        let on = |node: &Node| machines.get(&node.spec.name).filter(|it| it.state().power == Power::On);
        let member = control_planes().find(|node| joined.contains(&node.spec.name));
        let first = member.or_else(|| control_planes().find(|node| on(node).is_some()));
        let mut seen = Observed { network, routes, initial_members, orphans, ..powers(machines) };
        let now = Timestamp::now();
        for (name, machine) in machines.iter().filter(|(name, _)| holds_data(name)) {
            let certificates = self.bootstrapper.certificates(machine.as_ref()).await?;
            if certificates.are_due(now) {
                seen.due.insert(name.clone());
            }
            let authority = certificates.first_authority().filter(|authority| authority.has_expired(now));
            if let Some(authority) = authority {
                seen.expired_authority = Some((name.clone(), authority.clone()));
            }
        }
        if let Some((node, machine)) = first.as_ref().and_then(|node| Some((node, on(node)?))) {
            seen.kubernetes = self.bootstrapper.observe(cluster, node, machine.as_ref()).await;
        }
        for node in control_planes() {
            let Some(machine) = on(&node) else { continue };
            if self.bootstrapper.is_paused(machine.as_ref()).await {
                seen.paused.insert(node.spec.name);
            }
        }
        // Each control plane has its own credentials; those of any of them work.
        for machine in control_planes().filter_map(|node| on(&node)) {
            let Some(access) = self.bootstrapper.access(cluster, machine.as_ref()).await? else { continue };
            // A kubeconfig that cannot be read is written again, which reports the reason.
            seen.published =
                write_kubeconfig::if_readable(self.kubeconfig.has(cluster.name(), &access))?.unwrap_or(false);
            if seen.published {
                break;
            }
        }
        let answers = matches!(seen.kubernetes, KubernetesState::Incomplete | KubernetesState::Complete);
        if control_planes().count() > 1 || answers && cluster.was_larger() {
            seen.members = self.members(cluster, machines).await;
        }
        if let Some(members) = &seen.members {
            // A control plane that is no longer a member of etcd has to join again, whatever its disk says.
            let is_gone = |node: &Node| !members.iter().any(|member| member.is_of(node));
            let gone: Vec<_> = control_planes().filter(is_gone).map(|node| node.spec.name).collect();
            joined.retain(|name| !gone.contains(name));
        }
        if let Some((first, machine)) = first.as_ref().and_then(|node| Some((&node.spec.name, on(node)?)))
            && joined.iter().any(|name| name != first)
            && answers
            && let Some(listed) = self.bootstrapper.listed(cluster, machine.as_ref()).await
        {
            // A node whose Node object was deleted has to register again. Completing the cluster does that for the
            // first one.
            joined.retain(|name| name == first || listed.contains(name.as_ref()));
        }
        Ok(Observed { joined, ..seen })
    }

    /// The machines, with what is inside.
    pub fn nodes(&self) -> Nodes<'_> {
        Nodes::of(self.fleet)
    }

    /// The members of etcd according to the control planes that are on: see [`quorum::ask`].
    pub async fn members(
        &self,
        cluster: &Cluster,
        machines: &BTreeMap<NodeName, Arc<dyn Machine>>,
    ) -> Option<Vec<Member>> {
        let mut vias = Vec::new();
        for machine in cluster.spec.control_planes().filter_map(|node| machines.get(&node.name)) {
            let is_on = machine.state().power == Power::On;
            // A control plane whose disk cannot be read cannot be asked either; the others know about it.
            if is_on && self.bootstrapper.has_joined(machine.as_ref()).await.unwrap_or(false) {
                vias.push(self.bootstrapper.members(cluster, machine.as_ref()));
            }
        }
        quorum::ask(vias, |members| Quorum::of(members)).await.ok()
    }

    /// The plan that `start` would apply.
    pub async fn plan_start(
        &self,
        cluster: &Cluster,
        wait: &BTreeSet<Condition>,
    ) -> Result<Plan, EngineError> {
        let observed = self.observe(cluster).await?;
        can_start(cluster, &observed)?;
        Ok(plan::start(cluster, &observed, wait))
    }

    /// Starts everything. Returns whether anything changed.
    pub async fn start(&self, cluster: &Cluster, wait: &Wait) -> Result<Changed, EngineError> {
        let machines = self.machines(cluster.name()).await?;
        let observed = self.observe_with(cluster, &machines).await?;
        can_start(cluster, &observed)?;
        let left_alone = |node: &&NodeSpec| node.power == WantedPower::Running;
        for node in cluster.spec.nodes.iter().filter(left_alone) {
            if let Some(why) = observed.unknown(&node.name) {
                self.warn(&format!("node {} is left alone: {why}", node.name));
            }
        }
        let plan = plan::start(cluster, &observed, &wait.conditions);
        let work = Work::on(cluster, machines).knowing(&observed).within(wait.limit);
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
        if plan::attainable(work.cluster()?, conditions) != *conditions {
            self.reporter.report(Event::Note { text: WITHOUT_NETWORK.into() });
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
            match self.fleet.stop(&node.driver(), cluster.name(), &node.name).await {
                // Nobody can say whether it is on; whoever needs it says so.
                Err(DriverError::Unreachable { .. }) => {}
                stopped => drop(stopped?),
            }
        }
        Ok(())
    }

    /// Powers all nodes off; `keep_context` leaves the user's kubeconfig unchanged.
    pub async fn stop(&self, cluster: &Cluster, keep_context: bool) -> Result<Changed, EngineError> {
        let machines = self.machines(cluster.name()).await?;
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
        let machines = self.machines(cluster.name()).await?;
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
        let machines = self.machines(cluster.name()).await?;
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
            let Ok((cluster, via)) = work.via(self.bootstrapper, None).await else { break };
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
        let machines = self.machines(cluster.name()).await?;
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
        let Ok((cluster, via)) = work.via(self.bootstrapper, None).await else { return done };
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
        let on_other_version = |node: &str| {
            self.warn(&format!(
                "node {node} was booted by another version of flotilla and keeps the routes and names that it has: restart \
                 the cluster with `flotilla stop` and `flotilla start`"
            ));
        };
        Ok(self.nodes().configure(cluster, machines, on_other_version).await?)
    }

    fn warn(&self, text: &str) {
        self.reporter.report(Event::Warning { text: text.to_owned() });
    }

    /// Removes everything that belongs to the name. Returns whether anything existed.
    pub async fn delete(&self, name: &ClusterName) -> Result<Changed, EngineError> {
        let authorities = self.authorities(name).await;
        self.apply(&plan::delete(name), &Work::of(name).trusting(authorities)).await
    }

    /// The machine of a node that must be running.
    pub async fn machine(
        &self,
        name: &ClusterName,
        node: &NodeName,
    ) -> Result<Arc<dyn Machine>, EngineError> {
        let mut machines = self.machines(name).await?;
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
        let observed = powers(&self.machines(cluster.name()).await?);
        Ok(cluster.spec.control_planes().any(|node| observed.is_on(&node.name)))
    }

    /// Every machine of a cluster. A node whose host does not answer has one that is neither on nor off.
    pub async fn machines(
        &self,
        name: &ClusterName,
    ) -> Result<BTreeMap<NodeName, Arc<dyn Machine>>, EngineError> {
        let Found { mut machines, silent } = self.fleet.list(name).await?;
        if silent.is_empty() {
            return Ok(machines);
        }
        // A state that cannot be read names no nodes: what is there is still found.
        for node in self.store.load(name).ok().flatten().iter().flat_map(|cluster| &cluster.spec.nodes) {
            let Some((driver, why)) = silent.iter().find(|(driver, _)| *driver == node.driver()) else {
                continue;
            };
            let (name, driver, why) = (node.name.clone(), driver.clone(), why.clone());
            machines.entry(name.clone()).or_insert_with(|| Arc::new(UnknownMachine { name, driver, why }));
        }
        Ok(machines)
    }

    /// Applies the steps, each as soon as its dependencies are done and its kind has a free slot. A failed step stops
    /// those that depend on it, not the others; the first failure is the error, the others are reported. Returns
    /// whether anything changed.
    async fn apply(&self, plan: &Plan, work: &Work<'_>) -> Result<Changed, EngineError> {
        let mut changed = Changed::No;
        if plan.steps.is_empty() {
            return Ok(changed);
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

    async fn act(&self, action: &Action, work: &Work<'_>) -> Result<Outcome, EngineError> {
        let outcome = |changed: Changed| if changed.is_yes() { Outcome::Done } else { Outcome::Kept };
        match action {
            Action::Network => Ok(outcome(self.fleet.ensure_network(work.cluster()?).await?)),
            Action::Machine(node) => {
                let machine =
                    self.nodes().ensure(work.cluster()?, &work.node(node)?, work.is_on(node)).await?;
                work.put(machine);
                Ok(Outcome::Done)
            }
            Action::Routes => Ok(outcome(self.configure_nodes(work.cluster()?, &work.machines()).await?)),
            Action::Join(node) => {
                let (cluster, node, machine) = work.at(node)?;
                let (_, via) = work.via(self.bootstrapper, Some(&node.spec.name)).await?;
                Ok(self.bootstrapper.join(cluster, &node, machine.as_ref(), via.as_ref()).await?)
            }
            Action::Drain(node, how) => {
                let (cluster, via) = work.via(self.bootstrapper, None).await?;
                if !work.is_on(node) {
                    // Waiting for its pods to terminate would never end: the kubelet that terminates them is off.
                    self.bootstrapper.mark_stopped(cluster, node, via.as_ref()).await?;
                }
                self.bootstrapper.drain(cluster, node, via.as_ref(), *how).await?;
                Ok(Outcome::Done)
            }
            Action::UpdateLabels(node, was) => {
                let (cluster, via) = work.via(self.bootstrapper, None).await?;
                let node = work.node(node)?;
                Ok(outcome(self.bootstrapper.update_labels(cluster, &node, was, via.as_ref()).await?))
            }
            Action::LeaveControlPlane(node) => {
                let (cluster, via) = work.via(self.bootstrapper, Some(node)).await?;
                let (machine, node) = (work.machine(node), work.node(node)?);
                self.bootstrapper.leave(cluster, &node, machine.as_deref(), via.as_ref()).await?;
                Ok(Outcome::Done)
            }
            Action::RemoveMember(stranger) => {
                let (cluster, via) = work.via(self.bootstrapper, None).await?;
                self.bootstrapper.remove_member(cluster, stranger, via.as_ref()).await?;
                Ok(Outcome::Done)
            }
            Action::RemoveFromApi(node) => {
                let (cluster, via) = work.via(self.bootstrapper, Some(node)).await?;
                self.bootstrapper.remove_from_api(cluster, node, via.as_ref()).await?;
                Ok(Outcome::Done)
            }
            Action::RemoveMachine(node) => {
                Ok(outcome(self.fleet.remove(&work.owner(node), work.name, node).await?))
            }
            Action::Renew(nodes) => {
                let cluster = work.cluster()?;
                let due = nodes.iter().map(|name| work.at(name).map(|(_, node, machine)| (node, machine)));
                let due: Vec<_> = due.collect::<Result<_, _>>()?;
                let control_planes = work.vias(self.bootstrapper).await?;
                self.bootstrapper.renew(cluster, &due, &control_planes).await?;
                Ok(Outcome::Done)
            }
            Action::StartApi(node) => {
                let (cluster, node, machine) = work.at(node)?;
                let others = work.other_control_planes(cluster, &node.spec.name);
                Ok(self.bootstrapper.start_api(cluster, &node, machine.as_ref(), &others).await?)
            }
            Action::Complete(node) => {
                let (cluster, node, machine) = work.at(node)?;
                Ok(self.bootstrapper.complete(cluster, &node, machine.as_ref()).await?)
            }
            Action::Unpause(node) => {
                let (_, _, machine) = work.at(node)?;
                self.bootstrapper.unpause(machine.as_ref(), None).await?;
                Ok(Outcome::Done)
            }
            Action::WriteKubeconfig => {
                let (cluster, machine) = work.via(self.bootstrapper, None).await?;
                let access = self.bootstrapper.access(cluster, machine.as_ref()).await?;
                let Some(access) = access else { return Ok(Outcome::Kept) };
                Ok(outcome(self.write_kubeconfig(cluster.name(), &access)?))
            }
            Action::Wait(conditions) => {
                let (cluster, machine) = work.via(self.bootstrapper, None).await?;
                let (meant, machines) = (work.meant(cluster), work.machines_meant());
                self.bootstrapper.wait(&meant, machine.as_ref(), &machines, conditions, work.limit).await?;
                Ok(Outcome::Done)
            }
            Action::Stop(node) => Ok(outcome(self.fleet.stop(&work.owner(node), work.name, node).await?)),
            Action::UnsetContext => Ok(outcome(self.unset_context(work.name)?)),
            Action::RemoveFromKubeconfig => {
                Ok(outcome(self.remove_from_kubeconfig(work.name, &work.authorities)?))
            }
            Action::RemoveAll => Ok(outcome(self.fleet.remove_all(work.name).await?)),
            Action::RemoveState => Ok(outcome(self.store.remove(work.name)?)),
        }
    }
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
    let is_lost = cluster.allocations.founded && observed.initial_members.is_empty();
    if observed.orphans.is_empty() && !is_lost {
        return Ok(());
    }
    let lost = cluster.spec.control_planes().map(|node| node.name.clone()).collect();
    let members = observed.orphans.iter().cloned().collect();
    Err(EngineError::ControlPlaneLost { cluster: cluster.name().clone(), lost, members })
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
