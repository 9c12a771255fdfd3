//! The labels that minikube gives its nodes: scripts select nodes by them. They are set when a node registers, in the patch that
//! sets its pod range, because a kubelet must not set labels of this prefix. They are not renewed for their values' sake: a
//! `start` that finds a cluster as it should be changes nothing.

use std::collections::BTreeMap;

use flotilla_core::BootstrapError;
use flotilla_core::cluster::{Cluster, Node};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node as KubeNode;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::api::insist;
use crate::patience::Cancelled;

const NAME: &str = "minikube.k8s.io/name";
const PRIMARY: &str = "minikube.k8s.io/primary";
const VERSION: &str = "minikube.k8s.io/version";
const COMMIT: &str = "minikube.k8s.io/commit";
const UPDATED_AT: &str = "minikube.k8s.io/updated_at";

/// A node's labels: minikube's, and those of its spec, which win.
pub(crate) fn all(cluster: &Cluster, node: &Node) -> BTreeMap<String, String> {
    let own = node.spec.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
    of(cluster, node).into_iter().chain(own).collect()
}

/// Whether the node object has no such labels: it registered with an older flotilla.
pub(crate) fn are_missing(has: Option<&BTreeMap<String, String>>) -> bool {
    !has.is_some_and(|has| has.contains_key(NAME))
}

/// Whether they are missing, or another node was primary when they were set.
fn are_stale(cluster: &Cluster, node: &Node, has: &BTreeMap<String, String>) -> bool {
    are_missing(Some(has)) || has.get(PRIMARY) != all(cluster, node).get(PRIMARY)
}

/// Gives the labels to a node that registered before: with an older flotilla, or while another node was primary. For steps that
/// are done anyway: that another node is primary now is no reason for a step.
pub(crate) async fn ensure(
    client: &Client,
    cluster: &Cluster,
    node: &Node,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let (nodes, name) = (Api::<KubeNode>::all(client.clone()), node.spec.name.as_ref());
    insist(format!("set the labels of node {name}"), cancelled, || async {
        let found = nodes.get_opt(name).await?;
        if found.is_some_and(|found| are_stale(cluster, node, found.labels())) {
            let patch = Patch::Merge(json!({"metadata": {"labels": all(cluster, node)}}));
            nodes.patch(name, &PatchParams::default(), &patch).await?;
        }
        Ok(())
    })
    .await
}

fn of(cluster: &Cluster, node: &Node) -> BTreeMap<String, String> {
    let is_primary = cluster.spec.primary().name == node.spec.name;
    BTreeMap::from(
        [
            (NAME, cluster.name().to_string()),
            (PRIMARY, is_primary.to_string()),
            (VERSION, concat!("v", env!("CARGO_PKG_VERSION")).to_owned()),
            // The program does not know its commit. minikube's own builds without git have an empty value, too.
            (COMMIT, String::new()),
            (UPDATED_AT, Timestamp::now().strftime("%Y_%m_%dT%H_%M_%S_0000").to_string()),
        ]
        .map(|(key, value)| (key.to_owned(), value)),
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use flotilla_testkit::fake;

    use super::*;
    use crate::fake_api::FakeApi;

    fn cluster() -> Cluster {
        fake::cluster_of_roles(&["control-plane", "worker"])
    }

    #[test]
    fn every_node_has_minikubes_labels() {
        let cluster = cluster();
        let nodes: Vec<_> = cluster.nodes().collect();
        let primary = all(&cluster, &nodes[0]);
        assert_eq!((primary[NAME].as_str(), primary[PRIMARY].as_str()), (cluster.name().as_ref(), "true"));
        assert!(primary[VERSION].starts_with('v') && primary.contains_key(COMMIT));
        let time = &primary[UPDATED_AT];
        assert!(time.len() == "2026_11_18T21_00_00_0000".len() && time.ends_with("_0000"), "{time}");
        assert_eq!(all(&cluster, &nodes[1])[PRIMARY], "false");
    }

    #[test]
    fn those_of_the_user_win() {
        let cluster = cluster();
        let mut node = cluster.primary().unwrap();
        node.spec.labels = "minikube.k8s.io/name=mine,disk=ssd".parse().unwrap();
        let labels = all(&cluster, &node);
        assert_eq!((labels[NAME].as_str(), labels["disk"].as_str()), ("mine", "ssd"));
        assert!(!are_stale(&cluster, &node, &labels));
    }

    #[test]
    fn an_older_version_or_time_is_not_stale_and_another_primary_is() {
        let cluster = cluster();
        let node = cluster.primary().unwrap();
        let mut labels = all(&cluster, &node);
        labels.insert(VERSION.to_owned(), "v0.0.1".to_owned());
        labels.insert(UPDATED_AT.to_owned(), "2020_01_01T00_00_00_0000".to_owned());
        assert!(!are_stale(&cluster, &node, &labels));
        labels.insert(PRIMARY.to_owned(), "false".to_owned());
        assert!(are_stale(&cluster, &node, &labels));
        assert!(are_stale(&cluster, &node, &BTreeMap::new()));
    }

    #[tokio::test]
    async fn a_node_of_an_older_flotilla_gets_them_once() {
        let cluster = cluster();
        let worker = cluster.nodes().nth(1).unwrap();
        let path = format!("/api/v1/nodes/{}", worker.spec.name);
        let old = json!({"metadata": {"name": worker.spec.name, "labels": {"theirs": "1"}}});
        let (api, never) = (FakeApi::new(&[(&path, old)]), Cancelled::new(Arc::new(|| false)));
        for _ in 0..2 {
            ensure(&api.client(), &cluster, &worker, &never).await.unwrap();
        }
        let labels = &api.object(&path).unwrap()["metadata"]["labels"];
        assert_eq!((&labels[PRIMARY], &labels["theirs"]), (&json!("false"), &json!("1")));
        assert_eq!(api.log(), [format!("PATCH {path}")]);
    }
}
