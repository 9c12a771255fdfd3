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
    Bundles, Changed, Cluster, Driver, DriverError, Host, Machine, MachineSpec, MachineState, Network,
    NetworkPlan, NetworkState, Node, Power, Refusal,
};
use flotilla_engine::Fleet;
use flotilla_engine::nodes::Nodes;
use flotilla_node_api::NodeConfig;
use flotilla_spec::{DriverName, NodeName};
use futures::future::BoxFuture;

pub use guests::ANSWERS;

/// A case: it panics when the contract is broken.
pub type Case = for<'a> fn(Subject<'a>, &'a Cluster) -> BoxFuture<'a, ()>;

/// All suites.
pub const SUITES: [&[(&str, Case)]; 4] = [machines::CASES, networks::CASES, guests::CASES, sessions::CASES];

/// The cases of these functions, each with its name.
#[macro_export]
macro_rules! cases {
    ($($name:ident,)*) => {
        &[$((stringify!($name), |subject, cluster| Box::pin($name(subject, cluster))),)*]
    };
}
pub use cases;

pub(crate) const ON: MachineState = MachineState { power: Power::On, intact: true };
pub(crate) const OFF: MachineState = MachineState { power: Power::Off, intact: false };

/// What a case is about: a driver of a host, and the host's network. The nodes of the cases' cluster have this driver.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    host: &'a Arc<dyn Host>,
    driver: &'a dyn Driver,
    bundles: &'a dyn Bundles,
}

impl std::fmt::Debug for Subject<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subject").field("host", self.host).field("driver", self.driver.name()).finish()
    }
}

impl<'a> Subject<'a> {
    /// The host must have the driver.
    pub fn new(host: &'a Arc<dyn Host>, driver: &DriverName, bundles: &'a dyn Bundles) -> Self {
        let found = host.drivers().into_iter().find(|found| found.name() == driver);
        Self { host, driver: found.expect("the host has the driver"), bundles }
    }

    pub fn driver(self) -> &'a dyn Driver {
        self.driver
    }

    pub fn network(self) -> &'a dyn Network {
        self.host.network()
    }

    fn fleet(self) -> Fleet<'a> {
        Fleet::new(std::slice::from_ref(self.host))
    }

    fn nodes(self) -> Nodes<'a> {
        Nodes::of(self.fleet(), self.bundles)
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
    use flotilla_core::{Capabilities, PortKind};

    use super::*;
    use crate::fake::{self, Calls, FakeBundles, FakeComputer, FakeDriver};

    /// Runs all cases with machines of the second of two drivers of one host, which has one network.
    async fn keeps_to_the_contracts(change: impl Fn(&mut Capabilities)) {
        let bundles = FakeBundles::new(&Calls::default());
        for (name, case) in SUITES.into_iter().flatten() {
            println!("{name}");
            let driver = FakeDriver::answering(&[ANSWERS, sessions::ANSWERS].concat()).named("fake", &change);
            for (key, acts) in sessions::PROGRAMS {
                driver.programs.add(key, acts);
            }
            let (other, driver) = (Arc::new(FakeDriver::default()), Arc::new(driver));
            let computer = FakeComputer::new("local", &Calls::default(), &[other, driver.clone()]);
            let host: Arc<dyn Host> = Arc::new(computer);
            let mut cluster = fake::cluster("10.213.0.0/24");
            cluster.spec.nodes[0].driver = Some(driver.name().clone());
            case(Subject::new(&host, driver.name(), &bundles), &cluster).await;
        }
    }

    #[tokio::test]
    async fn the_fakes_keep_to_the_contracts() {
        keeps_to_the_contracts(|_| {}).await;
    }

    #[tokio::test]
    async fn fakes_of_another_shape_keep_to_the_contracts() {
        keeps_to_the_contracts(|can| {
            (can.port_kind, can.own_kernel) = (PortKind::Tap, true);
            (can.host_mounts, can.user_namespaces, can.offline_logs, can.pause) =
                (false, false, false, false);
        })
        .await;
    }
}
