//! Doing a plan: observe, plan, apply.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flotilla_linux::host::Cancel;
use flotilla_spec::{ClusterName, NodeName, WantedPower};
use futures::StreamExt;
use futures::stream::FuturesUnordered;

use crate::cluster::{Cluster, Node};
use crate::error::EngineError;
use crate::event::{Event, Outcome, Reporter, Step};
use crate::plan::{self, Action, Observed, Plan, PlannedStep};
use crate::port::{
    Bootstrapper, Changed, Condition, Drain, Driver, Kubeconfig, KubernetesState, Machine, Power,
};
use crate::store::ClusterStore;

/// What a change needs.
#[derive(Clone, Copy)]
pub struct Engine<'a> {
    pub driver: &'a dyn Driver,
    pub bootstrapper: &'a dyn Bootstrapper,
    pub kubeconfig: &'a dyn Kubeconfig,
    pub store: &'a ClusterStore,
    pub reporter: &'a dyn Reporter,
    pub cancel: &'a Cancel,
}

impl std::fmt::Debug for Engine<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("store", &self.store).finish_non_exhaustive()
    }
}

/// What must hold when `start` returns, and how long that may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    pub conditions: BTreeSet<Condition>,
    pub limit: Duration,
}

/// What steps share while a plan is done.
struct Work<'a> {
    name: &'a ClusterName,
    cluster: Option<&'a Cluster>,
    limit: Duration,
    machines: Mutex<BTreeMap<NodeName, Arc<dyn Machine>>>,
}

impl Engine<'_> {
    /// Looks at what is there. Never waits long, changes nothing.
    pub async fn observe(&self, cluster: &Cluster) -> Result<Observed, EngineError> {
        let machines = self.machines(cluster.name()).await?;
        self.observe_with(cluster, &machines).await
    }

    async fn observe_with(
        &self,
        cluster: &Cluster,
        machines: &BTreeMap<NodeName, Arc<dyn Machine>>,
    ) -> Result<Observed, EngineError> {
        let network = self.driver.has_network(cluster).await?;
        let on = cluster.primary().and_then(|node| {
            let machine =
                machines.get(&node.spec.name).filter(|machine| machine.state().power == Power::On)?;
            Some((node, machine))
        });
        let mut kubernetes = KubernetesState::Silent;
        let mut published = false;
        if let Some((node, machine)) = on {
            kubernetes = self.bootstrapper.observe(cluster, &node, machine.as_ref()).await;
            if let Some(access) = self.bootstrapper.access(cluster, machine.as_ref()).await? {
                published = self.kubeconfig.has(cluster.name(), &access)?;
            }
        }
        let mut joined = BTreeSet::new();
        for (name, machine) in machines {
            let is_on = machine.state().power == Power::On;
            if is_on && self.bootstrapper.has_joined(machine.as_ref()).await {
                joined.insert(name.clone());
            }
        }
        let machines = machines.iter().map(|(name, machine)| (name.clone(), machine.state())).collect();
        Ok(Observed { network, machines, kubernetes, joined, published })
    }

    /// The plan that `start` would do.
    pub async fn plan_start(
        &self,
        cluster: &Cluster,
        wait: &BTreeSet<Condition>,
    ) -> Result<Plan, EngineError> {
        Ok(plan::start(cluster, &self.observe(cluster).await?, wait))
    }

    /// Makes everything run. Says whether anything had to be done.
    pub async fn start(&self, cluster: &Cluster, wait: &Wait) -> Result<Changed, EngineError> {
        let machines = self.machines(cluster.name()).await?;
        let observed = self.observe_with(cluster, &machines).await?;
        let plan = plan::start(cluster, &observed, &wait.conditions);
        let work = Work { limit: wait.limit, ..Work::on(cluster, machines) };
        if !plan.changes_something() && self.holds(&plan, &work).await {
            return Ok(Changed::No);
        }
        self.apply(&plan, &work).await?;
        Ok(if plan.changes_something() { Changed::Yes } else { Changed::No })
    }

    /// Whether what a plan would only wait for holds already. Then there is nothing to tell of.
    async fn holds(&self, plan: &Plan, work: &Work<'_>) -> bool {
        let machines = Mutex::new(work.machines.lock().unwrap_or_else(PoisonError::into_inner).clone());
        let at_once = Work { limit: Duration::ZERO, machines, ..*work };
        for step in &plan.steps {
            if self.act(&step.action, &at_once).await.is_err() {
                return false;
            }
        }
        true
    }

    /// Ends what a `stop` that was killed has begun: a machine on its way down is of no use to `start`.
    pub async fn finish_stop(&self, cluster: &Cluster) -> Result<(), EngineError> {
        for node in cluster.spec.nodes.iter().filter(|node| node.power == WantedPower::Stopped) {
            self.driver.stop(cluster.name(), &node.name).await?;
        }
        Ok(())
    }

    /// Turns everything off; `keep_context` leaves the person's kubeconfig alone.
    pub async fn stop(&self, cluster: &Cluster, keep_context: bool) -> Result<Changed, EngineError> {
        let machines = self.machines(cluster.name()).await?;
        let states = machines.iter().map(|(name, machine)| (name.clone(), machine.state())).collect();
        let published = !keep_context && self.kubeconfig.is_current(cluster.name())?;
        let observed = Observed { machines: states, published, ..Observed::nothing() };
        let plan = plan::stop(cluster, &observed);
        self.apply(&plan, &Work::on(cluster, machines)).await?;
        Ok(if plan.changes_something() { Changed::Yes } else { Changed::No })
    }

    /// Turns some nodes off, emptied before if that is wanted.
    pub async fn stop_nodes(
        &self,
        cluster: &Cluster,
        nodes: &[NodeName],
        drain: Option<Drain>,
    ) -> Result<Changed, EngineError> {
        let machines = self.machines(cluster.name()).await?;
        let states = machines.iter().map(|(name, machine)| (name.clone(), machine.state())).collect();
        let observed = Observed { machines: states, ..Observed::nothing() };
        let plan = plan::stop_nodes(&observed, nodes, drain);
        self.apply(&plan, &Work::on(cluster, machines)).await?;
        Ok(if plan.changes_something() { Changed::Yes } else { Changed::No })
    }

    /// Takes nodes out of the cluster. Where the API cannot be asked, only their machines are removed, and that is told.
    pub async fn remove_nodes(
        &self,
        cluster: &Cluster,
        nodes: &[NodeName],
        drain: Drain,
    ) -> Result<Changed, EngineError> {
        let machines = self.machines(cluster.name()).await?;
        let observed = self.observe_with(cluster, &machines).await?;
        let reachable = matches!(observed.kubernetes, KubernetesState::Partial | KubernetesState::Complete);
        if !reachable {
            let text =
                "the API does not answer: the nodes' pods are not moved, and the cluster still lists them, until \
                 `kubectl delete node` takes them off"
                    .into();
            self.reporter.report(Event::Warning { text });
        }
        self.apply(&plan::remove_nodes(nodes, drain, reachable), &Work::on(cluster, machines)).await
    }

    /// Removes everything that belongs to the name. Says whether there was anything.
    pub async fn delete(&self, name: &ClusterName) -> Result<Changed, EngineError> {
        let work = Work { name, cluster: None, limit: Duration::MAX, machines: Mutex::default() };
        self.apply(&plan::delete(name), &work).await
    }

    /// The machine of a node that must be running.
    pub async fn machine(
        &self,
        name: &ClusterName,
        node: &NodeName,
    ) -> Result<Arc<dyn Machine>, EngineError> {
        let machine = self.machines(name).await?.remove(node);
        machine
            .filter(|machine| machine.state().power == Power::On)
            .ok_or_else(|| EngineError::NotRunning { cluster: name.clone(), node: node.clone() })
    }

    pub async fn machines(
        &self,
        name: &ClusterName,
    ) -> Result<BTreeMap<NodeName, Arc<dyn Machine>>, EngineError> {
        let found = self.driver.find(name).await?;
        Ok(found.into_iter().map(|machine| (machine.name().clone(), machine)).collect())
    }

    /// Does the steps, each as soon as those before it are done. A step that fails stops those that need it, not the
    /// others; the first failure is the error. Says whether any had something to do.
    async fn apply(&self, plan: &Plan, work: &Work<'_>) -> Result<Changed, EngineError> {
        let mut changed = Changed::No;
        if plan.steps.is_empty() {
            return Ok(changed);
        }
        let expected = plan.steps.iter().map(|step| step.expected).sum();
        let steps = plan.steps.iter().map(|step| step.name.clone()).collect();
        self.reporter.report(Event::Plan { steps, expected: Some(expected) });
        let mut done = BTreeSet::new();
        let mut begun = BTreeSet::new();
        let mut failure = None;
        let mut running = FuturesUnordered::new();
        loop {
            for (index, step) in plan.steps.iter().enumerate() {
                let can_begin = step.after.iter().all(|before| done.contains(before));
                if can_begin && !self.cancel.is_cancelled() && begun.insert(index) {
                    running.push(async move { (index, self.run(step, work).await) });
                }
            }
            match running.next().await {
                Some((index, Ok(outcome))) => {
                    done.insert(index);
                    changed = changed.or(if outcome == Outcome::Done { Changed::Yes } else { Changed::No });
                }
                Some((_, Err(error))) => drop(failure.get_or_insert(error)),
                None => break,
            }
        }
        match failure {
            Some(error) => Err(error),
            None if done.len() < plan.steps.len() => Err(EngineError::Interrupted),
            None => Ok(changed),
        }
    }

    async fn run(&self, step: &PlannedStep, work: &Work<'_>) -> Result<Outcome, EngineError> {
        let told = Step::start(self.reporter, &step.name, &step.title, Some(step.expected));
        let outcome = self.act(&step.action, work).await?;
        told.done(outcome);
        Ok(outcome)
    }

    async fn act(&self, action: &Action, work: &Work<'_>) -> Result<Outcome, EngineError> {
        let outcome = |changed: Changed| if changed.is_yes() { Outcome::Done } else { Outcome::Kept };
        match action {
            Action::Network => Ok(outcome(self.driver.ensure_network(work.cluster()?).await?)),
            Action::Machine(node) => {
                let machine = self.driver.ensure(work.cluster()?, node).await?;
                work.put(machine);
                Ok(Outcome::Done)
            }
            Action::Routes => Ok(outcome(self.driver.ensure_routes(work.cluster()?).await?)),
            Action::Join(node) => {
                let (cluster, node, machine) = work.at(node)?;
                let (_, _, primary) = work.at(&cluster.spec.primary().name)?;
                Ok(self.bootstrapper.join(cluster, &node, machine.as_ref(), primary.as_ref()).await?)
            }
            Action::Drain(node, how) => {
                let cluster = work.cluster()?;
                let (_, _, primary) = work.at(&cluster.spec.primary().name)?;
                self.bootstrapper.drain(cluster, node, primary.as_ref(), *how).await?;
                Ok(Outcome::Done)
            }
            Action::Leave(node) => {
                let cluster = work.cluster()?;
                let (_, _, primary) = work.at(&cluster.spec.primary().name)?;
                self.bootstrapper.forget(cluster, node, primary.as_ref()).await?;
                Ok(Outcome::Done)
            }
            Action::RemoveMachine(node) => Ok(outcome(self.driver.remove(work.name, node).await?)),
            Action::StartApi(node) => {
                let (cluster, node, machine) = work.at(node)?;
                Ok(self.bootstrapper.start_api(cluster, &node, machine.as_ref()).await?)
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
            Action::Publish => {
                let cluster = work.cluster()?;
                let (_, _, machine) = work.at(&cluster.spec.primary().name)?;
                let access = self.bootstrapper.access(cluster, machine.as_ref()).await?;
                let changed = match access {
                    Some(access) => self.kubeconfig.put(cluster.name(), &access)?,
                    None => Changed::No,
                };
                Ok(outcome(changed))
            }
            Action::Wait(conditions) => {
                let cluster = work.cluster()?;
                let (_, _, machine) = work.at(&cluster.spec.primary().name)?;
                let machines = work.machines_on();
                self.bootstrapper.wait(cluster, machine.as_ref(), &machines, conditions, work.limit).await?;
                Ok(Outcome::Done)
            }
            Action::Stop(node) => Ok(outcome(self.driver.stop(work.name, node).await?)),
            Action::Deselect => Ok(outcome(self.kubeconfig.deselect(work.name)?)),
            Action::Unpublish => Ok(outcome(self.kubeconfig.remove(work.name)?)),
            Action::RemoveAll => Ok(outcome(self.driver.remove_all(work.name).await?)),
            Action::Forget => Ok(outcome(self.store.remove(work.name)?)),
        }
    }
}

impl<'a> Work<'a> {
    /// Something that has no time limit of its own.
    fn on(cluster: &'a Cluster, machines: BTreeMap<NodeName, Arc<dyn Machine>>) -> Self {
        let (name, limit) = (cluster.name(), Duration::MAX);
        Self { name, cluster: Some(cluster), limit, machines: Mutex::new(machines) }
    }

    fn cluster(&self) -> Result<&'a Cluster, EngineError> {
        self.cluster.ok_or_else(|| EngineError::NoCluster(self.name.clone()))
    }

    fn machines_on(&self) -> Vec<Arc<dyn Machine>> {
        let machines = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
        machines.values().filter(|machine| machine.state().power == Power::On).cloned().collect()
    }

    fn put(&self, machine: Arc<dyn Machine>) {
        let mut machines = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
        machines.insert(machine.name().clone(), machine);
    }

    /// A node of the cluster and its machine, which is on by now.
    fn at(&self, name: &NodeName) -> Result<(&'a Cluster, Node, Arc<dyn Machine>), EngineError> {
        let cluster = self.cluster()?;
        let node = cluster
            .node(name)
            .ok_or_else(|| EngineError::NoNode { cluster: cluster.name().clone(), node: name.to_string() })?;
        let machines = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
        let not_running = || EngineError::NotRunning { cluster: cluster.name().clone(), node: name.clone() };
        let machine = machines.get(name).ok_or_else(not_running)?;
        Ok((cluster, node, Arc::clone(machine)))
    }
}
