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
use crate::stopped;

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
    let Some(node) = cordon(&client, name).await? else { return Ok(()) };
    if stopped::is_stopped(&node) {
        // There is nobody who would end them.
        return delete(&client, &pods_of(&client, name).await?).await;
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

/// Gives the node, if there is such a one. One that a person has closed is not ours to open later: it gets no mark.
async fn cordon(client: &Client, name: &str) -> Result<Option<KubeNode>, BootstrapError> {
    let failed = |error| cannot(format!("cordon node {name}"))(error);
    let nodes = Api::<KubeNode>::all(client.clone());
    let Some(node) = nodes.get_opt(name).await.map_err(failed)? else { return Ok(None) };
    if is_closed(&node) {
        return Ok(Some(node));
    }
    let patch =
        Patch::Merge(json!({"metadata": {"annotations": {MARK: ""}}, "spec": {"unschedulable": true}}));
    match nodes.patch(name, &PatchParams::default(), &patch).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        patched => patched.map(Some).map_err(failed),
    }
}

fn is_closed(node: &KubeNode) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

/// Lets new pods come again to a node that we have emptied, or have tried to empty.
pub(crate) async fn admit_node(
    cluster: &Cluster,
    name: &str,
    primary: &dyn Machine,
) -> Result<(), BootstrapError> {
    let client = api::client(cluster, &credentials::require(primary).await?, PATIENT).await?;
    admit(&client, name).await
}

/// The same for whoever has a client already.
pub(crate) async fn admit(client: &Client, name: &str) -> Result<(), BootstrapError> {
    let failed = |error| cannot(format!("let pods come to node {name} again"))(error);
    let node = Api::<KubeNode>::all(client.clone()).get_opt(name).await.map_err(failed)?;
    if let Some(node) = node.filter(was_drained) {
        open(client, &node).await.map_err(failed)?;
    }
    Ok(())
}

/// Whether a node was closed by us.
pub(crate) fn was_drained(node: &KubeNode) -> bool {
    node.annotations().contains_key(MARK)
}

pub(crate) async fn open(client: &Client, node: &KubeNode) -> Result<(), kube::Error> {
    let annotations = json!({"annotations": {MARK: null}});
    let patch = Patch::Merge(json!({"metadata": annotations, "spec": {"unschedulable": null}}));
    let nodes = Api::<KubeNode>::all(client.clone());
    nodes.patch(&node.name_any(), &PatchParams::default(), &patch).await.map(drop)
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
    use crate::fake_api::FakeApi;
    use serde_json::Value;

    const NODE: &str = "/api/v1/nodes/demo";

    fn with_node(spec: &Value) -> FakeApi {
        FakeApi::new(&[(NODE, json!({"metadata": {"name": "demo"}, "spec": spec}))])
    }

    #[tokio::test]
    async fn a_node_that_we_closed_is_opened_again() {
        let api = with_node(&json!({}));
        assert!(cordon(&api.client(), "demo").await.unwrap().is_some());
        assert_eq!(api.object(NODE).unwrap()["spec"]["unschedulable"], true);
        admit(&api.client(), "demo").await.unwrap();
        let node = api.object(NODE).unwrap();
        assert_eq!((&node["spec"], &node["metadata"]["annotations"]), (&json!({}), &json!({})));
    }

    #[tokio::test]
    async fn a_node_that_a_person_closed_stays_closed() {
        let api = with_node(&json!({"unschedulable": true}));
        assert!(cordon(&api.client(), "demo").await.unwrap().is_some());
        admit(&api.client(), "demo").await.unwrap();
        assert_eq!(api.log(), [] as [String; 0]);
    }

    #[tokio::test]
    async fn a_node_that_the_api_does_not_know_is_empty_and_open() {
        let api = FakeApi::default();
        assert!(cordon(&api.client(), "demo").await.unwrap().is_none());
        admit(&api.client(), "demo").await.unwrap();
    }

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
