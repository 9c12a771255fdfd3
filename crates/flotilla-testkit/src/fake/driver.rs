//! Machines that are entries in a map.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use flotilla_core::{
    Capabilities, Changed, Cluster, Driver, DriverError, Machine, MachineState, PortKind, Power, Refusal,
    RootFacts,
};
use flotilla_node_api::NodeConfig;
use flotilla_spec::{ClusterName, DriverName, NodeName};

use super::{Answer, Calls, FakeMachine};

/// The driver of machines that do not exist.
#[derive(Debug)]
pub struct FakeDriver {
    name: DriverName,
    capabilities: Capabilities,
    calls: Calls,
    /// What programs in its machines answer.
    script: Vec<(&'static str, Answer)>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    machines: BTreeMap<(ClusterName, NodeName), FakeMachine>,
    /// The name of the host, if that does not answer.
    silent: Option<String>,
}

impl Default for FakeDriver {
    fn default() -> Self {
        Self::new(&Calls::default())
    }
}

impl FakeDriver {
    /// One that nodes have which name none, and that can do everything.
    pub fn new(calls: &Calls) -> Self {
        let capabilities = Capabilities {
            host_mounts: true,
            disk_size: true,
            offline_logs: true,
            snapshots: true,
            pause: true,
            own_kernel: false,
            faults: true,
            port_kind: PortKind::Veth,
        };
        Self {
            name: DriverName::default(),
            capabilities,
            calls: calls.clone(),
            script: Vec::new(),
            state: Mutex::default(),
        }
    }

    /// With machines whose programs give these answers.
    pub fn answering(script: &[(&'static str, Answer)]) -> Self {
        Self { script: script.to_vec(), ..Self::default() }
    }

    /// The same under another name, whose machines can do less.
    #[must_use]
    pub fn named(self, name: &'static str, capabilities: impl FnOnce(&mut Capabilities)) -> Self {
        let mut named = Self { name: DriverName::new(name), ..self };
        capabilities(&mut named.capabilities);
        named
    }

    /// Lets the host of its machines not answer any more.
    pub fn fall_silent(&self, host: &str) {
        self.state().silent = Some(host.to_owned());
    }

    /// Lets it answer again: its machines are what they were.
    pub fn answer_again(&self) {
        self.state().silent = None;
    }

    /// Cuts the power, as a reboot of the host would.
    pub fn lose_power(&self, cluster: &ClusterName, node: &NodeName) {
        self.state().power_off(&(cluster.clone(), node.clone()));
    }

    /// Lets every reading of a file in a machine fail.
    pub fn break_file(&self, cluster: &ClusterName, node: &NodeName, path: &str) {
        if let Some(machine) = self.state().machines.get(&(cluster.clone(), node.clone())) {
            machine.break_file(path);
        }
    }

    /// Takes something of what the machine was given.
    pub fn damage(&self, cluster: &ClusterName, node: &NodeName) {
        if let Some(machine) = self.state().machines.get_mut(&(cluster.clone(), node.clone())) {
            machine.state.intact = false;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn require_answer(&self) -> Result<(), DriverError> {
        match self.state().silent.clone() {
            Some(host) => Err(DriverError::Unreachable { host, why: "connection refused".to_owned() }),
            None => Ok(()),
        }
    }
}

impl State {
    fn power_off(&mut self, key: &(ClusterName, NodeName)) -> Changed {
        match self.machines.get_mut(key) {
            Some(machine) if machine.state.power == Power::On => {
                machine.state = MachineState { power: Power::Off, intact: false };
                machine.lose_memory();
                Changed::Yes
            }
            _ => Changed::No,
        }
    }
}

#[async_trait]
impl Driver for FakeDriver {
    fn name(&self) -> &DriverName {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    async fn check(&self, _: &Cluster, _: &[NodeName]) -> Result<Vec<Refusal>, DriverError> {
        self.require_answer()?;
        Ok(Vec::new())
    }

    async fn root(&self, _: &Cluster, _: &NodeName) -> Result<RootFacts, DriverError> {
        Ok(RootFacts::default())
    }

    async fn list(&self, cluster: &ClusterName) -> Result<Vec<Arc<dyn Machine>>, DriverError> {
        let call = self.calls.begin("find".to_owned()).await?;
        self.require_answer()?;
        let machines = self.state().machines.clone();
        call.end()?;
        let found = machines.into_iter().filter(|((of, _), _)| of == cluster);
        Ok(found.map(|(_, machine)| Arc::new(machine) as Arc<dyn Machine>).collect())
    }

    async fn ensure(
        &self,
        cluster: &Cluster,
        node: &NodeName,
        config: &NodeConfig,
    ) -> Result<Arc<dyn Machine>, DriverError> {
        let call = self.calls.begin(format!("ensure {node}")).await?;
        self.require_answer()?;
        let machine = {
            let mut state = self.state();
            let machine = state
                .machines
                .entry((cluster.name().clone(), node.clone()))
                .or_insert_with(|| FakeMachine::named(node.clone(), &self.script).made_by(&self.name));
            if machine.state.power == Power::Off || machine.config().is_none() {
                machine.set_config(config);
            }
            machine.state = MachineState { power: Power::On, intact: true };
            machine.clone()
        };
        call.end()?;
        Ok(Arc::new(machine))
    }

    async fn stop(&self, cluster: &ClusterName, node: &NodeName) -> Result<Changed, DriverError> {
        let call = self.calls.begin(format!("stop {node}")).await?;
        self.require_answer()?;
        let changed = self.state().power_off(&(cluster.clone(), node.clone()));
        call.end()?;
        Ok(changed)
    }

    async fn remove(&self, cluster: &ClusterName, node: &NodeName) -> Result<Changed, DriverError> {
        let call = self.calls.begin(format!("remove {node}")).await?;
        self.require_answer()?;
        let removed = self.state().machines.remove(&(cluster.clone(), node.clone()));
        call.end()?;
        Ok(removed.is_some().into())
    }

    async fn remove_all(&self, cluster: &ClusterName) -> Result<Changed, DriverError> {
        let call = self.calls.begin("remove-all".to_owned()).await?;
        self.require_answer()?;
        let changed = {
            let mut state = self.state();
            let before = state.machines.len();
            state.machines.retain(|(of, _), _| of != cluster);
            state.machines.len() < before
        };
        call.end()?;
        Ok(changed.into())
    }
}
