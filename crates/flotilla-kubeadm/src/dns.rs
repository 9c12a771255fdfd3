//! Replicas of `CoreDNS`: one with one control plane, two with several, so that DNS survives the failure of any of
//! them.

use flotilla_core::BootstrapError;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::api::{SYSTEM, insist};
use crate::patience::Cancelled;

const NAME: &str = "coredns";
/// The initial number with one control plane.
pub(crate) const ALONE: i32 = 1;
/// kubeadm's default. The pods run on different nodes.
const SEVERAL: i32 = 2;

/// Scales from one to two. Any other number was set by the user. Does not wait for the pod.
pub(crate) async fn ensure_several(client: &Client, cancelled: &Cancelled) -> Result<(), BootstrapError> {
    let deployments = Api::<Deployment>::namespaced(client.clone(), SYSTEM);
    insist("scale CoreDNS to two replicas", cancelled, || async {
        let Some(found) = deployments.get_opt(NAME).await? else { return Ok(()) };
        if found.spec.as_ref().and_then(|spec| spec.replicas) != Some(ALONE) {
            return Ok(());
        }
        // Only if the object is unchanged: a user may scale at the same moment.
        let version = found.resource_version();
        let patch =
            Patch::Merge(json!({"metadata": {"resourceVersion": version}, "spec": {"replicas": SEVERAL}}));
        deployments.patch(NAME, &PatchParams::default(), &patch).await.map(drop)
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fake_api::FakeApi;

    const PATH: &str = "/apis/apps/v1/namespaces/kube-system/deployments/coredns";

    fn with_replicas(count: i32) -> FakeApi {
        let spec = json!({"replicas": count, "selector": {}, "template": {}});
        FakeApi::new(&[(PATH, json!({"metadata": {"name": NAME, "resourceVersion": "7"}, "spec": spec}))])
    }

    async fn ensure_in(api: &FakeApi) -> Option<serde_json::Value> {
        let never = Cancelled::new(Arc::new(|| false));
        ensure_several(&api.client(), &never).await.unwrap();
        api.object(PATH).map(|object| object["spec"]["replicas"].clone())
    }

    #[tokio::test]
    async fn one_pod_becomes_two_and_any_other_count_is_a_persons() {
        for (count, after) in [(1, 2), (0, 0), (2, 2), (5, 5)] {
            assert_eq!(ensure_in(&with_replicas(count)).await, Some(json!(after)));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_count_that_a_person_chooses_at_the_same_moment_stays() {
        let api = with_replicas(1);
        api.interfere(PATH, json!({"spec": {"replicas": 3}}));
        assert_eq!(ensure_in(&api).await, Some(json!(3)));
    }

    #[tokio::test]
    async fn a_cluster_whose_dns_is_another_is_left_alone() {
        assert_eq!(ensure_in(&FakeApi::default()).await, None);
    }
}
