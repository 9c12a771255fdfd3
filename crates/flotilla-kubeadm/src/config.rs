//! The configuration of kubeadm: `/etc/flotilla/kubeadm.yaml` and the patches next to it.
//!
//! Pure. The values of a user's flags are serialised, never pasted into text.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flotilla_core::cluster::{API_NAME, Cluster, Node};
use flotilla_spec::extra::IGNORE_PREFLIGHT_ERRORS;
use flotilla_spec::{Component, ExtraOption, Role};
use serde_json::{Map, Value, json};

use crate::etcd::PEER_PORT;
use crate::files::{CRI_SOCKET, DISCOVERY, PATCHES};
use crate::yaml;

mod patches;

pub(crate) use patches::{join_patches, patches};

/// The validity of certificates: a cluster may be off for years, and nobody renews a developer's cluster in time.
/// `start` renews them before they expire.
pub(crate) const VALIDITY: &str = "87600h";
/// The same for authorities, which are never renewed.
const AUTHORITY_VALIDITY: &str = "876000h";

/// The longest of kubeadm's own limits.
const KUBEADMS: Duration = Duration::from_mins(5);

/// Facts to look up in the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// It has cgroup v1, which the kubelet refuses by default.
    pub cgroup_v1: bool,
}

/// The configuration of `kubeadm init` for a cluster's first control plane.
pub fn render(cluster: &Cluster, node: &Node, facts: Facts) -> String {
    render_with(cluster, node, facts, &[])
}

/// The same for an initial member of several: etcd starts with the full list of members. This is not stored in the
/// cluster's configuration, because it is valid only once.
pub(crate) fn render_founding(
    cluster: &Cluster,
    node: &Node,
    facts: Facts,
    initial_members: &[Node],
) -> String {
    render_with(cluster, node, facts, initial_members)
}

fn render_with(cluster: &Cluster, node: &Node, facts: Facts, initial_members: &[Node]) -> String {
    let documents = [
        init_configuration(cluster, node),
        cluster_configuration(cluster, initial_members),
        kubelet_configuration(cluster, facts),
        kube_proxy_configuration(cluster),
    ];
    documents.each_ref().map(yaml::document).join("---\n")
}

/// The configuration of `kubeadm join`.
pub(crate) fn render_join(cluster: &Cluster, node: &Node, token: &str, limit: Duration) -> String {
    let mut configuration = json!({
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "JoinConfiguration",
        "discovery": {"file": {"kubeConfigPath": DISCOVERY}, "tlsBootstrapToken": token},
        "nodeRegistration": registration(cluster, node),
        "timeouts": timeouts(limit),
    });
    let is_control_plane = node.spec.role == Role::ControlPlane;
    if is_control_plane {
        let endpoint = json!({"advertiseAddress": node.address, "bindPort": cluster.api_port()});
        configuration["controlPlane"] = json!({"localAPIEndpoint": endpoint});
    }
    // kubeadm refuses a directory that does not exist.
    if is_control_plane || !join_patches(&node.spec).is_empty() {
        configuration["patches"] = json!({"directory": PATCHES});
    }
    yaml::document(&configuration)
}

/// How long kubeadm waits for each thing. Its own limits are those of a fast machine; one that has less patience than
/// kubeadm is not shortened.
fn timeouts(limit: Duration) -> Value {
    const WAITS: [&str; 6] = [
        "controlPlaneComponentHealthCheck",
        "discovery",
        "etcdAPICall",
        "kubeletHealthCheck",
        "kubernetesAPICall",
        "tlsBootstrap",
    ];
    let seconds = limit.clamp(KUBEADMS, Duration::from_hours(24)).as_secs();
    WAITS.iter().map(|wait| ((*wait).to_owned(), json!(format!("{seconds}s")))).collect()
}

/// How a kubelet registers its node.
fn registration(cluster: &Cluster, node: &Node) -> Value {
    let mut kubelet = Arguments::new();
    kubelet.set("node-ip", node.address.to_string());
    // A kubelet cannot set labels in Kubernetes' own namespaces: the administrator sets them.
    let own: Vec<_> = node
        .spec
        .labels
        .iter()
        .filter(|(key, _)| {
            !key.split('/')
                .next()
                .is_some_and(|prefix| prefix.ends_with("kubernetes.io") || prefix.ends_with("k8s.io"))
        })
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    if !own.is_empty() {
        kubelet.set("node-labels", own.join(","));
    }
    kubelet.set_all(&cluster.spec.extra_config, Component::Kubelet);
    kubelet.set_all(&node.spec.extra_config, Component::Kubelet);
    let taints: Vec<_> = node
        .spec
        .taints
        .iter()
        .map(|taint| json!({"key": taint.key(), "value": taint.value(), "effect": taint.effect()}))
        .collect();
    json!({
        "name": node.spec.name.to_string(),
        "criSocket": CRI_SOCKET,
        // kubeadm's own images are in the bundle. What people's pods pull is none of its business.
        "imagePullPolicy": "Never",
        "kubeletExtraArgs": kubelet.into_value(),
        // None by default: control planes run people's pods too, as with minikube.
        "taints": taints,
    })
}

fn init_configuration(cluster: &Cluster, node: &Node) -> Value {
    let ignored: Vec<_> = options(&cluster.spec.extra_config, Component::Kubeadm)
        .filter(|(key, _)| *key == IGNORE_PREFLIGHT_ERRORS)
        .flat_map(|(_, value)| value.split(','))
        .collect();
    let mut registration = registration(cluster, node);
    registration["ignorePreflightErrors"] = json!(ignored);
    json!({
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "InitConfiguration",
        // An empty list would create a token that is valid for a day. This one has already expired: every join gets
        // its own token, and the controller manager removes the old ones.
        "bootstrapTokens": [{"ttl": "1s"}],
        "localAPIEndpoint": {"advertiseAddress": node.address, "bindPort": cluster.api_port()},
        "nodeRegistration": registration,
        "patches": {"directory": PATCHES},
        "timeouts": timeouts(KUBEADMS),
    })
}

fn cluster_configuration(cluster: &Cluster, initial_members: &[Node]) -> Value {
    let mut api_server = Arguments::from(&cluster.spec.extra_config, Component::ApiServer);
    let mut controller_manager = Arguments::new();
    // The default of 20 requests a second delays the first pods by seconds.
    controller_manager.set("kube-api-qps", "500");
    controller_manager.set("kube-api-burst", "1000");
    // The engine allocates the pod ranges, so that they are known before a node joins.
    controller_manager.set("allocate-node-cidrs", "false");
    // The kubelets' certificates.
    controller_manager.set("cluster-signing-duration", VALIDITY);
    controller_manager.set_all(&cluster.spec.extra_config, Component::ControllerManager);
    let mut scheduler = Arguments::from(&cluster.spec.extra_config, Component::Scheduler);
    let mut etcd = Arguments::new();
    // Members that start at the same time would each wait seven seconds for the others to compare their data, and
    // none answers before its own check is done.
    etcd.set("feature-gates", "InitialCorruptCheck=false");
    etcd.set_all(&cluster.spec.extra_config, Component::Etcd);
    if !initial_members.is_empty() {
        let peer = |node: &Node| format!("{}=https://{}:{PEER_PORT}", node.spec.name, node.address);
        etcd.set("initial-cluster", initial_members.iter().map(peer).collect::<Vec<_>>().join(","));
        etcd.set("initial-cluster-state", "new");
    }
    let gates = &cluster.spec.feature_gates;
    if !gates.is_empty() {
        for arguments in [&mut api_server, &mut controller_manager, &mut scheduler] {
            arguments.set_default("feature-gates", gates.to_string());
        }
    }
    let network = &cluster.spec.network;
    json!({
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "ClusterConfiguration",
        "clusterName": cluster.name().to_string(),
        "kubernetesVersion": cluster.spec.kubernetes_version.to_string(),
        "controlPlaneEndpoint": format!("{API_NAME}:{}", cluster.api_port()),
        "encryptionAlgorithm": "ECDSA-P256",
        "certificateValidityPeriod": VALIDITY,
        "caCertificateValidityPeriod": AUTHORITY_VALIDITY,
        "networking": {
            "podSubnet": cluster.allocations.pod_subnet,
            "serviceSubnet": network.service_subnet,
            "dnsDomain": network.dns_domain,
        },
        "apiServer": {"certSANs": names(cluster), "extraArgs": api_server.into_value()},
        "controllerManager": {"extraArgs": controller_manager.into_value()},
        "scheduler": {"extraArgs": scheduler.into_value()},
        "etcd": {"local": {"extraArgs": etcd.into_value()}},
    })
}

fn kubelet_configuration(cluster: &Cluster, facts: Facts) -> Value {
    let mut configuration = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "cgroupfs",
        "failSwapOn": false,
        "resolvConf": "/etc/resolv.conf",
        "serializeImagePulls": false,
        // The disk is shared with the host: a developer's nearly full disk must neither evict pods nor remove images.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "imagefs.available": "0%",
            "imagefs.inodesFree": "0%",
            // The kubelet's default: setting one threshold removes the defaults of all others.
            "memory.available": "100Mi",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
        },
        "featureGates": cluster.spec.feature_gates,
    });
    if facts.cgroup_v1 {
        configuration["failCgroupV1"] = json!(false);
    }
    configuration
}

fn kube_proxy_configuration(cluster: &Cluster) -> Value {
    let mut configuration = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        // The connection table's limits are the host's, and not a node's to change.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "featureGates": cluster.spec.feature_gates,
    });
    for (key, value) in options(&cluster.spec.extra_config, Component::KubeProxy) {
        set_field(&mut configuration, key, scalar(value));
    }
    configuration
}

/// Sets a field by its path, `conntrack.min`; what is in the way is replaced.
fn set_field(at: &mut Value, path: &str, value: Value) {
    let (field, rest) = path.split_once('.').map_or((path, None), |(field, rest)| (field, Some(rest)));
    if !at.is_object() {
        *at = Value::Object(Map::new());
    }
    match rest {
        Some(rest) => set_field(&mut at[field], rest, value),
        None => at[field] = value,
    }
}

/// A flag's text as the number, boolean or list that it is; anything else is a string.
fn scalar(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value @ (Value::Number(_) | Value::Bool(_) | Value::Array(_))) => value,
        _ => Value::String(text.to_owned()),
    }
}

/// Additional names in the API server's certificate.
///
/// Every control plane has the same ones, so that a client may use any of them.
fn names(cluster: &Cluster) -> BTreeSet<String> {
    let control_planes = cluster.spec.nodes.iter().filter(|node| node.role == Role::ControlPlane);
    let addresses = control_planes.filter_map(|node| Some(cluster.node(&node.name)?.address.to_string()));
    let own = [API_NAME, "localhost", "127.0.0.1"].map(str::to_owned);
    let asked = &cluster.spec.api_server;
    own.into_iter()
        .chain([cluster.virtual_ip().to_string(), cluster.api().ip().to_string()])
        .chain(addresses)
        .chain(asked.names.iter().cloned())
        .chain(asked.ips.iter().map(ToString::to_string))
        .collect()
}

/// A component's part of an `--extra-config`, in the order of the flags.
fn options(extra: &[ExtraOption], component: Component) -> impl Iterator<Item = (&str, &str)> {
    let options = extra.iter().filter(move |option| option.component() == component);
    options.map(|option| (option.key(), option.value()))
}

/// A program's flags: of two with the same name the later wins.
struct Arguments(BTreeMap<String, String>);

impl Arguments {
    fn new() -> Self {
        Self(BTreeMap::new())
    }

    fn from(extra: &[ExtraOption], component: Component) -> Self {
        let mut arguments = Self::new();
        arguments.set_all(extra, component);
        arguments
    }

    fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_owned(), value.into());
    }

    fn set_default(&mut self, name: &str, value: impl Into<String>) {
        self.0.entry(name.to_owned()).or_insert_with(|| value.into());
    }

    fn set_all(&mut self, extra: &[ExtraOption], component: Component) {
        for (name, value) in options(extra, component) {
            self.set(name, value);
        }
    }

    /// In the form of v1beta4: a list of names and values.
    fn into_value(self) -> Value {
        self.0.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
    }
}

#[cfg(test)]
mod tests;
