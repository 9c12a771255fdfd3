//! What must hold of every host, whatever its machines are made of: one suite for [`machines`], one for [`networks`], one
//! for programs and files in machines ([`guests`]), one for programs that somebody talks to ([`sessions`]).
//!
//! Each case begins and ends with nothing of the cluster there, which is for the caller to see to:
//! [`Subject::remove_all`].

pub mod guests;
pub mod machines;
pub mod networks;
pub mod sessions;

use std::collections::BTreeMap;
use std::sync::Arc;

use flotilla_core::{
    Changed, Cluster, Driver, DriverError, Host, Machine, MachineSpec, MachineState, Network, NetworkPlan,
    NetworkState, Node, Power, Refusal,
};
use flotilla_engine::Fleet;
use flotilla_engine::nodes::Nodes;
use flotilla_node_api::NodeConfig;
use flotilla_spec::NodeName;
use futures::future::BoxFuture;

pub use guests::ANSWERS;

/// A case: it panics when the contract is broken.
pub type Case = for<'a> fn(Subject<'a>, &'a Cluster) -> BoxFuture<'a, ()>;

/// All suites.
pub const SUITES: [&[(&str, Case)]; 4] = [machines::CASES, networks::CASES, guests::CASES, sessions::CASES];

macro_rules! cases {
    ($($name:ident,)*) => {
        &[$((stringify!($name), |subject, cluster| Box::pin($name(subject, cluster))),)*]
    };
}
pub(crate) use cases;

pub(crate) const ON: MachineState = MachineState { power: Power::On, intact: true };
pub(crate) const OFF: MachineState = MachineState { power: Power::Off, intact: false };

/// What a case is about: a host, with its first driver and its network.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    host: &'a Arc<dyn Host>,
}

impl<'a> Subject<'a> {
    pub fn of(host: &'a Arc<dyn Host>) -> Self {
        Self { host }
    }

    pub fn driver(self) -> &'a dyn Driver {
        self.host.drivers()[0]
    }

    pub fn network(self) -> &'a dyn Network {
        self.host.network()
    }

    fn fleet(self) -> Fleet<'a> {
        Fleet::new(std::slice::from_ref(self.host))
    }

    fn nodes(self) -> Nodes<'a> {
        Nodes::of(self.fleet())
    }

    pub async fn make_network(self, cluster: &Cluster) {
        self.network().ensure(&NetworkPlan::of(cluster)).await.expect("the network can be made");
    }

    /// Makes its routes and ports those of the cluster's nodes.
    pub async fn update_network(self, cluster: &Cluster) -> Changed {
        self.network().update(&NetworkPlan::of(cluster)).await.expect("the network can be updated")
    }

    pub async fn network_state(self, cluster: &Cluster) -> NetworkState {
        self.network().state(&NetworkPlan::of(cluster)).await.expect("the network can be looked at")
    }

    /// Makes, boots or repairs a machine, as the engine does.
    pub async fn ensure(self, cluster: &Cluster, name: &NodeName) -> Result<Arc<dyn Machine>, DriverError> {
        let machines = self.machines(cluster).await;
        let was_on = machines.get(name).is_some_and(|machine| machine.state().power == Power::On);
        let node = cluster.node(name).expect("the cluster has the node");
        self.nodes().ensure(cluster, &node, was_on).await
    }

    /// What is to be inside a node.
    pub async fn config(self, cluster: &Cluster, node: &Node) -> NodeConfig {
        self.nodes().config(cluster, node).await.expect("the host can be asked")
    }

    /// The network and the machine of the first node.
    pub async fn make(self, cluster: &Cluster) -> Arc<dyn Machine> {
        self.make_network(cluster).await;
        self.ensure(cluster, node(cluster)).await.expect("the machine can be made")
    }

    /// Tells all machines that are on of all others, as the engine does.
    pub async fn configure(self, cluster: &Cluster) -> Changed {
        let machines = self.machines(cluster).await;
        self.nodes().configure(cluster, &machines, |_| ()).await.expect("machines can be configured")
    }

    pub async fn are_configured(self, cluster: &Cluster) -> bool {
        let machines = self.machines(cluster).await;
        self.nodes().are_configured(cluster, &machines).await.expect("machines can be asked")
    }

    /// What the host cannot give the cluster's nodes.
    pub async fn check(self, cluster: &Cluster) -> Vec<Refusal> {
        let wanted: Vec<_> = cluster.nodes().map(|node| MachineSpec::of(cluster, &node)).collect();
        let mut refused = self.driver().check(&wanted).await.expect("mounts can be checked");
        refused.extend(self.network().check(&NetworkPlan::of(cluster)).await.expect("ports can be checked"));
        refused
    }

    pub async fn machines(self, cluster: &Cluster) -> BTreeMap<NodeName, Arc<dyn Machine>> {
        let found = self.driver().list(cluster.name()).await.expect("machines can be listed");
        found.into_iter().map(|machine| (machine.name().clone(), machine)).collect()
    }

    /// The machines with their states.
    pub async fn found(self, cluster: &Cluster) -> Vec<(NodeName, MachineState)> {
        let machines = self.machines(cluster).await;
        machines.into_iter().map(|(name, machine)| (name, machine.state())).collect()
    }

    /// Stops the machine of the first node.
    pub async fn stop(self, cluster: &Cluster) -> Changed {
        self.stop_node(cluster, node(cluster)).await
    }

    /// Stops a machine, as the engine does.
    pub async fn stop_node(self, cluster: &Cluster, name: &NodeName) -> Changed {
        let stopped = self.fleet().stop(self.driver().name(), cluster.name(), name).await;
        stopped.expect("the machine can be stopped")
    }

    /// Removes the machine of the first node.
    pub async fn remove(self, cluster: &Cluster) -> Changed {
        self.remove_node(cluster, node(cluster)).await
    }

    /// Removes a machine, as the engine does.
    pub async fn remove_node(self, cluster: &Cluster, name: &NodeName) -> Changed {
        let removed = self.fleet().remove(self.driver().name(), cluster.name(), name).await;
        removed.expect("the machine can be removed")
    }

    /// Removes all machines and the network.
    pub async fn remove_all(self, cluster: &Cluster) -> Changed {
        self.fleet().remove_all(cluster.name()).await.expect("machines and network can be removed")
    }
}

/// The first node.
pub(crate) fn node(cluster: &Cluster) -> &NodeName {
    &cluster.spec.primary().name
}

pub(crate) async fn put(machine: &dyn Machine, path: &str, bytes: &[u8]) {
    machine.guest().write(path, 0o644, bytes).await.expect("a file can be written");
}

pub(crate) async fn get(machine: &dyn Machine, path: &str) -> Option<Vec<u8>> {
    machine.guest().read(path).await.expect("a file can be read")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fake::{self, Calls, FakeComputer, FakeDriver};

    #[tokio::test]
    async fn the_fakes_keep_to_the_contracts() {
        for (name, case) in SUITES.into_iter().flatten() {
            println!("{name}");
            let driver = FakeDriver::answering(&[ANSWERS, sessions::ANSWERS].concat());
            for (key, acts) in sessions::PROGRAMS {
                driver.programs.add(key, acts);
            }
            let driver = Arc::new(driver);
            let host: Arc<dyn Host> = Arc::new(FakeComputer::new("local", &Calls::default(), &[driver]));
            case(Subject::of(&host), &fake::cluster("10.213.0.0/24")).await;
        }
    }
}
