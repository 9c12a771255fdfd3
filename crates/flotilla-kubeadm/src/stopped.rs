//! Nodes that are known to be off. The cluster would notice their silence only after most of a minute.

use flotilla_core::cluster::Cluster;
use flotilla_core::{BootstrapError, Machine};
use k8s_openapi::api::core::v1::Node as KubeNode;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use crate::api::{self, PATIENT, insist};
use crate::credentials;
use crate::patience::Cancelled;

/// Why such a node is not Ready.
const STOPPED: &str = "NodeStopped";

/// Whether we have said of a node that it is off, and it has not said otherwise.
pub(crate) fn is_stopped(node: &KubeNode) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|ready| ready.type_ == "Ready" && ready.reason.as_deref() == Some(STOPPED))
}

pub(crate) async fn mark_stopped(
    cluster: &Cluster,
    name: &str,
    via: &dyn Machine,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let client = api::client(cluster, &credentials::require(via).await?, PATIENT).await?;
    mark(&client, name, cancelled).await
}

/// Says that a node is not Ready, as the kubelet would say it: kubeadm lets no node join whose name is that of a Ready
/// one. A kubelet that runs says otherwise within seconds.
pub(crate) async fn mark(client: &Client, name: &str, cancelled: &Cancelled) -> Result<(), BootstrapError> {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = json!({
        "type": "Ready",
        "status": "False",
        "reason": STOPPED,
        "message": "flotilla has stopped this node",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    });
    // Of the conditions the one of this type is changed.
    let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
    let nodes = Api::<KubeNode>::all(client.clone());
    insist(format!("mark node {name} as stopped"), cancelled, || async {
        match nodes.patch_status(name, &PatchParams::default(), &patch).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            patched => patched.map(drop),
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fake_api::FakeApi;

    const NODE: &str = "/api/v1/nodes/demo-m02";

    fn never() -> Cancelled {
        Cancelled::new(Arc::new(|| false))
    }

    #[tokio::test]
    async fn a_stopped_node_is_not_ready() {
        let api = FakeApi::new(&[(NODE, json!({"metadata": {"name": "demo-m02"}}))]);
        mark(&api.client(), "demo-m02", &never()).await.unwrap();
        let ready = &api.object(NODE).unwrap()["status"]["conditions"][0];
        assert_eq!((&ready["type"], &ready["status"]), (&json!("Ready"), &json!("False")));
        let node = |object| serde_json::from_value::<KubeNode>(object).unwrap();
        assert!(is_stopped(&node(api.object(NODE).unwrap())));
        assert!(!is_stopped(&node(json!({"metadata": {"name": "demo-m02"}}))));
    }

    #[tokio::test]
    async fn a_node_that_nobody_knows_is_stopped() {
        mark(&FakeApi::default().client(), "demo-m02", &never()).await.unwrap();
    }
}
