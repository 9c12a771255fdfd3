//! What a control plane lacks: looked up, never remembered.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flotilla_core::cluster::{Cluster, Node};
use flotilla_core::{BootstrapError, Cmd, KubernetesState, Machine};
use k8s_openapi::api::core::v1::{ConfigMap, Node as KubeNode};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use tokio::time::sleep;

use crate::api::{self, QUICK, SYSTEM, exists, insist};
use crate::files::{KUBELET_CERTIFICATE, KUBELET_CONF, PAUSED};
use crate::patience::Cancelled;
use crate::phase::run;
use crate::{cni, corefile, credentials, minikube_labels, mirror, namespace};

mod objects;

/// A look at a cluster takes no longer, not on a busy host either. One whose API is dead is known after [`QUICK`].
const LOOK: Duration = Duration::from_secs(3);
const AGAIN: Duration = Duration::from_millis(100);

pub(crate) const CONTROL_PLANE_LABEL: &str = "node-role.kubernetes.io/control-plane";

/// Something that makes a cluster out of an API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// kubeadm's settings, for nodes that join.
    KubeadmSettings,
    /// The kubelets' settings, likewise.
    KubeletSettings,
    /// What bootstrap tokens need.
    Tokens,
    KubeProxy,
    Dns,
    /// The host's names in the cluster's DNS.
    HostNames,
    /// What a pod in the namespace default needs.
    DefaultNamespace,
    /// A pod network that is not flotilla's.
    PodNetwork,
    /// The node object's pod range, and the labels that are set with it.
    PodRange,
    /// The node's labels and the administrator's rights.
    Role,
    ControllerManager,
    Scheduler,
    /// The first control plane's etcd in the API's list, where those that join look for it.
    EtcdMirror,
    /// A kubelet.conf that names the certificate which the kubelet renews.
    Rotation,
}

/// What must be done before a cluster is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Missing(BTreeSet<Part>);

/// What was found of the objects that are looked at: those that kubeadm makes last of each phase, so that it was not cut
/// off in the middle, and those that others rely on ([`objects`]).
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is the answer to a question of its own")]
struct Found {
    kubeadm_settings: bool,
    kubelet_settings: bool,
    tokens: bool,
    kube_proxy: bool,
    dns: bool,
    administrators: bool,
    default_namespace: bool,
    pod_network: bool,
    etcd_mirror: bool,
    corefile: Option<String>,
    node: Option<KubeNode>,
}

impl Missing {
    /// Looks in the cluster and in the node, both at once. An API server that is busy or just starting is asked again.
    pub(crate) async fn look(
        client: &Client,
        cluster: &Cluster,
        node: &Node,
        machine: &dyn Machine,
        cancelled: &Cancelled,
    ) -> Result<Self, BootstrapError> {
        // On the heap: so many questions at once make a large future.
        let look = || Box::pin(Found::look(client, cluster, node));
        let (found, files) =
            tokio::join!(insist("look at the cluster", cancelled, look), missing_files(machine));
        let mut parts = found?.missing(cluster, node);
        parts.extend(files?);
        Ok(Self(parts))
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn has(&self, part: Part) -> bool {
        self.0.contains(&part)
    }

    pub(crate) fn has_any(&self, parts: &[Part]) -> bool {
        parts.iter().any(|part| self.has(*part))
    }
}

impl Found {
    async fn look(client: &Client, cluster: &Cluster, node: &Node) -> Result<Self, kube::Error> {
        let cluster_bindings = Api::<ClusterRoleBinding>::all(client.clone());
        let nodes = Api::<KubeNode>::all(client.clone());
        let name = node.spec.name.to_string();
        let (
            kubeadm_settings,
            kubelet_settings,
            tokens,
            kube_proxy,
            dns,
            administrators,
            default_namespace,
            pod_network,
            etcd_mirror,
            corefile,
            node,
        ) = tokio::try_join!(
            objects::has_kubeadm_settings(client),
            objects::has_kubelet_settings(client),
            objects::has_tokens(client),
            objects::has_kube_proxy(client),
            objects::has_dns(client),
            exists(&cluster_bindings, "kubeadm:cluster-admins"),
            namespace::can_have_pods(client),
            cni::is_installed(client, cluster),
            mirror::has_etcd(client, &name),
            corefile(client),
            nodes.get_opt(&name),
        )?;
        Ok(Self {
            kubeadm_settings,
            kubelet_settings,
            tokens,
            kube_proxy,
            dns,
            administrators,
            default_namespace,
            pod_network,
            etcd_mirror,
            corefile,
            node,
        })
    }

    fn missing(&self, cluster: &Cluster, node: &Node) -> BTreeSet<Part> {
        let corefile = self.corefile.as_deref();
        let without_names =
            corefile.is_some_and(|text| corefile::with_host_names(text, cluster.gateway()).is_some());
        let spec = self.node.as_ref().and_then(|node| node.spec.as_ref());
        let range = spec.and_then(|spec| spec.pod_cidr.as_deref());
        let labels = self.node.as_ref().and_then(|node| node.metadata.labels.as_ref());
        let has_no_labels = minikube_labels::are_missing(labels);
        let is_marked = labels.is_some_and(|labels| labels.contains_key(CONTROL_PLANE_LABEL));
        BTreeMap::from([
            (Part::KubeadmSettings, !self.kubeadm_settings),
            (Part::KubeletSettings, !self.kubelet_settings),
            (Part::Tokens, !self.tokens),
            (Part::KubeProxy, !self.kube_proxy),
            (Part::Dns, !self.dns),
            (Part::HostNames, !self.dns || without_names),
            (Part::DefaultNamespace, !self.default_namespace),
            (Part::PodNetwork, !self.pod_network),
            (Part::EtcdMirror, !self.etcd_mirror),
            (Part::PodRange, has_no_labels || range != Some(node.pod_range.to_string().as_str())),
            (Part::Role, !is_marked || !self.administrators),
        ])
        .into_iter()
        .filter_map(|(part, is_missing)| is_missing.then_some(part))
        .collect()
    }
}

/// The Corefile of the cluster's DNS, if there is one.
pub(crate) async fn corefile(client: &Client) -> Result<Option<String>, kube::Error> {
    let map = Api::<ConfigMap>::namespaced(client.clone(), SYSTEM).get_opt("coredns").await?;
    Ok(map.and_then(|map| map.data?.remove("Corefile")))
}

/// What is missing in the node itself. An empty manifest is one that was cut off: kubeadm writes it in one go.
pub(crate) async fn missing_files(machine: &dyn Machine) -> Result<Vec<Part>, BootstrapError> {
    const MANIFESTS: &str = "/etc/kubernetes/manifests";
    let script = format!(
        "[ -s {MANIFESTS}/kube-controller-manager.yaml ] || echo controller-manager
         [ -s {MANIFESTS}/kube-scheduler.yaml ] || echo scheduler
         ! [ -e {KUBELET_CERTIFICATE} ] || ! grep -q client-certificate-data {KUBELET_CONF} || echo rotation"
    );
    let output = run(machine, "inspect the cluster", Cmd::sh(script)).await?;
    Ok(output.text().lines().filter_map(part_of_a_node).collect())
}

fn part_of_a_node(word: &str) -> Option<Part> {
    match word {
        "controller-manager" => Some(Part::ControllerManager),
        "scheduler" => Some(Part::Scheduler),
        "rotation" => Some(Part::Rotation),
        _ => None,
    }
}

/// How far the control plane is, within seconds. A failure to look is a finding, too.
pub(crate) async fn observe(
    cluster: &Cluster,
    node: &Node,
    machine: &dyn Machine,
    cancelled: &Cancelled,
) -> KubernetesState {
    match machine.guest().read(PAUSED).await {
        Ok(Some(_)) => return KubernetesState::Paused,
        Ok(None) => {}
        Err(_) => return KubernetesState::Unreachable,
    }
    let Ok(Some(credentials)) = credentials::find(machine).await else { return KubernetesState::Unreachable };
    let Ok(client) = api::client(cluster, &credentials, QUICK).await else {
        return KubernetesState::Unreachable;
    };
    if !matches!(tokio::time::timeout(LOOK, serves(&client)).await, Ok(true)) {
        return KubernetesState::Unreachable;
    }
    match tokio::time::timeout(LOOK, Missing::look(&client, cluster, node, machine, cancelled)).await {
        Ok(Ok(missing)) if missing.is_nothing() => KubernetesState::Complete,
        _ => KubernetesState::Incomplete,
    }
}

/// Whether the API answers. A server that refuses because it is busy, or that loses a connection, is asked again; one that
/// nobody listens at is not, since that is what a dead one looks like.
async fn serves(client: &Client) -> bool {
    let mut lost = false;
    loop {
        match api::serves(client).await {
            Ok(serves) => return serves,
            Err(error @ kube::Error::Api(_)) if api::is_passing(&error) => sleep(AGAIN).await,
            Err(error) if api::is_passing(&error) && !lost => lost = true,
            Err(_) => return false,
        }
    }
}

/// The names of the node objects, within seconds.
pub(crate) async fn listed(cluster: &Cluster, machine: &dyn Machine) -> Option<BTreeSet<String>> {
    let credentials = credentials::find(machine).await.ok()??;
    let client = api::client(cluster, &credentials, QUICK).await.ok()?;
    let nodes = Api::<KubeNode>::all(client);
    let all = ListParams::default();
    let listed = tokio::time::timeout(LOOK, nodes.list_metadata(&all)).await.ok()?.ok()?;
    Some(listed.iter().map(ResourceExt::name_any).collect())
}

#[cfg(test)]
mod tests;
