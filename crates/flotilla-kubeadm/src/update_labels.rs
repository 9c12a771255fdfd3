//! Labels and taints of a node that is in the cluster already.

use std::collections::BTreeMap;

use flotilla_core::cluster::{Cluster, Node};
use flotilla_core::{BootstrapError, Changed, Machine};
use flotilla_spec::NodeSpec;
use k8s_openapi::api::core::v1::{Node as KubeNode, Taint};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Map, Value, json};

use crate::api::{self, PATIENT, insist};
use crate::credentials;
use crate::minikube_labels;
use crate::patience::Cancelled;

/// Changes what differs, in one patch of the very version that was looked at: what another changes meanwhile is not
/// undone.
pub(crate) async fn update_labels(
    cluster: &Cluster,
    node: &Node,
    was: &NodeSpec,
    primary: &dyn Machine,
    cancelled: &Cancelled,
) -> Result<Changed, BootstrapError> {
    let client = api::client(cluster, &credentials::require(primary).await?, PATIENT).await?;
    let changed = change_node(&client, &node.spec, was, cancelled).await?;
    // The user may have removed a label of their own that stood for one of these.
    minikube_labels::ensure(&client, cluster, node, cancelled).await?;
    Ok(changed)
}

/// The same with an existing client.
pub(crate) async fn change_node(
    client: &Client,
    wanted: &NodeSpec,
    was: &NodeSpec,
    cancelled: &Cancelled,
) -> Result<Changed, BootstrapError> {
    let (nodes, name) = (Api::<KubeNode>::all(client.clone()), wanted.name.as_ref());
    insist(format!("change the labels and taints of node {name}"), cancelled, || async {
        let Some(object) = nodes.get_opt(name).await? else { return Ok(Changed::No) };
        let Some(change) = change(&object, wanted, was) else { return Ok(Changed::No) };
        match nodes.patch(name, &PatchParams::default(), &Patch::Merge(change)).await {
            // Deleted since we looked.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Changed::No),
            patched => patched.map(|_| Changed::Yes),
        }
    })
    .await
}

/// What has to be merged into the object; nothing if it is as it is wanted.
fn change(object: &KubeNode, wanted: &NodeSpec, was: &NodeSpec) -> Option<Value> {
    let labels = changed_labels(object, wanted, was);
    let taints = changed_taints(object, wanted, was);
    if labels.is_empty() && taints.is_none() {
        return None;
    }
    let mut change =
        json!({"metadata": {"resourceVersion": object.resource_version(), "labels": Value::Object(labels)}});
    if let Some(taints) = taints {
        change["spec"] = json!({"taints": taints});
    }
    Some(change)
}

/// The labels to set, and as null those to remove.
fn changed_labels(object: &KubeNode, wanted: &NodeSpec, was: &NodeSpec) -> Map<String, Value> {
    let wanted: BTreeMap<_, _> = wanted.labels.iter().collect();
    let has = object.labels();
    let gone = was.labels.iter().map(|(key, _)| key).filter(|key| !wanted.contains_key(key));
    let gone = gone.filter(|key| has.contains_key(*key)).map(|key| (key.to_owned(), Value::Null));
    let set = wanted.iter().filter(|(key, value)| has.get(**key).is_none_or(|found| found != **value));
    gone.chain(set.map(|(key, value)| ((*key).to_owned(), json!(value)))).collect()
}

/// All taints, since a merge knows no part of a list; nothing if they stay as they are.
fn changed_taints(object: &KubeNode, wanted: &NodeSpec, was: &NodeSpec) -> Option<Vec<Taint>> {
    let has: Vec<Taint> =
        object.spec.iter().flat_map(|spec| spec.taints.clone().unwrap_or_default()).collect();
    let mut taints = has.clone();
    // A node has one taint of a key and an effect.
    let is_one_of = |ours: &[flotilla_spec::Taint], taint: &Taint| {
        ours.iter().any(|own| own.key() == taint.key && own.effect() == taint.effect)
    };
    taints.retain(|taint| is_one_of(&wanted.taints, taint) || !is_one_of(&was.taints, taint));
    for own in &wanted.taints {
        let value = Some(own.value().to_owned()).filter(|value| !value.is_empty());
        match taints.iter_mut().find(|taint| is_one_of(std::slice::from_ref(own), taint)) {
            Some(taint) => taint.value = value,
            None => taints.push(Taint {
                key: own.key().to_owned(),
                value,
                effect: own.effect().to_owned(),
                ..Taint::default()
            }),
        }
    }
    (taints != has).then_some(taints)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fake_api::FakeApi;
    use flotilla_spec::Role;

    fn node(labels: &str, taints: &[&str]) -> NodeSpec {
        NodeSpec {
            labels: labels.parse().unwrap(),
            taints: taints.iter().map(|taint| taint.parse().unwrap()).collect(),
            ..NodeSpec::plain("demo-m02".parse().unwrap(), Role::Worker)
        }
    }

    /// What Kubernetes and other people have given the node, beside ours.
    fn object(labels: &Value, taints: &Value) -> KubeNode {
        serde_json::from_value(json!({
            "metadata": {"name": "demo-m02", "resourceVersion": "7", "labels": labels},
            "spec": {"taints": taints},
        }))
        .unwrap()
    }

    #[test]
    fn a_node_that_is_as_it_is_wanted_is_left_alone() {
        let taints =
            json!([{"key": "gpu", "effect": "NoSchedule"}, {"key": "theirs", "effect": "NoExecute"}]);
        let found = object(&json!({"disk": "ssd", "kubernetes.io/os": "linux"}), &taints);
        let wanted = node("disk=ssd", &["gpu:NoSchedule"]);
        assert_eq!(change(&found, &wanted, &node("zone=a", &["old:NoSchedule"])), None);
    }

    #[test]
    fn ours_are_set_changed_and_taken_away_and_those_of_others_stay() {
        let labels = json!({"disk": "ssd", "zone": "a", "kubernetes.io/os": "linux"});
        let not_ready = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "timeAdded": "2026-11-17T00:00:00Z"});
        let taints = json!([
            not_ready,
            {"key": "gpu", "value": "one", "effect": "NoSchedule"},
            {"key": "old", "effect": "NoSchedule"},
        ]);
        let wanted = node("disk=hdd,tier=web", &["gpu=two:NoSchedule", "new:NoExecute"]);
        let was = node("disk=ssd,zone=a", &["gpu=one:NoSchedule", "old:NoSchedule"]);
        let expected = json!({
            "metadata": {
                "resourceVersion": "7",
                "labels": {"disk": "hdd", "tier": "web", "zone": null},
            },
            "spec": {"taints": [
                not_ready,
                {"key": "gpu", "value": "two", "effect": "NoSchedule"},
                {"key": "new", "effect": "NoExecute"},
            ]},
        });
        assert_eq!(change(&object(&labels, &taints), &wanted, &was), Some(expected));
    }

    const PATH: &str = "/api/v1/nodes/demo-m02";

    async fn change_in(api: &FakeApi, wanted: &NodeSpec, was: &NodeSpec) -> Changed {
        let never = Cancelled::new(Arc::new(|| false));
        change_node(&api.client(), wanted, was, &never).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn what_another_changes_at_the_same_moment_is_not_undone() {
        let api = FakeApi::new(&[(PATH, json!({"metadata": {"name": "demo-m02", "resourceVersion": "7"}}))]);
        let theirs = json!([{"key": "theirs", "effect": "NoSchedule"}]);
        api.interfere(PATH, json!({"spec": {"taints": theirs}}));
        let (wanted, was) = (node("disk=ssd", &["gpu:NoSchedule"]), node("", &[]));
        assert_eq!(change_in(&api, &wanted, &was).await, Changed::Yes);
        let changed = api.object(PATH).unwrap();
        assert_eq!(changed["metadata"]["labels"], json!({"disk": "ssd"}));
        let both = json!([theirs[0], {"key": "gpu", "effect": "NoSchedule"}]);
        assert_eq!(changed["spec"]["taints"], both);
        assert_eq!(api.log().len(), 2, "the first patch was refused");
        assert_eq!(change_in(&api, &wanted, &was).await, Changed::No);
    }

    #[tokio::test]
    async fn a_node_that_is_not_in_the_list_is_no_failure() {
        let changed = change_in(&FakeApi::default(), &node("disk=ssd", &[]), &node("", &[])).await;
        assert_eq!(changed, Changed::No);
    }

    #[test]
    fn of_one_key_only_the_effect_that_is_no_longer_wanted_goes() {
        let taints = json!([{"key": "gpu", "effect": "NoSchedule"}, {"key": "gpu", "effect": "NoExecute"}]);
        let (wanted, was) = (node("", &["gpu:NoExecute"]), node("", &["gpu:NoSchedule"]));
        let change = change(&object(&json!({}), &taints), &wanted, &was).unwrap();
        assert_eq!(change["spec"]["taints"], json!([{"key": "gpu", "effect": "NoExecute"}]));
        assert_eq!(change["metadata"]["labels"], json!({}));
    }

    #[test]
    fn a_label_that_a_person_has_removed_already_is_no_change() {
        let found = object(&json!({}), &json!([]));
        assert_eq!(change(&found, &node("", &[]), &node("disk=ssd", &["gpu:NoSchedule"])), None);
    }
}
