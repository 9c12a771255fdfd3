//! Machines of namespaces.
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

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use flotilla_core::{
    BundleLayout, Cancel, Capabilities, Changed, Driver, DriverError, Finding, GuestFacts, Machine,
    MachineId, MachineSpec, Port, PortKind, Refusal,
};
use flotilla_linux::cgroup::Layout;
use flotilla_node_api::NodeConfig;
use flotilla_spec::{ClusterName, DriverName};

use crate::error::NativeError;
use crate::names::Names;
use crate::{blocking, on_thread};

mod boot;
mod disk;
mod facts;
mod limits;
mod logs;
mod machine;
mod marks;
mod mounts;
pub(crate) mod record;
mod remove;
mod store;
mod user_namespaces;

/// What nodes call this driver.
static NAME: DriverName = DriverName::new("native");

/// The driver. Needs root for everything but looking at machines.
#[derive(Debug, Clone)]
pub struct NativeDriver {
    /// The state directory.
    home: PathBuf,
    cancel: Cancel,
}

impl NativeDriver {
    /// `home` is the state directory: machines are in it, and the bundles that they are made from.
    pub fn new(home: &Path, cancel: &Cancel) -> Self {
        Self { home: home.to_owned(), cancel: cancel.clone() }
    }

    fn names(&self, cluster: &ClusterName) -> Names {
        Names::of(&self.home, cluster)
    }

    fn nodes_folder(&self, cluster: &ClusterName) -> PathBuf {
        self.home.join("clusters").join(cluster.as_ref()).join("nodes")
    }

    fn bundle(&self, digest: &str) -> BundleLayout {
        BundleLayout::of(&self.home, digest)
    }
}

#[async_trait]
impl Driver for NativeDriver {
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
        blocking(self, move |driver| {
            let mut refused = driver.check_mounts(&wanted)?;
            refused.extend(driver.check_user_namespaces(&wanted)?);
            Ok(refused)
        })
        .await
    }

    async fn examine_options(&self) -> Vec<Finding> {
        let home = self.home.clone();
        on_thread(move || vec![user_namespaces::examine(&home)]).await
    }

    async fn list(&self, cluster: &ClusterName) -> Result<Vec<Arc<dyn Machine>>, DriverError> {
        let cluster = cluster.clone();
        blocking(self, move |driver| driver.find_machines(&cluster)).await
    }

    async fn guest_facts(&self, spec: &MachineSpec) -> Result<GuestFacts, DriverError> {
        let spec = spec.clone();
        Ok(on_thread(move || facts::of(&spec)).await)
    }

    async fn boot(
        &self,
        spec: &MachineSpec,
        port: &Port,
        config: &NodeConfig,
    ) -> Result<Arc<dyn Machine>, DriverError> {
        let (spec, port, config) = (spec.clone(), port.clone(), config.clone());
        blocking(self, move |driver| driver.boot_machine(&spec, &port, &config)).await
    }

    async fn plug(&self, id: &MachineId, port: &Port) -> Result<Arc<dyn Machine>, DriverError> {
        let (id, port) = (id.clone(), port.clone());
        blocking(self, move |driver| driver.plug_machine(&id, &port)).await
    }

    async fn stop(&self, id: &MachineId) -> Result<Changed, DriverError> {
        let id = id.clone();
        blocking(self, move |driver| driver.stop_machine(&id.cluster, &id.node)).await
    }

    async fn remove(&self, id: &MachineId) -> Result<Changed, DriverError> {
        let id = id.clone();
        blocking(self, move |driver| driver.remove_machine(&id.cluster, &id.node)).await
    }

    async fn remove_all(&self, cluster: &ClusterName) -> Result<Changed, DriverError> {
        let cluster = cluster.clone();
        blocking(self, move |driver| driver.remove_machines(&cluster)).await
    }
}

fn layout() -> Result<Layout, NativeError> {
    Layout::of_host().map_err(|source| NativeError::Io {
        action: "read",
        path: "/proc/self/mountinfo".into(),
        source,
    })
}
