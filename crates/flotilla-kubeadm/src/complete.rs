//! The second half of a control plane's start: everything after the API server.

use std::collections::BTreeMap;
use std::time::Duration;

use flotilla_core::cluster::{Cluster, Node};
use flotilla_core::event::Outcome;
use flotilla_core::explain::one_line;
use flotilla_core::{BootstrapError, Machine};
use k8s_openapi::api::core::v1::{ConfigMap, Node as KubeNode};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use crate::api::{self, PATIENT, SYSTEM, exists, insist};
use crate::cni;
use crate::corefile;
use crate::credentials::{self, Credentials};
use crate::files::ADMIN_CONF;
use crate::kubelet;
use crate::mirror;
use crate::missing::{self, Missing, Part};
use crate::namespace;
use crate::patience::{Cancelled, Patience};
use crate::phase;
use crate::rotation;

/// Time limit for the kubelet to register its node.
const REGISTRATION: Duration = Duration::from_mins(4);
/// Time limit for the API server to apply the administrator's new rights.
const RIGHTS: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(50);

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
        let patience = Patience::new("the namespace default", RIGHTS, self.cancelled);
        loop {
            match namespace::prepare(&self.client, &authority).await {
                Ok(()) => return Ok(()),
                Err(error) => patience.pause(POLL, &[one_line(&error)]).await?,
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
        let patience =
            Patience::new(format!("the registration of node {name}"), REGISTRATION, self.cancelled);
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
            patience.pause(POLL, &[seen]).await?;
        }
    }

    async fn pod_range(&self) -> Result<(), BootstrapError> {
        if !self.missing.has(Part::PodRange) {
            return Ok(());
        }
        let range = self.node.pod_range;
        // Sets the labels in the same patch: if the range is missing, so are they.
        let labels: BTreeMap<_, _> = self.node.spec.labels.iter().collect();
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
    async fn wait_for_roles(&self) -> Result<(), BootstrapError> {
        let patience = Patience::new("the API server's own roles", RIGHTS, self.cancelled);
        loop {
            match api::is_done(&self.client, "rbac/bootstrap-roles").await {
                Ok(()) => return Ok(()),
                Err(error) => patience.pause(POLL, &[one_line(&error)]).await?,
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
        let patience = Patience::new("the administrator's first permitted request", RIGHTS, self.cancelled);
        loop {
            let seen = match api::serves(&client).await {
                Ok(true) => return Ok(()),
                Ok(false) => format!("the namespace {SYSTEM} does not exist"),
                Err(error) => one_line(&error),
            };
            patience.pause(POLL, &[seen]).await?;
        }
    }
}
