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

mod api;
mod certificates;
mod cni;
mod complete;
pub mod config;
mod control_plane;
mod corefile;
mod credentials;
mod dns;
mod drain;
mod etcd;
#[cfg(test)]
mod fake_api;
mod files;
mod flannel;
mod found;
mod health;
mod init;
mod join;
pub mod kubeconfig;
mod kubelet;
mod leader;
mod leave;
mod marks;
mod mirror;
mod missing;
mod namespace;
mod patience;
mod pause;
mod phase;
mod rotation;
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
    ApiAccess, BootstrapError, Bootstrapper, Certificates, Changed, Condition, Drain, KubernetesState,
    Machine, Member, Membership, NodeHealth,
};
use flotilla_spec::{Cni, NodeName, NodeSpec};
use tokio::sync::Mutex;

use patience::Cancelled;

/// The bootstrapper that runs kubeadm.
#[derive(Clone)]
pub struct Kubeadm {
    cancelled: Cancelled,
    /// Held by the control plane that etcd takes in: there may be one at a time.
    membership: Arc<Mutex<()>>,
}

impl Kubeadm {
    /// One that gives up its waits as soon as `cancelled` says so.
    pub fn new(cancelled: Arc<dyn Fn() -> bool + Send + Sync>) -> Self {
        Self { cancelled, membership: Arc::default() }
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

    async fn observe(&self, cluster: &Cluster, node: &Node, machine: &dyn Machine) -> KubernetesState {
        missing::observe(cluster, node, machine, &self.cancelled).await
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
        let credentials = credentials::require(via).await?;
        let client = api::client(cluster, &credentials, api::GENEROUS).await?;
        api::answers(&client, limit, &self.cancelled).await
    }

    async fn start_api(
        &self,
        cluster: &Cluster,
        node: &Node,
        machine: &dyn Machine,
        others: &[Arc<dyn Machine>],
    ) -> Result<Outcome, BootstrapError> {
        init::start_api(cluster, node, machine, others, &self.cancelled).await
    }

    async fn complete(
        &self,
        cluster: &Cluster,
        node: &Node,
        machine: &dyn Machine,
    ) -> Result<Outcome, BootstrapError> {
        complete::complete(cluster, node, machine, &self.cancelled).await
    }

    async fn membership(&self, machine: &dyn Machine) -> Result<Membership, BootstrapError> {
        marks::membership(machine).await
    }

    async fn listed(&self, cluster: &Cluster, via: &dyn Machine) -> Option<BTreeSet<String>> {
        missing::listed(cluster, via).await
    }

    async fn join(
        &self,
        cluster: &Cluster,
        node: &Node,
        machine: &dyn Machine,
        primary: &dyn Machine,
    ) -> Result<Outcome, BootstrapError> {
        join::join(cluster, node, machine, primary, &self.membership, &self.cancelled).await
    }

    async fn leave(
        &self,
        cluster: &Cluster,
        node: &Node,
        machine: Option<&dyn Machine>,
        via: &dyn Machine,
    ) -> Result<(), BootstrapError> {
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
        stopped::mark_stopped(cluster, node.as_ref(), via, &self.cancelled).await
    }

    async fn drain(
        &self,
        cluster: &Cluster,
        node: &NodeName,
        primary: &dyn Machine,
        how: Drain,
    ) -> Result<(), BootstrapError> {
        drain::drain(cluster, node.as_ref(), primary, how, &self.cancelled).await
    }

    async fn uncordon(
        &self,
        cluster: &Cluster,
        node: &NodeName,
        primary: &dyn Machine,
    ) -> Result<(), BootstrapError> {
        drain::uncordon_node(cluster, node.as_ref(), primary, &self.cancelled).await
    }

    async fn update_labels(
        &self,
        cluster: &Cluster,
        node: &Node,
        was: &NodeSpec,
        primary: &dyn Machine,
    ) -> Result<Changed, BootstrapError> {
        update_labels::update_labels(cluster, node, was, primary, &self.cancelled).await
    }

    async fn remove_from_api(
        &self,
        cluster: &Cluster,
        node: &NodeName,
        primary: &dyn Machine,
    ) -> Result<(), BootstrapError> {
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
        wait::wait(cluster, primary, machines, conditions, limit, &self.cancelled).await
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
        certificates::renew(cluster, due, control_planes).await
    }

    async fn access(
        &self,
        cluster: &Cluster,
        machine: &dyn Machine,
    ) -> Result<Option<ApiAccess>, BootstrapError> {
        credentials::access(cluster, machine).await
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
