//! The priority classes of system pods. The API server makes them a second after its first answer; until then it refuses
//! every pod that has one, and the kubelet tries to list its static pods again only a minute later.

use flotilla_core::BootstrapError;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::{Api, Client};
use serde_json::json;

use crate::api::{create, insist};
use crate::patience::Cancelled;

/// As the API server makes them, which then leaves them alone.
const CLASSES: [(&str, i32, &str); 2] = [
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];

/// Creates those that do not exist. That only saves time: a failure is the API server's to make up for.
pub(crate) async fn ensure(client: &Client, cancelled: &Cancelled) -> Result<(), BootstrapError> {
    let classes = Api::<PriorityClass>::all(client.clone());
    for (name, value, description) in CLASSES {
        let class = json!({"metadata": {"name": name}, "value": value, "description": description});
        let created = insist("create a priority class", cancelled, || create(&classes, class.clone())).await;
        if let Err(BootstrapError::Interrupted) = created {
            return Err(BootstrapError::Interrupted);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fake_api::{FakeApi, Fault};

    const PATH: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

    #[tokio::test(start_paused = true)]
    async fn classes_that_exist_stay_and_one_that_is_refused_does_not_fail_the_start() {
        let never = Cancelled::new(Arc::new(|| false));
        let node = format!("{PATH}/system-node-critical");
        let api = FakeApi::new(&[(&node, json!({"metadata": {"name": "system-node-critical"}, "value": 7}))]);
        api.fail(&format!("POST {PATH}"), 2, Fault::Unheard);
        ensure(&api.client(), &never).await.unwrap();
        assert_eq!(api.object(&node).unwrap()["value"], 7);
        assert_eq!(api.object(&format!("{PATH}/system-cluster-critical")).unwrap()["value"], 2_000_000_000);
        let api = FakeApi::default();
        api.fail(&format!("POST {PATH}"), 2, Fault::Refused(403, "no"));
        ensure(&api.client(), &never).await.unwrap();
    }
}
