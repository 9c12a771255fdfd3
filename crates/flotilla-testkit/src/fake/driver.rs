//! Machines that are entries in a map.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use flotilla_core::{
    Capabilities, Changed, Driver, DriverError, GuestError, GuestFacts, Machine, MachineId, MachineIsolation,
    MachineSpec, MachineState, Port, PortKind, Power, Refusal,
};
use flotilla_node_api::NodeConfig;
use flotilla_spec::{ClusterName, DriverName, NodeName};

use super::etcd::revision_on;
use super::network::Ports;
use super::{Answer, Calls, FakeMachine, Programs};

/// The driver of machines that do not exist.
#[derive(Debug)]
pub struct FakeDriver {
    name: DriverName,
    capabilities: Capabilities,
    calls: Calls,
    /// What programs in its machines answer.
    script: Vec<(&'static str, Answer)>,
    /// What programs in its machines do that somebody talks to.
    pub programs: Programs,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    machines: BTreeMap<(ClusterName, NodeName), FakeMachine>,
    /// The name of the host, if that does not answer.
    silent: Option<String>,
    /// Those of the host's network.
    ports: Ports,
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
            user_namespaces: true,
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
            programs: Programs::default(),
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

    /// Plugs its machines into the ports of a host's network.
    pub(super) fn use_ports(&self, ports: &Ports) {
        self.state().ports = ports.clone();
    }

    /// Lets the host of its machines not answer any more.
    pub fn fall_silent(&self, host: &str) {
        self.state().silent = Some(host.to_owned());
    }

    /// Lets it answer again: its machines are what they were.
    pub fn answer_again(&self) {
        self.state().silent = None;
    }

    /// A machine that exists, as it is now.
    pub fn machine(&self, cluster: &ClusterName, node: &NodeName) -> FakeMachine {
        let found = self.state().machines.get(&(cluster.clone(), node.clone())).cloned();
        found.expect("the test has made it")
    }

    /// The last revision of etcd's data on each disk that has some: all objects of a cluster are lost with the last one.
    pub fn etcd_revisions(&self, cluster: &ClusterName) -> BTreeMap<NodeName, u64> {
        let state = self.state();
        let machines = state.machines.iter().filter(|((of, _), _)| of == cluster);
        machines.filter_map(|((_, node), machine)| Some((node.clone(), revision_on(machine)?))).collect()
    }

    /// Cuts the power, as a reboot of the host would.
    pub fn lose_power(&self, cluster: &ClusterName, node: &NodeName) {
        self.state().power_off(&(cluster.clone(), node.clone()));
    }

    /// Damages the record of a machine.
    pub fn break_record(&self, cluster: &ClusterName, node: &NodeName) {
        if let Some(machine) = self.state().machines.get(&(cluster.clone(), node.clone())) {
            machine.break_record();
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

    fn require_kind(&self, port: &Port) {
        assert_eq!(
            port.kind, self.capabilities.port_kind,
            "machines of {} cannot be plugged in there",
            self.name
        );
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

    async fn check(&self, _: &[MachineSpec]) -> Result<Vec<Refusal>, DriverError> {
        self.require_answer()?;
        Ok(Vec::new())
    }

    async fn guest_facts(&self, spec: &MachineSpec) -> Result<GuestFacts, DriverError> {
        Ok(GuestFacts { lowers_oom_scores: spec.isolation == MachineIsolation::None })
    }

    async fn list(&self, cluster: &ClusterName) -> Result<Vec<Arc<dyn Machine>>, DriverError> {
        let call = self.calls.begin("find".to_owned()).await?;
        self.require_answer()?;
        let (machines, ports) = {
            let state = self.state();
            (state.machines.clone(), state.ports.clone())
        };
        call.end()?;
        let found = machines.into_iter().filter(|((of, _), _)| of == cluster);
        let found = found.map(|((_, node), mut machine)| {
            machine.state.intact &= ports.has(cluster, &node);
            Arc::new(machine) as Arc<dyn Machine>
        });
        Ok(found.collect())
    }

    async fn boot(
        &self,
        spec: &MachineSpec,
        port: &Port,
        config: &NodeConfig,
    ) -> Result<Arc<dyn Machine>, DriverError> {
        self.require_kind(port);
        let MachineId { cluster, node } = &spec.id;
        let call = self.calls.begin(format!("ensure {node}")).await?;
        self.require_answer()?;
        let machine = {
            let mut state = self.state();
            let machine = state.machines.entry((cluster.clone(), node.clone())).or_insert_with(|| {
                let mut machine = FakeMachine::named(node.clone(), &self.script);
                machine.bundles = vec![spec.bundle.clone(), spec.image_store.clone()];
                machine.made_by(&self.name, &self.programs, &self.calls)
            });
            if machine.state.power == Power::Off || machine.config().is_none() {
                machine.boot(config);
            }
            machine.state = MachineState { power: Power::On, intact: true };
            machine.clone()
        };
        call.end()?;
        Ok(Arc::new(machine))
    }

    async fn plug(&self, id: &MachineId, port: &Port) -> Result<Arc<dyn Machine>, DriverError> {
        self.require_kind(port);
        let call = self.calls.begin(format!("ensure {}", id.node)).await?;
        self.require_answer()?;
        let machine = {
            let mut state = self.state();
            let machine = state.machines.get_mut(&(id.cluster.clone(), id.node.clone()));
            let Some(machine) = machine.filter(|machine| machine.state.power == Power::On) else {
                return Err(GuestError::Off { node: id.node.to_string() }.into());
            };
            machine.state.intact = true;
            machine.clone()
        };
        call.end()?;
        Ok(Arc::new(machine))
    }

    async fn stop(&self, id: &MachineId) -> Result<Changed, DriverError> {
        let call = self.calls.begin(format!("stop {}", id.node)).await?;
        self.require_answer()?;
        let changed = self.state().power_off(&(id.cluster.clone(), id.node.clone()));
        call.end()?;
        Ok(changed)
    }

    async fn remove(&self, id: &MachineId) -> Result<Changed, DriverError> {
        let call = self.calls.begin(format!("remove {}", id.node)).await?;
        self.require_answer()?;
        let removed = self.state().machines.remove(&(id.cluster.clone(), id.node.clone()));
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
