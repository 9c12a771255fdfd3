//! Machines from plain Linux namespaces: no Docker, no virtual machines, a node boots in half a second.
//!
//! ```text
//! clusters/NAME/nodes/NODE/   bundle   the digest of what its root is made from
//!                             image-store  the digest of the bundle that has its images
//!                             uuid     the machine's own, for ever
//!                             record.json  what is known of it; the node cannot reach it
//!                             upper/   what it wrote outside /var      work/ merged/ lower/  the overlay's own
//!                             var/     its /var; images are links to a read-only mount
//!                             console  what PID 1 said
//! ```
//!
//! Kernel objects have names derived from the cluster's name ([`names::Names`]): control groups, the bridge and its
//! ports, the tables of packet rules. So no state can be lost, and `remove_all` needs only the name.

use std::net::{SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use flotilla_core::Cancel;
use flotilla_core::{
    Capabilities, Changed, Driver, DriverError, Finding, Host, HostFacts, IdRange, LinkFacts, Machine,
    MachineId, MachineSpec, Network, NetworkPlan, NetworkState, Port, PortKind, Refusal, RootFacts, Subnet,
};
use flotilla_linux::cgroup::Layout;
use flotilla_node_api::NodeConfig;
use flotilla_spec::{ClusterName, DriverName, NodeName};

mod attachments;
mod boot;
mod disk;
mod error;
mod examine;
mod facts;
mod host_routes;
mod ids;
mod limits;
mod logs;
mod machine;
mod marks;
mod names;
mod network;
mod ports;
mod record;
mod remove;
mod sockets;
mod store;
mod user_namespaces;

use error::NativeError;
use names::Names;

/// What nodes call this driver.
static NAME: DriverName = DriverName::new("native");

/// The driver, and the network of its host. Needs root for everything but looking at the host.
#[derive(Debug, Clone)]
pub struct Native {
    /// The state directory.
    home: PathBuf,
    cancel: Cancel,
}

impl Native {
    /// `home` is the state directory, with bundles in `bundles/` and clusters in `clusters/`.
    pub fn new(home: &Path, cancel: &Cancel) -> Self {
        Self { home: home.to_owned(), cancel: cancel.clone() }
    }

    fn names(&self, cluster: &ClusterName) -> Names {
        Names::of(&self.home, cluster)
    }

    fn cluster_folder(&self, cluster: &ClusterName) -> PathBuf {
        self.home.join("clusters").join(cluster.as_ref())
    }

    fn nodes_folder(&self, cluster: &ClusterName) -> PathBuf {
        self.cluster_folder(cluster).join("nodes")
    }

    fn bundle_folder(&self, digest: &str) -> PathBuf {
        self.home.join("bundles").join(digest)
    }

    /// Runs blocking code on a thread for it.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, NativeError> + Send + 'static,
    ) -> Result<T, DriverError> {
        let own = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&own)).await;
        // It is never aborted, so the only error is a panic.
        let done = done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        done.map_err(DriverError::from)
    }
}

#[async_trait]
impl Host for Native {
    fn name(&self) -> &'static str {
        "local"
    }

    async fn facts(&self) -> Result<HostFacts, DriverError> {
        self.blocking(|_| Ok(facts::of_host())).await
    }

    async fn free_ids(&self, taken: &[IdRange], count: usize) -> Result<Vec<IdRange>, DriverError> {
        let taken = taken.to_vec();
        self.blocking(move |native| ids::free(&native.home, &taken, count)).await
    }

    async fn examine(&self) -> Vec<Finding> {
        let home = self.home.clone();
        let examined = tokio::task::spawn_blocking(move || examine::examine(&home)).await;
        examined.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    async fn examine_options(&self) -> Vec<Finding> {
        let home = self.home.clone();
        let examined = tokio::task::spawn_blocking(move || user_namespaces::examine(&home)).await;
        vec![examined.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))]
    }

    fn drivers(&self) -> Vec<&dyn Driver> {
        vec![self]
    }

    fn network(&self) -> &dyn Network {
        self
    }
}

#[async_trait]
impl Driver for Native {
    fn name(&self) -> &DriverName {
        &NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            host_mounts: true,
            user_namespaces: true,
            disk_size: false,
            offline_logs: true,
            snapshots: false,
            pause: true,
            own_kernel: false,
            faults: false,
            port_kind: PortKind::Veth,
        }
    }

    async fn check(&self, wanted: &[MachineSpec]) -> Result<Vec<Refusal>, DriverError> {
        let wanted = wanted.to_vec();
        self.blocking(move |native| {
            let mut refused = native.check_mounts(&wanted)?;
            refused.extend(native.check_user_namespaces(&wanted)?);
            Ok(refused)
        })
        .await
    }

    async fn list(&self, cluster: &ClusterName) -> Result<Vec<Arc<dyn Machine>>, DriverError> {
        let cluster = cluster.clone();
        self.blocking(move |native| native.find_machines(&cluster)).await
    }

    async fn root(&self, spec: &MachineSpec) -> Result<RootFacts, DriverError> {
        let spec = spec.clone();
        self.blocking(move |native| native.root_facts(&spec)).await
    }

    async fn boot(
        &self,
        spec: &MachineSpec,
        port: &Port,
        config: &NodeConfig,
    ) -> Result<Arc<dyn Machine>, DriverError> {
        let (spec, port, config) = (spec.clone(), port.clone(), config.clone());
        self.blocking(move |native| native.boot_machine(&spec, &port, &config)).await
    }

    async fn plug(&self, id: &MachineId, port: &Port) -> Result<Arc<dyn Machine>, DriverError> {
        let (id, port) = (id.clone(), port.clone());
        self.blocking(move |native| native.plug_machine(&id, &port)).await
    }

    async fn stop(&self, id: &MachineId) -> Result<Changed, DriverError> {
        let id = id.clone();
        self.blocking(move |native| native.stop_machine(&id.cluster, &id.node)).await
    }

    async fn remove(&self, id: &MachineId) -> Result<Changed, DriverError> {
        let id = id.clone();
        self.blocking(move |native| native.remove_machine(&id.cluster, &id.node)).await
    }

    async fn remove_all(&self, cluster: &ClusterName) -> Result<Changed, DriverError> {
        let cluster = cluster.clone();
        self.blocking(move |native| native.remove_machines(&cluster)).await
    }
}

#[async_trait]
impl Network for Native {
    async fn used(&self, except: &ClusterName) -> Result<Vec<Subnet>, DriverError> {
        let except = except.clone();
        self.blocking(move |native| network::in_use(&native.names(&except))).await
    }

    async fn check(&self, plan: &NetworkPlan) -> Result<Vec<Refusal>, DriverError> {
        let plan = plan.clone();
        self.blocking(move |native| native.check_ports(&plan)).await
    }

    async fn state(&self, plan: &NetworkPlan) -> Result<NetworkState, DriverError> {
        let plan = plan.clone();
        self.blocking(move |native| native.network_state(&plan)).await
    }

    async fn ensure(&self, plan: &NetworkPlan) -> Result<Changed, DriverError> {
        let plan = plan.clone();
        self.blocking(move |native| native.make_network(&plan)).await
    }

    async fn update(&self, plan: &NetworkPlan) -> Result<Changed, DriverError> {
        let plan = plan.clone();
        self.blocking(move |native| native.update_network(&plan)).await
    }

    async fn link(&self, plan: &NetworkPlan) -> Result<LinkFacts, DriverError> {
        let plan = plan.clone();
        self.blocking(move |native| native.link_facts(&plan)).await
    }

    async fn ensure_port(
        &self,
        cluster: &ClusterName,
        node: &NodeName,
        kind: PortKind,
    ) -> Result<Port, DriverError> {
        let (cluster, node) = (cluster.clone(), node.clone());
        self.blocking(move |native| native.make_socket(&cluster, &node, kind)).await
    }

    async fn remove_port(&self, cluster: &ClusterName, node: &NodeName) -> Result<Changed, DriverError> {
        let (cluster, node) = (cluster.clone(), node.clone());
        self.blocking(move |native| native.remove_socket(&cluster, &node)).await
    }

    async fn unpublish(&self, cluster: &ClusterName, node: &NodeName) -> Result<Changed, DriverError> {
        let (cluster, node) = (cluster.clone(), node.clone());
        self.blocking(move |native| native.close_ports(&cluster, &node)).await
    }

    /// The host has an address in the cluster's network.
    async fn reach(&self, _: &ClusterName, at: SocketAddrV4) -> Result<SocketAddr, DriverError> {
        Ok(at.into())
    }

    async fn remove(&self, cluster: &ClusterName) -> Result<Changed, DriverError> {
        let cluster = cluster.clone();
        self.blocking(move |native| native.remove_network(&cluster)).await
    }
}

fn layout() -> Result<Layout, NativeError> {
    Layout::of_host().map_err(|source| NativeError::Io {
        action: "read",
        path: "/proc/self/mountinfo".into(),
        source,
    })
}
