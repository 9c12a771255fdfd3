//! What pods in the namespace `default` need: a service account, and the authority's certificate to mount.
//!
//! The controller manager makes both in every namespace, as soon as it has started and become the leader. Made here, as
//! it makes them, a first pod need not wait for that.

use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::{Api, Client};
use serde_json::json;

use crate::api::{create, exists};

const NAMESPACE: &str = "default";
const SERVICE_ACCOUNT: &str = "default";
const AUTHORITY: &str = "kube-root-ca.crt";

pub(crate) async fn can_have_pods(client: &Client) -> Result<bool, kube::Error> {
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), NAMESPACE);
    let maps = Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE);
    let (account, map) = tokio::try_join!(exists(&accounts, SERVICE_ACCOUNT), exists(&maps, AUTHORITY))?;
    Ok(account && map)
}

/// Makes both. Fails as long as the namespace itself does not exist.
pub(crate) async fn prepare(client: &Client, authority_pem: &str) -> Result<(), kube::Error> {
    let account = json!({"metadata": {"name": SERVICE_ACCOUNT}});
    let map = json!({"metadata": {"name": AUTHORITY}, "data": {"ca.crt": authority_pem}});
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), NAMESPACE);
    let maps = Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE);
    tokio::try_join!(create(&accounts, account), create(&maps, map)).map(drop)
}
