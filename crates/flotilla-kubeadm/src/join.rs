//! Joins a worker with the real `kubeadm join` and a token for this join only.

use std::time::Duration;

use flotilla_core::cluster::{API_NAME, Cluster, Node};
use flotilla_core::event::Outcome;
use flotilla_core::explain::one_line;
use flotilla_core::{BootstrapError, Cmd, Machine, Membership};
use flotilla_spec::Role;
use k8s_openapi::api::core::v1::{Node as KubeNode, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::sync::Mutex;

use crate::alone;
use crate::api::{self, PATIENT, SYSTEM, exists, insist};
use crate::config;
use crate::control_plane::{self, Joining};
use crate::credentials::{self, Credentials};
use crate::dns;
use crate::drain;
use crate::etcd;
use crate::files::{CONFIG, DISCOVERY, KUBELET_CONF};
use crate::found;
use crate::kubelet::{self, CrashWatch};
use crate::membership;
use crate::minikube_labels;
use crate::mirror;
use crate::patience::{Cancelled, Patience, Work};
use crate::phase::{self, in_node, run};
use crate::serving;
use crate::token::{JOINS, Token};
use crate::update_labels;
use crate::yaml;

/// Leftovers of a join that was killed before the kubelet had its own credentials.
const CLEAR: &str = "systemctl stop kubelet; rm -f /etc/kubernetes/bootstrap-kubelet.conf";

/// Joins the machine. If its kubelet already has credentials, the join is only finished; if its Node object was
/// deleted, it registers again.
pub(crate) async fn join(
    cluster: &Cluster,
    node: &Node,
    machine: &dyn Machine,
    primary: &dyn Machine,
    membership: &Mutex<()>,
    cancelled: &Cancelled,
) -> Result<Outcome, BootstrapError> {
    let credentials = credentials::require(primary).await?;
    let client = api::client(cluster, &credentials, PATIENT).await?;
    // The other control planes may have removed it while it was off.
    let is_listed = node.spec.role == Role::Worker || etcd::has_member(primary, node, cancelled).await?;
    if is_listed && membership::has_joined(machine).await? {
        if insist("look for the node", cancelled, || is_registered(&client, node)).await? {
            drain::uncordon(&client, node.spec.name.as_ref(), cancelled).await?;
            minikube_labels::ensure(&client, cluster, node, cancelled).await?;
            return Ok(Outcome::Kept);
        }
        register_again(&client, cluster, node, machine, cancelled).await?;
        return Ok(Outcome::Done);
    }
    let is_founder = is_listed && found::is_founder(machine).await?;
    match node.spec.role {
        Role::ControlPlane if is_founder => {}
        Role::Worker => join_worker(cluster, node, machine, &client, &credentials, cancelled).await?,
        Role::ControlPlane => {
            forget_predecessor(&client, node, cancelled).await?;
            {
                let _membership = membership.lock().await;
                alone::end(cluster, primary, cancelled).await?;
            }
            let (client, credentials, via) = (&client, &credentials, primary);
            let joining = Joining { cluster, node, machine, via, client, credentials, membership, cancelled };
            control_plane::join(&joining).await?;
        }
    }
    finish(&client, cluster, node, machine, cancelled).await?;
    match node.spec.role {
        Role::ControlPlane if is_founder => found::finish(&client, node, machine, cancelled).await?,
        Role::ControlPlane => dns::ensure_several(&client, cancelled).await?,
        Role::Worker => {}
    }
    Token::forget(&client, node, cancelled).await?;
    membership::set(machine, Membership::Member).await?;
    found::end(machine).await?;
    Ok(Outcome::Done)
}

async fn join_worker(
    cluster: &Cluster,
    node: &Node,
    machine: &dyn Machine,
    client: &Client,
    credentials: &Credentials,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let has_credentials =
        machine.guest().read(KUBELET_CONF).await.map_err(in_node("look for a kubelet", machine))?;
    if has_credentials.is_some() {
        // A join that was given up has stopped the kubelet.
        return kubelet::start(machine).await;
    }
    run(machine, "remove an unfinished join", Cmd::sh(CLEAR)).await?;
    // Without credentials this machine has not registered. An existing Node object belongs to a node that was deleted
    // while the API did not answer: kubeadm refuses the name of a Ready node, and a pod range cannot change.
    forget_by(client, node.spec.name.as_ref(), cancelled).await?;
    let token = Token::create(client, node, cancelled).await?;
    let joined = kubeadm_join(cluster, node, machine, credentials, &token, cancelled.limit()).await;
    // Also after a failure. If this fails, the token expires by itself.
    let removed = token.remove(client, cancelled).await;
    joined.and(removed)
}

/// The same for a control plane. The Node object of a stopped one is kept: it has the same pod range.
async fn forget_predecessor(
    client: &Client,
    node: &Node,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let (nodes, name) = (Api::<KubeNode>::all(client.clone()), node.spec.name.as_ref());
    let found = insist("look for the node", cancelled, || nodes.get_opt(name)).await?;
    match found.and_then(|found| found.spec?.pod_cidr) {
        Some(range) if range != node.pod_range.to_string() => forget_by(client, name, cancelled).await,
        _ => Ok(()),
    }
}

async fn is_registered(client: &Client, node: &Node) -> Result<bool, kube::Error> {
    exists(&Api::<KubeNode>::all(client.clone()), node.spec.name.as_ref()).await
}

/// Registers a node again whose Node object was deleted.
async fn register_again(
    client: &Client,
    cluster: &Cluster,
    node: &Node,
    machine: &dyn Machine,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    kubelet::restart(machine).await?;
    finish(client, cluster, node, machine, cancelled).await?;
    // The kubelet only sets the taints of its join.
    update_labels::change_node(client, &node.spec, &node.spec, cancelled).await?;
    if node.spec.role == Role::ControlPlane {
        phase::mark_control_plane(machine).await?;
        mirror::ensure_etcd(client, node.spec.name.as_ref(), cancelled).await?;
    }
    Ok(())
}

async fn kubeadm_join(
    cluster: &Cluster,
    node: &Node,
    machine: &dyn Machine,
    credentials: &Credentials,
    token: &Token,
    limit: Duration,
) -> Result<(), BootstrapError> {
    serving::ensure(cluster, node, machine).await?;
    put_discovery(cluster, machine, credentials).await?;
    let configuration = config::render_join(cluster, node, &token.text(), limit);
    phase::put_configuration(machine, CONFIG, &configuration, &config::join_patches(&node.spec)).await?;
    phase::join(machine, limit).await
}

/// Writes the discovery file: API address and certificate authority.
pub(crate) async fn put_discovery(
    cluster: &Cluster,
    machine: &dyn Machine,
    credentials: &Credentials,
) -> Result<(), BootstrapError> {
    // With the authority in a file no trust on first use is needed.
    let discovery = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "", "cluster": {
            "server": format!("https://{API_NAME}:{}", cluster.api_port()),
            "certificate-authority-data": credentials.authority,
        }}],
    });
    let put = machine.guest().write(DISCOVERY, 0o600, yaml::document(&discovery).as_bytes()).await;
    put.map_err(in_node("write the discovery file", machine))
}

/// Sets fields of the Node object that only an administrator may set: pod range, role, labels in Kubernetes' own
/// namespaces.
async fn finish(
    client: &Client,
    cluster: &Cluster,
    node: &Node,
    machine: &dyn Machine,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let name = node.spec.name.to_string();
    let nodes = Api::<KubeNode>::all(client.clone());
    let patience = Patience::new(format!("the registration of node {name}"), cancelled);
    let (work, mut deaths) = (Work::of(machine), CrashWatch::from_now(machine).await?);
    loop {
        let seen = match is_registered(client, node).await {
            Ok(true) => break,
            Ok(false) => format!("the kubelet has not registered node {name}"),
            Err(error) => one_line(&error),
        };
        patience.pause_while_busy(&work, &[seen]).await?;
        deaths.check().await?;
    }
    let range = node.pod_range;
    let mut labels = minikube_labels::all(cluster, node);
    // kubeadm sets only the role of control planes.
    if node.spec.role == Role::Worker {
        labels.entry("node-role.kubernetes.io/worker".to_owned()).or_default();
    }
    let patch = Patch::Merge(json!({
        "metadata": {"labels": labels},
        "spec": {"podCIDR": range, "podCIDRs": [range]},
    }));
    let (action, how) =
        (format!("set the labels and the pod range {range} of node {name}"), PatchParams::default());
    insist(action, cancelled, || nodes.patch(&name, &how, &patch)).await.map(drop)
}

/// Deletes the Node object.
pub(crate) async fn remove_from_api(
    cluster: &Cluster,
    name: &str,
    primary: &dyn Machine,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let client = api::client(cluster, &credentials::require(primary).await?, PATIENT).await?;
    forget_by(&client, name, cancelled).await
}

/// The same with an existing client.
pub(crate) async fn forget_by(
    client: &Client,
    name: &str,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let (nodes, how) = (Api::<KubeNode>::all(client.clone()), DeleteParams::default());
    insist(format!("delete the Node object {name}"), cancelled, || api::delete(&nodes, name, &how)).await?;
    drain::forget_pods(client, name, cancelled).await
}

impl Token {
    /// Creates a token for one join.
    pub(crate) async fn create(
        client: &Client,
        node: &Node,
        cancelled: &Cancelled,
    ) -> Result<Self, BootstrapError> {
        let token = Self::random(node.spec.name.as_ref(), cancelled.limit()).map_err(|source| {
            BootstrapError::Api { action: "create a token".into(), source: source.into() }
        })?;
        let secrets = Api::<Secret>::namespaced(client.clone(), SYSTEM);
        insist("create a token", cancelled, || api::create(&secrets, token.secret())).await?;
        Ok(token)
    }

    pub(crate) async fn remove(&self, client: &Client, cancelled: &Cancelled) -> Result<(), BootstrapError> {
        let secrets = Api::<Secret>::namespaced(client.clone(), SYSTEM);
        let (name, how) = (self.secret_name(), DeleteParams::default());
        insist("delete a token", cancelled, || api::delete(&secrets, &name, &how)).await
    }

    /// Deletes tokens that killed joins of a node have left, before they expire.
    async fn forget(client: &Client, node: &Node, cancelled: &Cancelled) -> Result<(), BootstrapError> {
        let secrets = Api::<Secret>::namespaced(client.clone(), SYSTEM);
        let of_node = ListParams::default().labels(&format!("{JOINS}={}", node.spec.name));
        let left = insist("look for tokens", cancelled, || secrets.list(&of_node)).await?;
        let how = DeleteParams::default();
        for name in left.iter().map(ResourceExt::name_any) {
            insist("delete a token", cancelled, || api::delete(&secrets, &name, &how)).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
