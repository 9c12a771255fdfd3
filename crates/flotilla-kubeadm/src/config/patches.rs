//! Patches to what kubeadm writes, so that a start does not wait for the next round of a probe.
//!
//! The targets' names are kubeadm's (`cmd/kubeadm/app/util/patches`); a kubeadm that does not know one skips it.

use serde_json::{Value, json};

use crate::yaml;

/// The patch files by name, with their content.
pub(crate) fn patches() -> Vec<(String, String)> {
    let static_pods = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];
    let targets = static_pods.map(|name| (name, static_pod(name)));
    let file = |(target, patch): (&str, Value)| (format!("{target}+strategic.yaml"), yaml::document(&patch));
    targets.into_iter().chain([("corednsdeployment", coredns())]).map(file).collect()
}

/// kubeadm lets ten seconds pass before the first look at a static pod, and looks every ten seconds.
fn static_pod(name: &str) -> Value {
    let probe = json!({"initialDelaySeconds": 0, "periodSeconds": 1, "failureThreshold": 240});
    json!({"spec": {"containers": [{"name": name, "startupProbe": probe}]}})
}

/// A look every second instead of every ten, and one replica: kubeadm's second would share the first one's node.
fn coredns() -> Value {
    let containers = json!([{"name": "coredns", "readinessProbe": {"periodSeconds": 1}}]);
    json!({"spec": {"replicas": 1, "template": {"spec": {"containers": containers}}}})
}
