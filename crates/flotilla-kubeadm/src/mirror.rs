//! The pods by which the API lists what kubelets run of their own accord: the mirrors of static pods.

use std::time::Duration;

use flotilla_core::BootstrapError;
use flotilla_core::explain::one_line;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::api::{self, SYSTEM, cannot, insist};
use crate::patience::{Cancelled, Patience};

/// By which a kubelet tells whether a mirror shows the static pod as it is.
const HASH: &str = "kubernetes.io/config.mirror";
const STAND_IN: &str = "stand-in";
/// Something of it has to change, or the kubelet does not look again.
const NUDGE: &str = "flotilla.dev/nudge";

const LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(100);

const STATIC_PODS: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

fn pods(client: &Client) -> Api<Pod> {
    Api::namespaced(client.clone(), SYSTEM)
}

/// Whether the API lists the etcd of this node.
pub(crate) async fn has_etcd(client: &Client, node: &str) -> Result<bool, kube::Error> {
    api::exists(&pods(client), &format!("etcd-{node}")).await
}

/// Makes the kubelet put its etcd on the list. kubeadm reads there where etcd is.
///
/// The kubelet has started etcd before its node was known, has been refused, and would try again a minute later. A
/// mirror that shows something else makes it look at once. It takes that away and makes the right one.
///
/// That only saves a minute: whatever fails here, the kubelet does it later by itself.
pub(crate) async fn ensure_etcd(
    client: &Client,
    node: &str,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    match hasten_etcd(client, node, cancelled).await {
        Err(BootstrapError::Interrupted) => Err(BootstrapError::Interrupted),
        _ => Ok(()),
    }
}

async fn hasten_etcd(client: &Client, node: &str, cancelled: &Cancelled) -> Result<(), BootstrapError> {
    let action = format!("create the mirror pod of etcd on node {node}");
    let patience = Patience::within(format!("the mirror pod of etcd on node {node}"), LIMIT, cancelled);
    // The right one would be refused without the class of its priority. Where the class was there in time, the right one is
    // there as well.
    while let Err(error) = api::is_done(client, "scheduling/bootstrap-system-priority-classes").await {
        if matches!(has_etcd(client, node).await, Ok(true)) {
            return Ok(());
        }
        patience.pause_for(POLL, &[one_line(&error)]).await?;
    }
    let name = format!("etcd-{node}");
    let stand_in = json!({
        "metadata": {"name": name, "annotations": {HASH: STAND_IN}},
        "spec": {"nodeName": node, "containers": [{"name": "etcd", "image": STAND_IN}]},
    });
    let pods = pods(client);
    insist(action.as_str(), cancelled, || api::create(&pods, stand_in.clone())).await?;
    for nudge in 1.. {
        patience.pause_for(POLL, &[]).await?;
        match is_replaced(&pods, &name, nudge).await {
            Ok(true) => break,
            Err(error) if !api::is_passing(&error) => return Err(cannot(action)(error)),
            _ => {}
        }
    }
    Ok(())
}

/// Whether the kubelet has put the right one in the place of the stand-in, which else is nudged.
async fn is_replaced(pods: &Api<Pod>, name: &str, nudge: u32) -> Result<bool, kube::Error> {
    match pods.get_opt(name).await? {
        Some(pod) if is_stand_in(&pod) => {
            let patch = Patch::Merge(json!({"metadata": {"labels": {NUDGE: format!("{nudge}")}}}));
            match pods.patch(name, &PatchParams::default(), &patch).await {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
                patched => patched.map(|_| false),
            }
        }
        Some(_) => Ok(true),
        // Taken away: the right one comes now.
        None => Ok(false),
    }
}

fn is_stand_in(pod: &Pod) -> bool {
    pod.annotations().get(HASH).is_some_and(|hash| hash == STAND_IN)
}

/// Takes the control plane of a node off the list: kubeadm would take it for one that exists.
pub(crate) async fn forget(client: &Client, node: &str, cancelled: &Cancelled) -> Result<(), BootstrapError> {
    let (pods, at_once) = (pods(client), DeleteParams::default().grace_period(0));
    for component in STATIC_PODS {
        let (action, name) =
            (format!("delete the mirror pod of {component} on node {node}"), format!("{component}-{node}"));
        insist(action, cancelled, || api::delete(&pods, &name, &at_once)).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fake_api::{FakeApi, Fault};

    const PODS: &str = "/api/v1/namespaces/kube-system/pods";
    const HOOK: &str = "/readyz/poststarthook/scheduling/bootstrap-system-priority-classes";

    fn never() -> Cancelled {
        Cancelled::new(Arc::new(|| false))
    }

    #[tokio::test(start_paused = true)]
    async fn a_kubelet_is_nudged_until_it_has_replaced_the_stand_in() {
        let (etcd, right) =
            (format!("{PODS}/etcd-demo"), json!({"metadata": {"annotations": {HASH: "abc"}}}));
        let api = FakeApi::new(&[(HOOK, json!("ok"))]);
        api.interfere(&etcd, right);
        ensure_etcd(&api.client(), "demo", &never()).await.unwrap();
        assert_eq!(api.log(), [format!("POST {PODS}"), format!("PATCH {etcd}")]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_kubelet_that_does_not_mind_is_left_alone() {
        let api = FakeApi::new(&[(HOOK, json!("ok"))]);
        ensure_etcd(&api.client(), "demo", &never()).await.unwrap();
        assert!(has_etcd(&api.client(), "demo").await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_does_not_fail_because_the_listing_cannot_be_hastened() {
        // The hook that is waited for is never done; and an API that refuses the stand-in.
        ensure_etcd(&FakeApi::new(&[]).client(), "demo", &never()).await.unwrap();
        let api = FakeApi::new(&[(HOOK, json!("ok"))]);
        api.fail(&format!("POST {PODS}"), 1, Fault::Refused(403, "no"));
        ensure_etcd(&api.client(), "demo", &never()).await.unwrap();
        let cancelled = Cancelled::new(Arc::new(|| true));
        let ended = ensure_etcd(&FakeApi::new(&[]).client(), "demo", &cancelled).await;
        assert!(matches!(ended, Err(BootstrapError::Interrupted)), "{ended:?}");
    }

    #[tokio::test]
    async fn all_of_a_node_is_taken_off_the_list_and_nothing_else() {
        let paths =
            ["etcd-demo", "kube-scheduler-demo", "etcd-demo-m02"].map(|name| format!("{PODS}/{name}"));
        let api = FakeApi::new(&paths.each_ref().map(|path| (path.as_str(), json!({"metadata": {}}))));
        forget(&api.client(), "demo", &never()).await.unwrap();
        assert_eq!(paths.map(|path| api.object(&path).is_some()), [false, false, true]);
    }
}
