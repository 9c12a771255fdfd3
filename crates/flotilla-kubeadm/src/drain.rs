//! Emptying a node: its pods are evicted, so that disruption budgets are respected.

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

/// A budget may change, and a pod takes its time to end.
const POLL: Duration = Duration::from_millis(300);

/// Tells a node that was emptied by us, to be stopped, from one that a user has cordoned.
const MARK: &str = "flotilla.dev/drained";

/// Lets no new pods come and waits until the old ones are gone. A node that the API does not know is empty.
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

/// What keeps a pod is reported in the end, whatever it was: it may pass, and with `force` does not count any more.
async fn drain_by(
    client: &Client,
    name: &str,
    how: Drain,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let node = insist(format!("cordon node {name}"), cancelled, || cordon(client, name)).await?;
    let Some(node) = node else { return Ok(()) };
    if stopped::is_stopped(&node) {
        // There is nobody who would end them.
        return delete_all(client, name, cancelled).await;
    }
    let patience = Patience::new(format!("the draining of node {name}"), how.limit, cancelled);
    loop {
        let seen = match evict_all(client, name).await {
            Ok(seen) if seen.is_empty() => return Ok(()),
            Ok(seen) => seen,
            Err(error) if api::is_passing(&error) => vec![one_line(&error)],
            Err(error) => return Err(cannot(format!("evict the pods of node {name}"))(error)),
        };
        match patience.pause(POLL, &seen).await {
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

/// Gives the node, if there is such a one. One that a user has closed is not ours to open later: it gets no mark.
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

/// Lets new pods come again to a node that we have emptied, or have tried to empty.
pub(crate) async fn uncordon_node(
    cluster: &Cluster,
    name: &str,
    primary: &dyn Machine,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let client = api::client(cluster, &credentials::require(primary).await?, PATIENT).await?;
    uncordon(&client, name, cancelled).await
}

/// The same for whoever has a client already.
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

/// Whether a node was closed by us.
pub(crate) fn was_drained(node: &KubeNode) -> bool {
    node.annotations().contains_key(MARK)
}

pub(crate) async fn open(client: &Client, node: &KubeNode) -> Result<KubeNode, kube::Error> {
    let annotations = json!({"annotations": {MARK: null}});
    let patch = Patch::Merge(json!({"metadata": annotations, "spec": {"unschedulable": null}}));
    let nodes = Api::<KubeNode>::all(client.clone());
    nodes.patch(&node.name_any(), &PatchParams::default(), &patch).await
}

/// Forgets the pods of a node that is no more: for another minute the cluster would list them and send requests to them.
pub(crate) async fn forget_pods(
    client: &Client,
    node: &str,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let pods = insist(format!("list the pods of node {node}"), cancelled, || pods_on(client, node)).await?;
    delete(client, &pods, cancelled).await
}

/// The pods that have to go: not those that have ended, nor those that would come right back.
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

/// Asks all that have to go to do so, and says of each what became of that. The first that nobody hears is the last.
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
        // Too many requests: that is how a budget says no. Two budgets for one pod are an error of the server's.
        Err(kube::Error::Api(status)) => Ok(format!("pod {namespace}/{name} stays: {}", status.message)),
        Err(error) => Err(error),
    }
}

/// Deletes the pods that have to go, whatever protects them.
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
