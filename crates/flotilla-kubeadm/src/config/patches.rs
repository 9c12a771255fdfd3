//! Patches of kubeadm's files, for faster probes and for a node's own kubelet settings.
//!
//! The targets' names are kubeadm's (`cmd/kubeadm/app/util/patches`); a kubeadm that does not know one skips it.

use flotilla_core::cluster::Cluster;
use flotilla_spec::{NodeSpec, USER_NAMESPACE_GATE};
use serde_json::{Value, json};

use super::set_field;
use crate::alone;
use crate::dns;
use crate::yaml;

/// The patch files of a control plane by name, with their content.
pub(crate) fn patches(cluster: &Cluster, node: &NodeSpec) -> Vec<(String, String)> {
    let static_pods = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];
    let targets = static_pods.map(|name| (name, static_pod(name)));
    let file = |(target, patch): (&str, Value)| (format!("{target}+strategic.yaml"), yaml::document(&patch));
    let files = targets.into_iter().chain([("corednsdeployment", coredns(cluster))]).map(file);
    files.chain(alone::patches(&cluster.spec)).chain(join_patches(node)).collect()
}

/// Those of a worker: none if the node's kubelet is like all others.
pub(crate) fn join_patches(node: &NodeSpec) -> Vec<(String, String)> {
    if node.kubelet.is_empty() && node.feature_gates.is_empty() && node.isolation.is_none() {
        return Vec::new();
    }
    // As JSON: kubeadm's YAML is an older one, in which a user's text may mean something else.
    vec![("kubeletconfiguration+merge.json".to_owned(), kubelet(node).to_string())]
}

/// Merged into the settings that all kubelets share. Other feature gates are kept.
fn kubelet(node: &NodeSpec) -> Value {
    let mut settings: Value =
        node.kubelet.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect();
    let own = node.feature_gates.iter();
    // Up to 1.35 it is off by default.
    let of_namespace = (!node.isolation.is_none()).then_some((USER_NAMESPACE_GATE, true));
    for (gate, on) in own.chain(of_namespace) {
        set_field(&mut settings, &format!("featureGates.{gate}"), json!(on));
    }
    settings
}

/// kubeadm's probes of static pods start after ten seconds and run every ten seconds. They fail for as long as the slowest
/// machine may take: half an hour.
fn static_pod(name: &str) -> Value {
    let probe = json!({"initialDelaySeconds": 0, "periodSeconds": 1, "failureThreshold": 1800});
    json!({"spec": {"containers": [{"name": name, "startupProbe": probe}]}})
}

/// Probes every second instead of every ten, and one replica: kubeadm's second would run on the same node.
///
/// `CoreDNS` asks the API at its virtual IP: the address of its service leads nowhere before kube-proxy runs, and a
/// connection that was lost is retried seconds later.
fn coredns(cluster: &Cluster) -> Value {
    let env = json!([
        {"name": "KUBERNETES_SERVICE_HOST", "value": cluster.virtual_ip()},
        {"name": "KUBERNETES_SERVICE_PORT", "value": cluster.api_port().to_string()},
    ]);
    let containers = json!([{"name": "coredns", "env": env, "readinessProbe": {"periodSeconds": 1}}]);
    let mut patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    if cluster.spec.control_planes().count() == 1 {
        patch["spec"]["replicas"] = json!(dns::ALONE);
    }
    patch
}
