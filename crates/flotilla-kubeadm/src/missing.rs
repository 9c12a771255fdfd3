//! What a control plane lacks: looked up, never remembered.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flotilla_engine::cluster::{Cluster, Node};
use flotilla_engine::port::{BootstrapError, Cmd, KubernetesState, Machine};
use k8s_openapi::api::core::v1::{ConfigMap, Node as KubeNode, Service};
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use crate::api::{self, QUICK, SYSTEM, cannot, exists};
use crate::files::{KUBELET_CERTIFICATE, KUBELET_CONF, PAUSED};
use crate::phase::run;
use crate::{cni, corefile, credentials, mirror, namespace};

/// A look at a cluster takes no longer, not on a busy host either. One whose API is dead is known after [`QUICK`].
const LOOK: Duration = Duration::from_secs(3);

pub(crate) const CONTROL_PLANE_LABEL: &str = "node-role.kubernetes.io/control-plane";

/// Something that makes a cluster out of an API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// kubeadm's and the kubelets' settings, for nodes that join.
    Settings,
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
    /// The node object's pod range.
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

/// What was found of the objects that are looked at.
///
/// Of each phase it is the object that kubeadm makes last: if it is there, the phase was not cut off in the middle.
/// What a person has since deleted on purpose, say the kube-proxy, is not looked at and stays deleted.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is the answer to a question of its own")]
struct Found {
    settings: bool,
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
    /// Looks in the cluster and in the node, both at once.
    pub(crate) async fn look(
        client: &Client,
        cluster: &Cluster,
        node: &Node,
        machine: &dyn Machine,
    ) -> Result<Self, BootstrapError> {
        // On the heap: so many questions at once make a large future.
        let (found, files) =
            tokio::join!(Box::pin(Found::look(client, cluster, node)), missing_files(machine));
        let mut parts = found.map_err(cannot("look at the cluster"))?.missing(cluster, node);
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
        let bindings = |namespace| Api::<RoleBinding>::namespaced(client.clone(), namespace);
        let (system, public) = (bindings(SYSTEM), bindings("kube-public"));
        let services = Api::<Service>::namespaced(client.clone(), SYSTEM);
        let cluster_bindings = Api::<ClusterRoleBinding>::all(client.clone());
        let nodes = Api::<KubeNode>::all(client.clone());
        let name = node.spec.name.to_string();
        let (
            settings,
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
            exists(&system, "kubeadm:kubelet-config"),
            exists(&public, "kubeadm:bootstrap-signer-clusterinfo"),
            exists(&system, "kube-proxy"),
            exists(&services, "kube-dns"),
            exists(&cluster_bindings, "kubeadm:cluster-admins"),
            namespace::can_have_pods(client),
            cni::is_installed(client, cluster),
            mirror::has_etcd(client, &name),
            corefile(client),
            nodes.get_opt(&name),
        )?;
        Ok(Self {
            settings,
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
        let is_marked = labels.is_some_and(|labels| labels.contains_key(CONTROL_PLANE_LABEL));
        BTreeMap::from([
            (Part::Settings, !self.settings),
            (Part::Tokens, !self.tokens),
            (Part::KubeProxy, !self.kube_proxy),
            (Part::Dns, !self.dns),
            (Part::HostNames, !self.dns || without_names),
            (Part::DefaultNamespace, !self.default_namespace),
            (Part::PodNetwork, !self.pod_network),
            (Part::EtcdMirror, !self.etcd_mirror),
            (Part::PodRange, range != Some(node.pod_range.to_string().as_str())),
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
    let output = run(machine, "look for what is missing", Cmd::sh(script)).await?;
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
pub(crate) async fn observe(cluster: &Cluster, node: &Node, machine: &dyn Machine) -> KubernetesState {
    match machine.exec().get(PAUSED).await {
        Ok(Some(_)) => return KubernetesState::Paused,
        Ok(None) => {}
        Err(_) => return KubernetesState::Silent,
    }
    let Ok(Some(credentials)) = credentials::find(machine).await else { return KubernetesState::Silent };
    let Ok(client) = api::client(cluster, &credentials, QUICK).await else { return KubernetesState::Silent };
    if !matches!(tokio::time::timeout(LOOK, api::serves(&client)).await, Ok(Ok(true))) {
        return KubernetesState::Silent;
    }
    match tokio::time::timeout(LOOK, Missing::look(&client, cluster, node, machine)).await {
        Ok(Ok(missing)) if missing.is_nothing() => KubernetesState::Complete,
        _ => KubernetesState::Partial,
    }
}

/// The names of the node objects, within a second.
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
