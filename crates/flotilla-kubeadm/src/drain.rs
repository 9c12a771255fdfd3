//! Emptying a node: its pods are evicted, so that disruption budgets are respected.

use flotilla_engine::cluster::Cluster;
use flotilla_engine::port::{BootstrapError, Drain, Machine};
use k8s_openapi::api::core::v1::{Node as KubeNode, Pod};
use kube::api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use std::time::Duration;

use crate::api::{self, PATIENT, cannot};
use crate::credentials;
use crate::patience::{Cancelled, Patience};

/// A budget may change, and a pod takes its time to end.
const POLL: Duration = Duration::from_millis(300);

/// Tells a node that was emptied by us, to be stopped, from one that a person has cordoned.
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
    if !cordon(&client, name).await? {
        return Ok(());
    }
    let patience = Patience::new(format!("the draining of node {name}"), how.limit, cancelled);
    loop {
        let pods = pods_of(&client, name).await?;
        if pods.is_empty() {
            return Ok(());
        }
        let mut seen = Vec::new();
        for pod in &pods {
            seen.push(evict(&client, pod).await?);
        }
        match patience.pause(POLL, &seen).await {
            Err(BootstrapError::TimedOut { .. }) if how.force => return delete(&client, &pods).await,
            Err(BootstrapError::TimedOut { limit, seen, .. }) => {
                return Err(BootstrapError::Undrained { node: name.to_owned(), limit, seen });
            }
            result => result?,
        }
    }
}

/// Says whether there is such a node.
async fn cordon(client: &Client, name: &str) -> Result<bool, BootstrapError> {
    let patch =
        Patch::Merge(json!({"metadata": {"annotations": {MARK: ""}}, "spec": {"unschedulable": true}}));
    match Api::<KubeNode>::all(client.clone()).patch(name, &PatchParams::default(), &patch).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        patched => patched.map(|_| true).map_err(cannot(format!("cordon node {name}"))),
    }
}

/// Lets new pods come again to a node that we have emptied.
pub(crate) async fn admit(client: &Client, name: &str) -> Result<(), BootstrapError> {
    let failed = |error| cannot(format!("let pods come to node {name} again"))(error);
    let nodes = Api::<KubeNode>::all(client.clone());
    let node = nodes.get_opt(name).await.map_err(failed)?;
    if node.is_some_and(|node| node.annotations().contains_key(MARK)) {
        let annotations = json!({"annotations": {MARK: null}});
        let patch = Patch::Merge(json!({"metadata": annotations, "spec": {"unschedulable": null}}));
        nodes.patch(name, &PatchParams::default(), &patch).await.map_err(failed)?;
    }
    Ok(())
}

/// Forgets the pods of a node that is no more: for another minute the cluster would list them and send requests to them.
pub(crate) async fn forget_pods(client: &Client, node: &str) -> Result<(), BootstrapError> {
    delete(client, &pods_on(client, node).await?).await
}

/// The pods that have to go: not those that have ended, nor those that would come right back.
async fn pods_of(client: &Client, node: &str) -> Result<Vec<Pod>, BootstrapError> {
    let mut pods = pods_on(client, node).await?;
    pods.retain(has_to_go);
    Ok(pods)
}

async fn pods_on(client: &Client, node: &str) -> Result<Vec<Pod>, BootstrapError> {
    let here = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let listed = Api::<Pod>::all(client.clone()).list(&here).await;
    Ok(listed.map_err(cannot(format!("list the pods of node {node}")))?.items)
}

fn has_to_go(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let is_mirror = pod.annotations().contains_key("kubernetes.io/config.mirror");
    let of_daemon_set = pod.owner_references().iter().any(|owner| owner.kind == "DaemonSet");
    !matches!(phase, Some("Succeeded" | "Failed")) && !is_mirror && !of_daemon_set
}

/// Asks a pod to go, and says what became of that.
async fn evict(client: &Client, pod: &Pod) -> Result<String, BootstrapError> {
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    if pod.metadata.deletion_timestamp.is_some() {
        return Ok(format!("pod {namespace}/{name} is ending"));
    }
    let pods = Api::<Pod>::namespaced(client.clone(), &namespace);
    match pods.evict(&name, &EvictParams::default()).await {
        Ok(_) => Ok(format!("pod {namespace}/{name} is ending")),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(format!("pod {namespace}/{name} is gone")),
        // Too many requests: that is how a budget says no.
        Err(kube::Error::Api(status)) if status.code == 429 => {
            Ok(format!("pod {namespace}/{name} stays: {}", status.message))
        }
        Err(error) => Err(cannot(format!("evict pod {namespace}/{name}"))(error)),
    }
}

async fn delete(client: &Client, pods: &[Pod]) -> Result<(), BootstrapError> {
    for pod in pods {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let at_once = DeleteParams::default().grace_period(0);
        match Api::<Pod>::namespaced(client.clone(), &namespace).delete(&name, &at_once).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            deleted => drop(deleted.map_err(cannot(format!("delete pod {namespace}/{name}")))?),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn pod(metadata: &Value, phase: &str) -> Pod {
        serde_json::from_value(json!({"metadata": metadata, "status": {"phase": phase}})).unwrap()
    }

    #[test]
    fn what_would_come_back_or_has_ended_may_stay() {
        assert!(has_to_go(&pod(&json!({"name": "web"}), "Running")));
        assert!(has_to_go(&pod(&json!({"name": "web"}), "Pending")));
        assert!(!has_to_go(&pod(&json!({"name": "job"}), "Succeeded")));
        let mirror = json!({"name": "etcd", "annotations": {"kubernetes.io/config.mirror": "x"}});
        assert!(!has_to_go(&pod(&mirror, "Running")));
        let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "proxy", "uid": "1"}]);
        assert!(!has_to_go(&pod(&json!({"name": "proxy", "ownerReferences": owner}), "Running")));
    }
}
