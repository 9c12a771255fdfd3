//! A pod network that a user chose instead of flotilla's: its manifest.

use std::time::Duration;

use flotilla_core::cluster::Cluster;
use flotilla_core::{BootstrapError, Cmd, GuestError, Machine};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use serde_json::json;

use crate::api::{self, SYSTEM, exists, insist};
use crate::patience::{Cancelled, Patience};
use crate::phase::run;

/// Created last: if it exists, the whole manifest was applied. Later changes of the user are kept.
const APPLIED: &str = "flotilla-cni";

/// A manifest may have objects of kinds that it defines itself, and those take a moment.
const DEFINITIONS: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(500);

/// Whether the cluster has the pod network of its manifest; one that has no manifest needs none.
pub(crate) async fn is_installed(client: &Client, cluster: &Cluster) -> Result<bool, kube::Error> {
    if cluster.allocations.cni.is_none() {
        return Ok(true);
    }
    exists(&Api::<ConfigMap>::namespaced(client.clone(), SYSTEM), APPLIED).await
}

pub(crate) async fn install(
    client: &Client,
    cluster: &Cluster,
    machine: &dyn Machine,
    kubeconfig: &str,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let Some(manifest) = &cluster.allocations.cni else { return Ok(()) };
    apply(manifest, machine, kubeconfig, cancelled).await?;
    let cni = cluster.spec.network.cni.to_string();
    let map = json!({"metadata": {"name": APPLIED}, "data": {"cni": cni}});
    let maps = Api::<ConfigMap>::namespaced(client.clone(), SYSTEM);
    let action = "record that the pod network is installed";
    insist(action, cancelled, || api::create(&maps, map.clone())).await
}

/// With kubectl, like the author of the manifest. Server-side, because client-side apply stores large objects in an
/// annotation that is too small for them.
async fn apply(
    manifest: &str,
    machine: &dyn Machine,
    kubeconfig: &str,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let words =
        ["kubectl", "--kubeconfig", kubeconfig, "apply", "--server-side", "--force-conflicts", "-f", "-"];
    let apply = Cmd { stdin: manifest.as_bytes().to_vec(), ..Cmd::new(words) };
    let patience = Patience::within("the pod network's installation", DEFINITIONS, cancelled);
    loop {
        let failed = match run(machine, "install the pod network", apply.clone()).await {
            Err(BootstrapError::Node { source: source @ GuestError::Failed { .. }, .. }) => source,
            done => return done.map(drop),
        };
        match patience.pause_for(POLL, &[]).await {
            Err(BootstrapError::TimedOut { .. }) => {
                return Err(BootstrapError::PodNetwork { source: failed });
            }
            result => result?,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fake_api::{FakeApi, Fault};
    use crate::files::ADMIN_CONF;
    use flotilla_testkit::fake::{self, FakeMachine};

    async fn apply_on(machine: &FakeMachine) -> Result<(), BootstrapError> {
        let never = Cancelled::new(Arc::new(|| false));
        apply("kind: Network", machine, ADMIN_CONF, &never).await
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_whose_kind_is_defined_beside_it_is_tried_again() {
        let missing = "resource mapping not found: ensure CRDs are installed first";
        let machine = FakeMachine::new(&[], &[("kubectl", Err(missing)), ("kubectl", Ok(""))]);
        apply_on(&machine).await.unwrap();
        let line =
            "kubectl --kubeconfig /etc/kubernetes/admin.conf apply --server-side --force-conflicts -f -";
        assert_eq!(machine.log(), [line, line]);
    }

    #[tokio::test]
    async fn a_network_is_installed_once() {
        let (api, never) = (FakeApi::default(), Cancelled::new(Arc::new(|| false)));
        let mut cluster = fake::cluster("10.213.0.0/24");
        assert!(is_installed(&api.client(), &cluster).await.unwrap(), "there is nothing to install");
        cluster.allocations.cni = Some("kind: Network".to_owned());
        assert!(!is_installed(&api.client(), &cluster).await.unwrap());
        let machine = FakeMachine::new(&[], &[]);
        for _ in 0..2 {
            install(&api.client(), &cluster, &machine, ADMIN_CONF, &never).await.unwrap();
            assert!(is_installed(&api.client(), &cluster).await.unwrap());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_api_server_does_not_lose_the_note_that_a_network_is_installed() {
        let (api, never) = (FakeApi::default(), Cancelled::new(Arc::new(|| false)));
        let mut cluster = fake::cluster("10.213.0.0/24");
        cluster.allocations.cni = Some("kind: Network".to_owned());
        api.fail("POST", 1, Fault::Refused(503, "etcdserver: no leader"));
        api.fail("POST", 1, Fault::Unanswered);
        install(&api.client(), &cluster, &FakeMachine::new(&[], &[]), ADMIN_CONF, &never).await.unwrap();
        assert!(is_installed(&api.client(), &cluster).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_manifest_that_is_none_is_the_error() {
        let machine = FakeMachine::new(&[], &[("kubectl", Err("error parsing STDIN")); 100]);
        let error = apply_on(&machine).await.unwrap_err();
        let BootstrapError::PodNetwork { source: GuestError::Failed { tail, .. } } = error else {
            panic!("{error:?}");
        };
        assert_eq!(tail, ["error parsing STDIN"]);
    }
}
