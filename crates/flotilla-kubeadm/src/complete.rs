//! The second half of a control plane's start: everything after the API server.

use std::time::Duration;

use flotilla_core::cluster::{Cluster, Node};
use flotilla_core::event::Outcome;
use flotilla_core::explain::one_line;
use flotilla_core::{BootstrapError, Machine};
use k8s_openapi::api::core::v1::{ConfigMap, Node as KubeNode};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::Instant;

use crate::api::{self, PATIENT, SYSTEM, exists, insist};
use crate::cni;
use crate::corefile;
use crate::credentials::{self, Credentials};
use crate::files::ADMIN_CONF;
use crate::kubelet;
use crate::minikube_labels;
use crate::mirror;
use crate::missing::{self, Missing, Part};
use crate::namespace;
use crate::patience::{Cancelled, Patience, Work};
use crate::phase;
use crate::rotation;

/// The role that the API server creates first of about seventy.
const FIRST_ROLE: &str = "cluster-admin";

/// A fast machine has the first role within this time: the API server begins to create them after one second.
const FAST: Duration = Duration::from_secs(2);

/// Steps that wait for the registration of the node.
const OF_THE_NODE: [Part; 5] =
    [Part::PodRange, Part::Role, Part::ControllerManager, Part::Scheduler, Part::EtcdMirror];

/// The data that the parts of the completion share.
struct Completion<'a> {
    client: Client,
    credentials: Credentials,
    missing: Missing,
    cluster: &'a Cluster,
    node: &'a Node,
    machine: &'a dyn Machine,
    cancelled: &'a Cancelled,
}

/// Creates what is missing, in parallel, and nothing else.
///
/// A failed part does not cancel the others: their processes would be left behind in the node.
pub(crate) async fn complete(
    cluster: &Cluster,
    node: &Node,
    machine: &dyn Machine,
    cancelled: &Cancelled,
) -> Result<Outcome, BootstrapError> {
    let credentials = credentials::require(machine).await?;
    let client = api::client(cluster, &credentials, PATIENT).await?;
    let missing = Missing::look(&client, cluster, node, machine, cancelled).await?;
    if missing.is_nothing() {
        minikube_labels::ensure(&client, cluster, node, cancelled).await?;
        return Ok(Outcome::Kept);
    }
    let this = Completion { client, credentials, missing, cluster, node, machine, cancelled };
    let pieces = tokio::join!(
        this.settings(),
        this.tokens(),
        this.kube_proxy(),
        this.dns(),
        this.default_namespace(),
        // On the heap: all of them together make a large future.
        Box::pin(this.pod_network()),
        Box::pin(this.of_the_node()),
    );
    pieces.0.and(pieces.1).and(pieces.2).and(pieces.3).and(pieces.4).and(pieces.5).and(pieces.6)?;
    rotation::ensure(this.machine).await?;
    this.wait_for_rights().await?;
    Ok(Outcome::Done)
}

impl Completion<'_> {
    async fn settings(&self) -> Result<(), BootstrapError> {
        // Only what is missing: a user may have changed the other.
        let (kubeadm, kubelet) =
            (self.missing.has(Part::KubeadmSettings), self.missing.has(Part::KubeletSettings));
        let settings = match (kubeadm, kubelet) {
            (true, true) => "all",
            (true, false) => "kubeadm",
            (false, true) => "kubelet",
            (false, false) => return Ok(()),
        };
        phase::upload_config(self.machine, settings, self.credentials.path).await
    }

    async fn tokens(&self) -> Result<(), BootstrapError> {
        if self.missing.has(Part::Tokens) {
            phase::bootstrap_token(self.machine, self.credentials.path).await?;
        }
        Ok(())
    }

    async fn kube_proxy(&self) -> Result<(), BootstrapError> {
        if self.missing.has(Part::KubeProxy) {
            phase::kube_proxy(self.machine, self.credentials.path).await?;
        }
        Ok(())
    }

    /// `CoreDNS`, with the host's names before its pod can be scheduled.
    async fn dns(&self) -> Result<(), BootstrapError> {
        if self.missing.has(Part::Dns) {
            phase::coredns(self.machine, self.credentials.path).await?;
        }
        if self.missing.has(Part::HostNames) {
            let action = "add the host's names to the cluster's DNS";
            insist(action, self.cancelled, || self.put_host_names()).await?;
        }
        Ok(())
    }

    async fn put_host_names(&self) -> Result<(), kube::Error> {
        let text = missing::corefile(&self.client).await?;
        let changed = text.and_then(|text| corefile::with_host_names(&text, self.cluster.gateway()));
        if let Some(text) = changed {
            let maps = Api::<ConfigMap>::namespaced(self.client.clone(), SYSTEM);
            let patch = Patch::Merge(json!({"data": {"Corefile": text}}));
            maps.patch("coredns", &PatchParams::default(), &patch).await?;
        }
        Ok(())
    }

    /// Objects that the first pods need before controllers run.
    async fn default_namespace(&self) -> Result<(), BootstrapError> {
        if !self.missing.has(Part::DefaultNamespace) {
            return Ok(());
        }
        let authority = self.credentials.authority_pem()?;
        let patience = Patience::new("the namespace default", self.cancelled);
        loop {
            match namespace::prepare(&self.client, &authority).await {
                Ok(()) => return Ok(()),
                Err(error) => patience.pause(&[one_line(&error)]).await?,
            }
        }
    }

    /// A network that is not flotilla's. Its pods run as soon as nodes and controllers do.
    async fn pod_network(&self) -> Result<(), BootstrapError> {
        if self.missing.has(Part::PodNetwork) {
            let kubeconfig = self.credentials.path;
            cni::install(&self.client, self.cluster, self.machine, kubeconfig, self.cancelled).await?;
        }
        Ok(())
    }

    /// Controllers and scheduler start only now: the API server refuses their mirror pods while the node is not
    /// registered, and the kubelet retries only a minute later.
    async fn of_the_node(&self) -> Result<(), BootstrapError> {
        if !self.missing.has_any(&OF_THE_NODE) {
            return Ok(());
        }
        self.wait_for_registration().await?;
        let pieces = tokio::join!(
            self.pod_range(),
            self.controller_manager(),
            self.scheduler(),
            self.role(),
            self.etcd_mirror(),
        );
        pieces.0.and(pieces.1).and(pieces.2).and(pieces.3).and(pieces.4)
    }

    async fn wait_for_registration(&self) -> Result<(), BootstrapError> {
        let name = self.node.spec.name.to_string();
        let nodes = Api::<KubeNode>::all(self.client.clone());
        let patience = Patience::new(format!("the registration of node {name}"), self.cancelled);
        let work = Work::of(self.machine);
        // Controllers start after the registration: if they exist, the Node object was deleted later.
        if !self.missing.has(Part::ControllerManager) && matches!(exists(&nodes, &name).await, Ok(false)) {
            kubelet::restart(self.machine).await?;
        }
        loop {
            let seen = match exists(&nodes, &name).await {
                Ok(true) => return Ok(()),
                Ok(false) => format!("the kubelet has not registered node {name}"),
                Err(error) => one_line(&error),
            };
            patience.pause_while_busy(&work, &[seen]).await?;
        }
    }

    async fn pod_range(&self) -> Result<(), BootstrapError> {
        if !self.missing.has(Part::PodRange) {
            return Ok(());
        }
        let range = self.node.pod_range;
        // Sets the labels in the same patch: if the range is missing, so are they.
        let labels = minikube_labels::all(self.cluster, self.node);
        let patch = Patch::Merge(json!({
            "metadata": {"labels": labels},
            "spec": {"podCIDR": range, "podCIDRs": [range]},
        }));
        let name = self.node.spec.name.to_string();
        let nodes = Api::<KubeNode>::all(self.client.clone());
        let (action, how) = (format!("set the pod range {range} of node {name}"), PatchParams::default());
        insist(action, self.cancelled, || nodes.patch(&name, &how, &patch)).await.map(drop)
    }

    /// Waits until the API server has created the roles of its components. A component that requests its lease
    /// earlier is refused, and retries only seconds later.
    ///
    /// A single control plane needs no lease: its components begin to start with the first role, and when they make their
    /// first requests, the others exist. Not on a slow machine: a controller manager gives up if the API server is not
    /// healthy ten seconds later.
    async fn wait_for_roles(&self) -> Result<(), BootstrapError> {
        let patience = Patience::new("the API server's own roles", self.cancelled);
        let roles = Api::<ClusterRole>::all(self.client.clone());
        let (is_alone, since) = (self.cluster.spec.control_planes().count() == 1, Instant::now());
        loop {
            let may_begin = is_alone && matches!(exists(&roles, FIRST_ROLE).await, Ok(true));
            if may_begin && since.elapsed() < FAST {
                return Ok(());
            }
            match api::is_done(&self.client, "rbac/bootstrap-roles").await {
                Ok(()) => return Ok(()),
                Err(error) => patience.pause(&[one_line(&error)]).await?,
            }
        }
    }

    async fn controller_manager(&self) -> Result<(), BootstrapError> {
        if self.missing.has(Part::ControllerManager) {
            self.wait_for_roles().await?;
            phase::controller_manager(self.machine).await?;
        }
        Ok(())
    }

    async fn scheduler(&self) -> Result<(), BootstrapError> {
        if self.missing.has(Part::Scheduler) {
            self.wait_for_roles().await?;
            phase::scheduler(self.machine).await?;
        }
        Ok(())
    }

    async fn etcd_mirror(&self) -> Result<(), BootstrapError> {
        if self.missing.has(Part::EtcdMirror) {
            mirror::ensure_etcd(&self.client, self.node.spec.name.as_ref(), self.cancelled).await?;
        }
        Ok(())
    }

    async fn role(&self) -> Result<(), BootstrapError> {
        if self.missing.has(Part::Role) {
            phase::mark_control_plane(self.machine).await?;
        }
        Ok(())
    }

    /// Waits until the API server accepts admin.conf, which users get.
    async fn wait_for_rights(&self) -> Result<(), BootstrapError> {
        let Some(admin) = credentials::read(self.machine, ADMIN_CONF).await? else { return Ok(()) };
        let client = api::client(self.cluster, &admin, PATIENT).await?;
        let patience = Patience::new("the administrator's permissions", self.cancelled);
        loop {
            let seen = match api::serves(&client).await {
                Ok(true) => return Ok(()),
                Ok(false) => format!("the namespace {SYSTEM} does not exist"),
                Err(error) => one_line(&error),
            };
            patience.pause(&[seen]).await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fake_api::FakeApi;
    use flotilla_testkit::fake::{self, FakeMachine};

    const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin";
    const ROLES_DONE: &str = "/readyz/poststarthook/rbac/bootstrap-roles";

    /// Whether controllers of so many control planes start with what the API has.
    async fn start(control_planes: usize, objects: &[&str]) -> bool {
        let mut cluster = fake::cluster("10.213.0.0/24");
        cluster.spec.nodes = vec![cluster.spec.nodes[0].clone(); control_planes];
        let (node, machine) = (cluster.primary().unwrap(), FakeMachine::new(&[], &[]));
        let api =
            FakeApi::new(&objects.iter().map(|path| (*path, json!({"metadata": {}}))).collect::<Vec<_>>());
        let (authority, certificate, key) = (String::new(), String::new(), String::new());
        let credentials = Credentials { path: "", authority, certificate, key };
        let limits = Cancelled::new(Arc::new(|| false)).within(Duration::from_secs(1));
        let missing = Missing::look(&api.client(), &cluster, &node, &machine, &limits).await.unwrap();
        let (cluster, node, machine, cancelled) = (&cluster, &node, &machine, &limits);
        let this =
            Completion { client: api.client(), credentials, missing, cluster, node, machine, cancelled };
        this.wait_for_roles().await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn controllers_that_hold_an_election_wait_for_all_roles_and_a_single_one_for_the_first() {
        assert!(!start(1, &[]).await);
        assert!(start(1, &[ROLE]).await);
        assert!(!start(2, &[ROLE]).await);
        assert!(start(2, &[ROLE, ROLES_DONE]).await);
    }
}
