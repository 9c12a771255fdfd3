//! Kubernetes out of machines, with the kubeadm that is in each of them.
//!
//! ```text
//! start_api (init)                     complete, in parallel                        once the node has registered
//! certificates, etcd, API server  ─▶   settings │ tokens │ kube-proxy │ CoreDNS  ─▶  controllers │ scheduler │ labels
//! ```
//!
//! The phases are kubeadm's own, in an order that keeps two cores busy instead of waiting: the API server starts
//! without competition, and each phase is a process of its own, because kubeadm limits a process to five requests a
//! second. Nothing is remembered on the host. What is missing is looked up in the cluster, so that a run that was
//! killed is finished by the next one.
//!
//! A cluster that begins with several control planes is founded by all of them together ([`found`]). Further ones join by the real `kubeadm join` and leave by `kubeadm reset`; etcd is asked and told by its own
//! tools, in a control plane that is a member ([`etcd`]). What a killed join or leave has left is cleared away by the next
//! join.
//!
//! [`kubeconfig`] is the other end of it: the user's file that names the cluster.

mod alone;
mod api;
mod authorities;
mod certificates;
mod cni;
mod complete;
pub mod config;
mod control_plane;
mod corefile;
mod credentials;
mod disk;
mod dns;
mod drain;
mod etcd;
#[cfg(test)]
mod fake_api;
mod files;
mod flannel;
mod found;
mod health;
mod host_mounts;
mod init;
mod join;
pub mod kubeconfig;
mod kubelet;
mod leader;
mod leave;
mod membership;
mod minikube_labels;
mod mirror;
mod missing;
mod namespace;
mod patience;
mod pause;
mod phase;
mod priority;
mod rotation;
mod serving;
mod stopped;
mod token;
mod update_labels;
mod wait;
mod yaml;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use flotilla_core::cluster::{Cluster, Node};
use flotilla_core::event::Outcome;
use flotilla_core::{
    ApiAccess, Authorities, BootstrapError, Bootstrapper, Certificates, Changed, Condition, Drain,
    KubernetesState, Machine, Member, NodeHealth, Reach,
};
use flotilla_spec::{Cni, NodeName, NodeSpec};
use jiff::Timestamp;
use tokio::sync::Mutex;

use patience::Cancelled;

/// The bootstrapper that runs kubeadm.
#[derive(Clone)]
pub struct Kubeadm {
    cancelled: Cancelled,
    /// Knows where the API is reached from here.
    reach: Arc<dyn Reach>,
    /// Held by the control plane that etcd takes in: there may be one at a time.
    membership: Arc<Mutex<()>>,
}

impl Kubeadm {
    /// One that reaches APIs as `reach` says, and gives up its waits as soon as `cancelled` says so.
    pub fn new(cancelled: Arc<dyn Fn() -> bool + Send + Sync>, reach: Arc<dyn Reach>) -> Self {
        Self { cancelled: Cancelled::new(cancelled), reach, membership: Arc::default() }
    }

    /// The cluster with the address where its API is reached from here.
    async fn reached(&self, cluster: &Cluster, via: &dyn Machine) -> Result<Cluster, BootstrapError> {
        let api = self.reach.api(cluster, via).await.map_err(|error| BootstrapError::Api {
            action: "find the way to the API".to_owned(),
            source: error.into(),
        })?;
        Ok(cluster.reached_at(api))
    }
}

impl std::fmt::Debug for Kubeadm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kubeadm").finish_non_exhaustive()
    }
}

#[async_trait]
impl Bootstrapper for Kubeadm {
    fn pod_network(&self, cluster: &Cluster) -> Option<String> {
        matches!(cluster.spec.network.cni, Cni::Flannel).then(|| flannel::flannel_manifest(cluster))
    }

    fn authority_problem(&self, authorities: &Authorities) -> Option<String> {
        authorities::problem(authorities, Timestamp::now())
    }

    async fn observe(&self, cluster: &Cluster, node: &Node, machine: &dyn Machine) -> KubernetesState {
        match self.reached(cluster, machine).await {
            Ok(cluster) => missing::observe(&cluster, node, machine, &self.cancelled).await,
            Err(_) => KubernetesState::Unreachable,
        }
    }

    async fn health(&self, cluster: &Cluster, node: &Node, machine: &dyn Machine) -> NodeHealth {
        health::health(cluster, node, machine).await
    }

    async fn answers(
        &self,
        cluster: &Cluster,
        via: &dyn Machine,
        limit: Duration,
    ) -> Result<bool, BootstrapError> {
        let cluster = &self.reached(cluster, via).await?;
        let credentials = credentials::require(via).await?;
        let client = api::client(cluster, &credentials, api::PATIENT).await?;
        api::answers(&client, limit, &self.cancelled).await
    }

    async fn start_api(
        &self,
        cluster: &Cluster,
        node: &Node,
        machine: &dyn Machine,
        others: &[Arc<dyn Machine>],
        limit: Duration,
    ) -> Result<Outcome, BootstrapError> {
        let cluster = &self.reached(cluster, machine).await?;
        init::start_api(cluster, node, machine, others, &self.cancelled.within(limit)).await
    }

    async fn complete(
        &self,
        cluster: &Cluster,
        node: &Node,
        machine: &dyn Machine,
        limit: Duration,
    ) -> Result<Outcome, BootstrapError> {
        let cluster = &self.reached(cluster, machine).await?;
        complete::complete(cluster, node, machine, &self.cancelled.within(limit)).await
    }

    async fn listed(&self, cluster: &Cluster, via: &dyn Machine) -> Option<BTreeSet<String>> {
        missing::listed(&self.reached(cluster, via).await.ok()?, via).await
    }

    async fn join(
        &self,
        cluster: &Cluster,
        node: &Node,
        machine: &dyn Machine,
        primary: &dyn Machine,
        limit: Duration,
    ) -> Result<Outcome, BootstrapError> {
        let cluster = &self.reached(cluster, primary).await?;
        let limits = self.cancelled.within(limit);
        join::join(cluster, node, machine, primary, &self.membership, &limits).await
    }

    async fn leave(
        &self,
        cluster: &Cluster,
        node: &Node,
        machine: Option<&dyn Machine>,
        via: &dyn Machine,
    ) -> Result<(), BootstrapError> {
        let cluster = &self.reached(cluster, via).await?;
        leave::leave(cluster, node, machine, via, &self.cancelled).await
    }

    async fn members(&self, _: &Cluster, via: &dyn Machine) -> Result<Vec<Member>, BootstrapError> {
        etcd::members(via).await
    }

    async fn remove_member(
        &self,
        _: &Cluster,
        stranger: &Member,
        via: &dyn Machine,
    ) -> Result<(), BootstrapError> {
        etcd::remove_member(via, stranger, &self.cancelled).await
    }

    async fn mark_stopped(
        &self,
        cluster: &Cluster,
        node: &NodeName,
        via: &dyn Machine,
    ) -> Result<(), BootstrapError> {
        let cluster = &self.reached(cluster, via).await?;
        stopped::mark_stopped(cluster, node.as_ref(), via, &self.cancelled).await
    }

    async fn drain(
        &self,
        cluster: &Cluster,
        node: &NodeName,
        primary: &dyn Machine,
        how: Drain,
    ) -> Result<(), BootstrapError> {
        let cluster = &self.reached(cluster, primary).await?;
        drain::drain(cluster, node.as_ref(), primary, how, &self.cancelled).await
    }

    async fn uncordon(
        &self,
        cluster: &Cluster,
        node: &NodeName,
        primary: &dyn Machine,
    ) -> Result<(), BootstrapError> {
        let cluster = &self.reached(cluster, primary).await?;
        drain::uncordon_node(cluster, node.as_ref(), primary, &self.cancelled).await
    }

    async fn update_labels(
        &self,
        cluster: &Cluster,
        node: &Node,
        was: &NodeSpec,
        primary: &dyn Machine,
    ) -> Result<Changed, BootstrapError> {
        let cluster = &self.reached(cluster, primary).await?;
        update_labels::update_labels(cluster, node, was, primary, &self.cancelled).await
    }

    async fn remove_from_api(
        &self,
        cluster: &Cluster,
        node: &NodeName,
        primary: &dyn Machine,
    ) -> Result<(), BootstrapError> {
        let cluster = &self.reached(cluster, primary).await?;
        join::remove_from_api(cluster, node.as_ref(), primary, &self.cancelled).await
    }

    async fn wait(
        &self,
        cluster: &Cluster,
        primary: &dyn Machine,
        machines: &[Arc<dyn Machine>],
        conditions: &BTreeSet<Condition>,
        limit: Duration,
    ) -> Result<(), BootstrapError> {
        let cluster = &self.reached(cluster, primary).await?;
        wait::wait(cluster, primary, machines, conditions, &self.cancelled.within(limit)).await
    }

    async fn certificates(&self, machine: &dyn Machine) -> Result<Certificates, BootstrapError> {
        certificates::look(machine).await
    }

    async fn renew(
        &self,
        cluster: &Cluster,
        due: &[(Node, Arc<dyn Machine>)],
        control_planes: &[Arc<dyn Machine>],
    ) -> Result<(), BootstrapError> {
        let Some(via) = control_planes.first() else {
            return certificates::renew(cluster, due, control_planes).await;
        };
        certificates::renew(&self.reached(cluster, via.as_ref()).await?, due, control_planes).await
    }

    async fn access(&self, server: &str, machine: &dyn Machine) -> Result<Option<ApiAccess>, BootstrapError> {
        credentials::access(server, machine).await
    }

    async fn authority(&self, machine: &dyn Machine) -> Option<Vec<u8>> {
        credentials::authority(machine).await
    }

    async fn pause(
        &self,
        machine: &dyn Machine,
        namespaces: Option<&[String]>,
    ) -> Result<usize, BootstrapError> {
        pause::pause(machine, namespaces).await
    }

    async fn is_paused(&self, machine: &dyn Machine) -> bool {
        pause::is_paused(machine).await
    }

    async fn unpause(
        &self,
        machine: &dyn Machine,
        namespaces: Option<&[String]>,
    ) -> Result<usize, BootstrapError> {
        pause::unpause(machine, namespaces).await
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use flotilla_core::DriverError;
    use flotilla_testkit::fake::{self, FakeMachine};

    use super::*;

    /// A host whose network this process is no part of.
    struct Elsewhere(SocketAddr);

    #[async_trait]
    impl Reach for Elsewhere {
        async fn api(&self, _: &Cluster, _: &dyn Machine) -> Result<SocketAddr, DriverError> {
            Ok(self.0)
        }
    }

    #[tokio::test]
    async fn the_api_is_asked_where_the_network_leads_and_proves_that_address() {
        let there: SocketAddr = "192.0.2.9:40001".parse().unwrap();
        let kubeadm = Kubeadm::new(Arc::new(|| false), Arc::new(Elsewhere(there)));
        let (cluster, machine) = (fake::cluster("10.213.0.0/24"), FakeMachine::new(&[], &[]));
        let reached = kubeadm.reached(&cluster, &machine).await.unwrap();
        assert_eq!(reached.api(), there);
        let node = reached.primary().unwrap();
        let rendered = |cluster: &Cluster| {
            config::render(cluster, &node, config::Facts { cgroup_v1: false }).contains("192.0.2.9")
        };
        assert!(rendered(&reached) && !rendered(&cluster), "its certificate is for that address as well");
    }
}
