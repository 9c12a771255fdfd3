//! Drains a node: evicts its pods and respects disruption budgets.

use flotilla_core::cluster::Cluster;
use flotilla_core::explain::one_line;
use flotilla_core::{BootstrapError, Drain, Machine};
use k8s_openapi::api::core::v1::{Node as KubeNode, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use std::time::Duration;

use crate::api::{self, PATIENT, cannot, insist};
use crate::credentials;
use crate::patience::{Cancelled, Patience};
use crate::stopped;

/// Interval between attempts: a budget may change, and a pod needs time to terminate.
const POLL: Duration = Duration::from_millis(300);

/// Annotation of nodes that we cordoned, as opposed to nodes that a user cordoned.
const MARK: &str = "flotilla.dev/drained";

/// Cordons the node and waits until its pods are gone. A node without a Node object is empty.
pub(crate) async fn drain(
    cluster: &Cluster,
    name: &str,
    primary: &dyn Machine,
    how: Drain,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let client = api::client(cluster, &credentials::require(primary).await?, PATIENT).await?;
    drain_by(&client, name, how, cancelled).await
}

/// The reason why a pod stays is reported only at the end: it may be temporary, and with `force` it does not matter.
async fn drain_by(
    client: &Client,
    name: &str,
    how: Drain,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let node = insist(format!("cordon node {name}"), cancelled, || cordon(client, name)).await?;
    let Some(node) = node else { return Ok(()) };
    if stopped::is_stopped(&node) {
        // The kubelet that terminates them is off.
        return delete_all(client, name, cancelled).await;
    }
    let patience = Patience::within(format!("the draining of node {name}"), how.limit, cancelled);
    loop {
        let seen = match evict_all(client, name).await {
            Ok(seen) if seen.is_empty() => return Ok(()),
            Ok(seen) => seen,
            Err(error) if api::is_passing(&error) => vec![one_line(&error)],
            Err(error) => return Err(cannot(format!("evict the pods of node {name}"))(error)),
        };
        match patience.pause_for(POLL, &seen).await {
            Err(BootstrapError::TimedOut { .. }) if how.force => {
                return delete_all(client, name, cancelled).await;
            }
            Err(BootstrapError::TimedOut { limit, seen, .. }) => {
                return Err(BootstrapError::Undrained { node: name.to_owned(), limit, seen });
            }
            result => result?,
        }
    }
}

/// Returns the node, if it exists. A node that a user has cordoned gets no annotation, so that it is not uncordoned
/// later.
async fn cordon(client: &Client, name: &str) -> Result<Option<KubeNode>, kube::Error> {
    let nodes = Api::<KubeNode>::all(client.clone());
    let Some(node) = nodes.get_opt(name).await? else { return Ok(None) };
    if is_closed(&node) {
        return Ok(Some(node));
    }
    let patch =
        Patch::Merge(json!({"metadata": {"annotations": {MARK: ""}}, "spec": {"unschedulable": true}}));
    match nodes.patch(name, &PatchParams::default(), &patch).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        patched => patched.map(Some),
    }
}

fn is_closed(node: &KubeNode) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

/// Uncordons a node that we have cordoned.
pub(crate) async fn uncordon_node(
    cluster: &Cluster,
    name: &str,
    primary: &dyn Machine,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let client = api::client(cluster, &credentials::require(primary).await?, PATIENT).await?;
    uncordon(&client, name, cancelled).await
}

/// The same with an existing client.
pub(crate) async fn uncordon(
    client: &Client,
    name: &str,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    insist(format!("uncordon node {name}"), cancelled, || async {
        match Api::<KubeNode>::all(client.clone()).get_opt(name).await?.filter(was_drained) {
            Some(node) => open(client, &node).await.map(drop),
            None => Ok(()),
        }
    })
    .await
}

/// Whether we cordoned the node.
pub(crate) fn was_drained(node: &KubeNode) -> bool {
    node.annotations().contains_key(MARK)
}

pub(crate) async fn open(client: &Client, node: &KubeNode) -> Result<KubeNode, kube::Error> {
    let annotations = json!({"annotations": {MARK: null}});
    let patch = Patch::Merge(json!({"metadata": annotations, "spec": {"unschedulable": null}}));
    let nodes = Api::<KubeNode>::all(client.clone());
    nodes.patch(&node.name_any(), &PatchParams::default(), &patch).await
}

/// Deletes the pods of a removed node: otherwise the cluster lists them for another minute and sends requests to
/// them.
pub(crate) async fn forget_pods(
    client: &Client,
    node: &str,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let pods = insist(format!("list the pods of node {node}"), cancelled, || pods_on(client, node)).await?;
    delete(client, &pods, cancelled).await
}

/// The pods to evict: not those that have terminated, nor those of `DaemonSets` and static pods.
async fn pods_of(client: &Client, node: &str) -> Result<Vec<Pod>, kube::Error> {
    let mut pods = pods_on(client, node).await?;
    pods.retain(has_to_go);
    Ok(pods)
}

async fn pods_on(client: &Client, node: &str) -> Result<Vec<Pod>, kube::Error> {
    let here = ListParams::default().fields(&format!("spec.nodeName={node}"));
    Ok(Api::<Pod>::all(client.clone()).list(&here).await?.items)
}

fn has_to_go(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let is_mirror = pod.annotations().contains_key("kubernetes.io/config.mirror");
    let of_daemon_set = pod.owner_references().iter().any(|owner| owner.kind == "DaemonSet");
    !matches!(phase, Some("Succeeded" | "Failed")) && !is_mirror && !of_daemon_set
}

/// Requests the eviction of all these pods, and returns the result for each. Stops at the first connection error.
async fn evict_all(client: &Client, node: &str) -> Result<Vec<String>, kube::Error> {
    let mut seen = Vec::new();
    for pod in pods_of(client, node).await? {
        seen.push(evict(client, &pod).await?);
    }
    Ok(seen)
}

async fn evict(client: &Client, pod: &Pod) -> Result<String, kube::Error> {
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    if pod.metadata.deletion_timestamp.is_some() {
        return Ok(format!("pod {namespace}/{name} is ending"));
    }
    // Not by the client's own `evict`, which writes the options under a name that the API server does not know.
    let eviction = json!({"metadata": {"name": name}, "deleteOptions": this_very(pod)});
    let pods = Api::<Pod>::namespaced(client.clone(), &namespace);
    let asked: Result<Value, _> =
        pods.create_subresource("eviction", &name, &PostParams::default(), &eviction).await;
    match asked {
        Ok(_) => Ok(format!("pod {namespace}/{name} is ending")),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(format!("pod {namespace}/{name} is gone")),
        Err(kube::Error::Api(status)) if status.code == 409 => {
            Ok(format!("pod {namespace}/{name} was replaced"))
        }
        // A disruption budget refuses with "too many requests". Two budgets for one pod are a server error.
        Err(kube::Error::Api(status)) => Ok(format!("pod {namespace}/{name} stays: {}", status.message)),
        Err(error) => Err(error),
    }
}

/// Deletes these pods, ignoring disruption budgets.
async fn delete_all(client: &Client, node: &str, cancelled: &Cancelled) -> Result<(), BootstrapError> {
    let pods = insist(format!("list the pods of node {node}"), cancelled, || pods_of(client, node)).await?;
    delete(client, &pods, cancelled).await
}

async fn delete(client: &Client, pods: &[Pod], cancelled: &Cancelled) -> Result<(), BootstrapError> {
    for pod in pods {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let (api, at_once) =
            (Api::<Pod>::namespaced(client.clone(), &namespace), this_very(pod).grace_period(0));
        insist(format!("delete pod {namespace}/{name}"), cancelled, || async {
            match api::delete(&api, &name, &at_once).await {
                // It was replaced.
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
                deleted => deleted,
            }
        })
        .await?;
    }
    Ok(())
}

/// That of a stateful set has its name again at once, in another node.
fn this_very(pod: &Pod) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions { uid: pod.uid(), resource_version: None })
}

#[cfg(test)]
mod tests;
