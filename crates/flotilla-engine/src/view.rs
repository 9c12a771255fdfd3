//! What a command knows of one cluster: its machines are listed once, and what was observed is kept until a step changes
//! something.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flotilla_core::{Cluster, DriverError, Machine};
use flotilla_spec::{ClusterName, NodeName, NodeSpec};

use crate::fleet::{Fleet, Found};
use crate::plan::Observed;
use crate::unknown::UnknownMachine;

/// The view of one command on one cluster. Take it when the cluster is locked: what other commands change later is not
/// seen.
#[derive(Debug)]
pub struct View {
    cluster: ClusterName,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// None: to be listed.
    found: Option<Found>,
    /// None: to be observed.
    observed: Option<(Cluster, Observed)>,
}

impl View {
    /// Nothing is listed before it is needed.
    pub fn of(cluster: &ClusterName) -> Self {
        Self { cluster: cluster.clone(), state: Mutex::default() }
    }

    pub(crate) fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    /// Every machine. A node of `nodes` that cannot be asked about has one that is neither on nor off.
    pub(crate) async fn machines(
        &self,
        fleet: Fleet<'_>,
        nodes: &[NodeSpec],
    ) -> Result<BTreeMap<NodeName, Arc<dyn Machine>>, DriverError> {
        let known = self.state().found.clone();
        let Found { mut machines, silent } = if let Some(found) = known {
            found
        } else {
            let found = fleet.list(&self.cluster).await?;
            self.state().found.insert(found).clone()
        };
        for node in nodes {
            let silence = silent.iter().find(|(driver, _)| *driver == node.driver());
            let why = match silence {
                Some((_, why)) => why.clone(),
                None if fleet.has_driver(&node.driver()) => continue,
                None => format!("this flotilla has no driver {}", node.driver()),
            };
            let (name, driver) = (node.name.clone(), node.driver());
            machines.entry(name.clone()).or_insert_with(|| Arc::new(UnknownMachine { name, driver, why }));
        }
        Ok(machines)
    }

    /// What was observed of the same cluster, if nothing has changed since.
    pub(crate) fn observed(&self, cluster: &Cluster) -> Option<Observed> {
        let state = self.state();
        state.observed.as_ref().filter(|(of, _)| of == cluster).map(|(_, observed)| observed.clone())
    }

    pub(crate) fn set_observed(&self, cluster: &Cluster, observed: &Observed) {
        self.state().observed = Some((cluster.clone(), observed.clone()));
    }

    /// Something that can be observed has changed, or may have: it is observed again when it is needed.
    pub(crate) fn changed(&self) {
        self.state().observed = None;
    }

    /// A machine was made, booted or repaired.
    pub(crate) fn put(&self, machine: &Arc<dyn Machine>) {
        let mut state = self.state();
        state.observed = None;
        if let Some(found) = &mut state.found {
            found.machines.insert(machine.name().clone(), Arc::clone(machine));
        }
    }

    /// A machine was removed.
    pub(crate) fn remove(&self, node: &NodeName) {
        let mut state = self.state();
        state.observed = None;
        if let Some(found) = &mut state.found {
            found.machines.remove(node);
        }
    }

    /// Machines have changed in a way that only their driver knows: they are listed again when they are needed.
    pub(crate) fn list_again(&self) {
        *self.state() = State::default();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
