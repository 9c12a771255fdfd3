//! Pods and deployments of the system.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::follow::Objects;

/// Labels of the pods that a system is not complete without, as minikube has them.
pub(super) const SYSTEM_PODS: [(&str, &str); 6] = [
    ("component", "kube-apiserver"),
    ("component", "kube-controller-manager"),
    ("component", "kube-scheduler"),
    ("k8s-app", "kube-proxy"),
    ("k8s-app", "kube-dns"),
    ("component", "etcd"),
];

/// The pods that are not Ready, and those of the system's that are not even there. Pods that have ended, well or
/// badly, are history: they are never Ready again.
pub(super) fn pod_problems(pods: &Objects<Pod>) -> Vec<String> {
    let pods: Vec<_> = pods.values().filter(|pod| !matches!(phase(pod), "Succeeded" | "Failed")).collect();
    let absent = SYSTEM_PODS.iter().filter(|(label, value)| {
        !pods.iter().any(|pod| pod.labels().get(*label).is_some_and(|found| found == value))
    });
    let absent = absent.map(|(label, value)| format!("no pod has the label {label}={value}"));
    absent.chain(pods.iter().filter_map(|pod| pod_problem(pod))).collect()
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Unknown")
}

fn pod_problem(pod: &Pod) -> Option<String> {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is_ready = conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True");
    (!is_ready).then(|| format!("pod {} is {}, not Ready", pod.name_any(), phase(pod)))
}

pub(super) fn deployment_problems(deployments: &Objects<Deployment>) -> Vec<String> {
    deployments.values().filter_map(deployment_problem).collect()
}

pub(super) fn deployment_problem(deployment: &Deployment) -> Option<String> {
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let status = deployment.status.as_ref();
    let available = status.and_then(|status| status.available_replicas).unwrap_or(0);
    let updated = status.and_then(|status| status.updated_replicas).unwrap_or(0);
    let is_current = status.and_then(|status| status.observed_generation) >= deployment.metadata.generation;
    let is_rolled_out = is_current && available >= wanted && updated >= wanted;
    (!is_rolled_out)
        .then(|| format!("deployment {}: {available} of {wanted} available", deployment.name_any()))
}
