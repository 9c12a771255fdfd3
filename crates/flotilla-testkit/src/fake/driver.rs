//! Machines and networks that are entries in a map.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use flotilla_core::Cluster;
use flotilla_core::{
    Changed, Driver, DriverError, Finding, HostFacts, LinkFacts, Machine, MachineState, Power, Refusal,
    RootFacts, Subnet,
};
use flotilla_node_api::NodeConfig;
use flotilla_spec::{ClusterName, HostPort, NodeName, WantedPower};
use ipnet::Ipv4Net;

use super::{Answer, Calls, FakeMachine};

/// The driver of machines that do not exist.
#[derive(Debug, Default)]
pub struct FakeDriver {
    calls: Calls,
    /// What programs in its machines answer.
    script: Vec<(&'static str, Answer)>,
    host: Mutex<Host>,
}

#[derive(Debug, Default)]
struct Host {
    networks: BTreeMap<ClusterName, Network>,
    machines: BTreeMap<(ClusterName, NodeName), FakeMachine>,
}

/// A network as it was last made.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Network {
    range: Ipv4Net,
    ports: Vec<(NodeName, HostPort)>,
}

impl Network {
    fn of(cluster: &Cluster) -> Self {
        let nodes = cluster.spec.nodes.iter().filter(|node| node.power == WantedPower::Running);
        let ports = nodes.flat_map(|node| node.ports.iter().map(|port| (node.name.clone(), *port)));
        Self { range: cluster.allocations.subnet, ports: ports.collect() }
    }
}

impl FakeDriver {
    pub fn new(calls: &Calls) -> Self {
        Self { calls: calls.clone(), ..Self::default() }
    }

    /// With machines whose programs give these answers.
    pub fn answering(script: &[(&'static str, Answer)]) -> Self {
        Self { script: script.to_vec(), ..Self::default() }
    }

    /// Takes the network away, as somebody might behind our back.
    pub fn lose_network(&self, cluster: &ClusterName) {
        self.host().networks.remove(cluster);
    }

    /// Cuts the power, as a reboot of the host would.
    pub fn lose_power(&self, cluster: &ClusterName, node: &NodeName) {
        self.host().power_off(&(cluster.clone(), node.clone()));
    }

    /// Lets every reading of a file in a machine fail.
    pub fn break_file(&self, cluster: &ClusterName, node: &NodeName, path: &str) {
        if let Some(machine) = self.host().machines.get(&(cluster.clone(), node.clone())) {
            machine.break_file(path);
        }
    }

    /// Takes something of what the machine was given.
    pub fn damage(&self, cluster: &ClusterName, node: &NodeName) {
        if let Some(machine) = self.host().machines.get_mut(&(cluster.clone(), node.clone())) {
            machine.state.intact = false;
        }
    }

    fn host(&self) -> MutexGuard<'_, Host> {
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Host {
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
    async fn examine(&self) -> Vec<Finding> {
        Vec::new()
    }

    async fn check(&self, _: &Cluster) -> Result<Vec<Refusal>, DriverError> {
        Ok(Vec::new())
    }

    async fn subnets_in_use(&self, except: &ClusterName) -> Result<Vec<Subnet>, DriverError> {
        let call = self.calls.begin(format!("subnets-in-use {except}")).await?;
        let networks = self.host().networks.clone().into_iter().filter(|(cluster, _)| cluster != except);
        call.end()?;
        let used = networks.map(|(cluster, Network { range, .. })| Subnet {
            range,
            user: format!("the cluster {cluster}"),
            before_main: false,
        });
        Ok(used.collect())
    }

    async fn has_network(&self, cluster: &Cluster) -> Result<bool, DriverError> {
        let call = self.calls.begin("has-network".to_owned()).await?;
        call.end()?;
        Ok(self.host().networks.get(cluster.name()) == Some(&Network::of(cluster)))
    }

    async fn ensure_routes(&self, cluster: &Cluster) -> Result<Changed, DriverError> {
        let call = self.calls.begin("ensure-routes".to_owned()).await?;
        {
            let mut host = self.host();
            if let Some(network) = host.networks.get_mut(cluster.name()) {
                *network = Network::of(cluster);
            }
        }
        call.end()?;
        Ok(Changed::No)
    }

    async fn facts(&self) -> Result<HostFacts, DriverError> {
        Ok(HostFacts { lowers_oom_scores: true })
    }

    async fn link(&self, cluster: &Cluster) -> Result<LinkFacts, DriverError> {
        let gateway = cluster.gateway();
        Ok(LinkFacts { name: "eth0".to_owned(), mtu: 1500, gateway, name_servers: vec![gateway] })
    }

    async fn root(&self, _: &Cluster, _: &NodeName) -> Result<RootFacts, DriverError> {
        Ok(RootFacts::default())
    }

    async fn ensure_network(&self, cluster: &Cluster) -> Result<Changed, DriverError> {
        let call = self.calls.begin("ensure-network".to_owned()).await?;
        let network = Network::of(cluster);
        let before = self.host().networks.insert(cluster.name().clone(), network.clone());
        call.end()?;
        Ok(if before == Some(network) { Changed::No } else { Changed::Yes })
    }

    async fn find(&self, cluster: &ClusterName) -> Result<Vec<Arc<dyn Machine>>, DriverError> {
        let call = self.calls.begin("find".to_owned()).await?;
        let machines = self.host().machines.clone();
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
        let machine = {
            let mut host = self.host();
            let machine = host
                .machines
                .entry((cluster.name().clone(), node.clone()))
                .or_insert_with(|| FakeMachine::named(node.clone(), &self.script));
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
        let changed = self.host().power_off(&(cluster.clone(), node.clone()));
        call.end()?;
        Ok(changed)
    }

    async fn remove(&self, cluster: &ClusterName, node: &NodeName) -> Result<Changed, DriverError> {
        let call = self.calls.begin(format!("remove {node}")).await?;
        let removed = self.host().machines.remove(&(cluster.clone(), node.clone()));
        call.end()?;
        Ok(if removed.is_some() { Changed::Yes } else { Changed::No })
    }

    async fn remove_all(&self, cluster: &ClusterName) -> Result<Changed, DriverError> {
        let call = self.calls.begin("remove-all".to_owned()).await?;
        let changed = {
            let mut host = self.host();
            let before = host.machines.len();
            host.machines.retain(|(of, _), _| of != cluster);
            host.networks.remove(cluster).is_some() || host.machines.len() < before
        };
        call.end()?;
        Ok(if changed { Changed::Yes } else { Changed::No })
    }
}
