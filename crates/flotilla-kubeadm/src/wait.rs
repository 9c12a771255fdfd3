//! Waiting for what `--wait` names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use flotilla_engine::cluster::Cluster;
use flotilla_engine::port::{BootstrapError, Cmd, Condition, Machine};
use flotilla_spec::WantedPower;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod, ServiceAccount};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::api::{self, PATIENT, SYSTEM, exists};
use crate::credentials;
use crate::drain;
use crate::patience::{Cancelled, Patience};

const POLL: Duration = Duration::from_millis(100);

/// What the API server marks every new node with, until the controller manager has seen that it is Ready.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Labels of the pods that a system is not complete without, as minikube has them.
const SYSTEM_PODS: [(&str, &str); 6] = [
    ("component", "kube-apiserver"),
    ("component", "kube-controller-manager"),
    ("component", "kube-scheduler"),
    ("k8s-app", "kube-proxy"),
    ("k8s-app", "kube-dns"),
    ("component", "etcd"),
];

/// Waits until each condition has held once.
pub(crate) async fn wait(
    cluster: &Cluster,
    primary: &dyn Machine,
    machines: &[Arc<dyn Machine>],
    conditions: &BTreeSet<Condition>,
    limit: Duration,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let client = api::client(cluster, &credentials::require(primary).await?, PATIENT).await?;
    let names: Vec<_> = conditions.iter().map(|condition| condition.name()).collect();
    let patience = Patience::new(format!("what was waited for ({})", names.join(", ")), limit, cancelled);
    let booted = boot_times(machines).await;
    let mut seen = Vec::new();
    for condition in conditions {
        loop {
            seen.clear();
            match problems(*condition, &client, cluster, machines, &booted).await {
                Ok(problems) if problems.is_empty() => break,
                Ok(problems) => seen.extend(problems),
                Err(error) => seen.push(api::in_one_line(&error)),
            }
            patience.pause(POLL, &seen).await?;
        }
    }
    Ok(())
}

/// What keeps a condition from holding, a line each.
async fn problems(
    condition: Condition,
    client: &Client,
    cluster: &Cluster,
    machines: &[Arc<dyn Machine>],
    booted: &BTreeMap<String, i64>,
) -> Result<Vec<String>, kube::Error> {
    let everything = ListParams::default();
    match condition {
        Condition::ApiServer => api_server_problems(client).await,
        Condition::NodeReady => nodes_problems(client, cluster, booted).await,
        Condition::DefaultServiceAccount => {
            let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "default");
            let missing = !exists(&accounts, "default").await?;
            Ok(missing.then(|| "there is no default service account".to_owned()).into_iter().collect())
        }
        Condition::SystemPods => {
            let pods = Api::<Pod>::namespaced(client.clone(), SYSTEM).list(&everything).await?.items;
            Ok(pod_problems(&pods))
        }
        Condition::AppsRunning => {
            let deployments = Api::<Deployment>::namespaced(client.clone(), SYSTEM).list(&everything).await?;
            Ok(deployments.items.iter().filter_map(deployment_problem).collect())
        }
        Condition::Kubelet => {
            let mut problems = Vec::new();
            for machine in machines {
                let active = machine.exec().run(Cmd::new(["systemctl", "is-active", "kubelet"])).await;
                problems.extend(active.err().map(|error| error.to_string()));
            }
            Ok(problems)
        }
    }
}

/// What keeps the nodes that are to run from being Ready. Those that are get their pods at once.
async fn nodes_problems(
    client: &Client,
    cluster: &Cluster,
    booted: &BTreeMap<String, i64>,
) -> Result<Vec<String>, kube::Error> {
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await?.items;
    let mut problems = Vec::new();
    for wanted in cluster.spec.nodes.iter().filter(|node| node.power == WantedPower::Running) {
        let name = wanted.name.as_ref();
        let problem = node_problem(name, booted.get(name).copied(), &nodes);
        if let Some(node) = nodes.iter().find(|node| node.name_any() == name) {
            // A drain that was killed has left it closed.
            if drain::was_drained(node) {
                drain::open(client, node).await?;
            } else if problem.is_none() && is_marked(node) {
                unmark(client, node).await?;
            }
        }
        problems.extend(problem);
    }
    Ok(problems)
}

/// When each machine was turned on, in seconds. What a node said of itself before that is of an earlier life.
async fn boot_times(machines: &[Arc<dyn Machine>]) -> BTreeMap<String, i64> {
    let look = |machine: &Arc<dyn Machine>| {
        let machine = Arc::clone(machine);
        async move {
            let made_at_boot = Cmd::new(["stat", "-c", "%Y", "/run/flotilla/init.sock"]);
            let time = machine.exec().run(made_at_boot).await.ok()?.text().parse().ok()?;
            Some((machine.name().to_string(), time))
        }
    };
    futures::future::join_all(machines.iter().map(look)).await.into_iter().flatten().collect()
}

async fn api_server_problems(client: &Client) -> Result<Vec<String>, kube::Error> {
    let request = http::Request::get("/readyz").body(Vec::new()).expect("a path alone is a request");
    let answer = client.request_text(request).await?;
    Ok(if answer == "ok" { Vec::new() } else { answer.lines().map(str::to_owned).collect() })
}

/// Whether pods are kept off a node because it was not Ready when it registered.
fn is_marked(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.into_iter().any(|taint| taint.key == NOT_READY)
}

/// Lets pods come to a node that is Ready, as the controller manager does a few seconds later.
async fn unmark(client: &Client, node: &Node) -> Result<(), kube::Error> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let others: Vec<_> = taints.filter(|taint| taint.key != NOT_READY).collect();
    // Of this very version: what another has changed meanwhile is not undone.
    let patch = Patch::Merge(json!({
        "metadata": {"resourceVersion": node.resource_version()},
        "spec": {"taints": others},
    }));
    let nodes = Api::<Node>::all(client.clone());
    nodes.patch(&node.name_any(), &PatchParams::default(), &patch).await.map(drop)
}

/// `since` is when the node was turned on, if that is known.
fn node_problem(name: &str, since: Option<i64>, nodes: &[Node]) -> Option<String> {
    let Some(node) = nodes.iter().find(|node| node.name_any() == name) else {
        return Some(format!("node {name} is not registered"));
    };
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is_old = |ready: &NodeCondition| {
        let heartbeat = ready.last_heartbeat_time.as_ref().map(|time| time.0.as_second());
        since.is_some_and(|since| heartbeat.is_none_or(|heartbeat| heartbeat < since))
    };
    match conditions.find(|condition| condition.type_ == "Ready") {
        Some(ready) if is_old(ready) => Some(format!("node {name} has not reported since it was turned on")),
        Some(ready) if ready.status == "True" => None,
        Some(ready) => Some(format!(
            "node {name} is not Ready: {}",
            ready.message.as_deref().unwrap_or("no reason given")
        )),
        None => Some(format!("node {name} has not reported yet")),
    }
}

/// The pods that are not Ready, and those of the system's that are not even there. Pods that have ended, well or
/// badly, are history: they are never Ready again.
fn pod_problems(pods: &[Pod]) -> Vec<String> {
    let pods: Vec<_> = pods.iter().filter(|pod| !matches!(phase(pod), "Succeeded" | "Failed")).collect();
    let absent = SYSTEM_PODS.iter().filter(|(label, value)| {
        !pods.iter().any(|pod| pod.labels().get(*label).is_some_and(|found| found == value))
    });
    let absent = absent.map(|(label, value)| format!("there is no pod with {label}={value}"));
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

fn deployment_problem(deployment: &Deployment) -> Option<String> {
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let status = deployment.status.as_ref();
    let available = status.and_then(|status| status.available_replicas).unwrap_or(0);
    let updated = status.and_then(|status| status.updated_replicas).unwrap_or(0);
    let is_current = status.and_then(|status| status.observed_generation) >= deployment.metadata.generation;
    let is_rolled_out = is_current && available >= wanted && updated >= wanted;
    (!is_rolled_out)
        .then(|| format!("deployment {}: {available} of {wanted} available", deployment.name_any()))
}

#[cfg(test)]
mod tests;
