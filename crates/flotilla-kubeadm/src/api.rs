//! The API as seen from the host: one client, one connection, short requests.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use flotilla_core::BootstrapError;
use flotilla_core::cluster::{self, Cluster};

use crate::credentials::Credentials;
use crate::patience::{Cancelled, Patience};

pub(crate) const SYSTEM: &str = "kube-system";

/// Time limit of a connection for a quick check. The node is on this host: one that is up answers faster.
pub(crate) const QUICK: Duration = Duration::from_millis(300);
/// The same for everything else: a host that swaps, or a node with a fraction of a CPU, needs seconds for a handshake. A
/// connection that was lost while the virtual IP moved is retried by the kernel long before.
pub(crate) const PATIENT: Duration = Duration::from_secs(10);

/// No request here takes longer, unless the server hangs.
const ANSWER: Duration = Duration::from_secs(30);

/// A client for the cluster's API with these credentials. Connects with its first request.
pub(crate) async fn client(
    cluster: &Cluster,
    credentials: &Credentials,
    connect: Duration,
) -> Result<Client, BootstrapError> {
    let kubeconfig: Kubeconfig = serde_json::from_value(json!({
        "clusters": [{"name": "", "cluster": {
            "server": cluster::url(cluster.api()),
            "certificate-authority-data": credentials.authority,
        }}],
        "users": [{"name": "", "user": {
            "client-certificate-data": credentials.certificate,
            "client-key-data": credentials.key,
        }}],
        "contexts": [{"name": "", "context": {"cluster": "", "user": ""}}],
        "current-context": "",
    }))
    .expect("these are the fields of a kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let mut config = config.map_err(|source| unusable(source.into()))?;
    // The cluster's network is on this host: a proxy would not find it.
    config.proxy_url = None;
    config.connect_timeout = Some(connect);
    config.read_timeout = Some(ANSWER);
    config.reset_reader_on_write = true;
    // Callers retry themselves, and sooner than the server's Retry-After.
    config.default_retry = false;
    Client::try_from(config).map_err(|source| unusable(source.into()))
}

/// Whether the API serves what every cluster has.
pub(crate) async fn serves(client: &Client) -> Result<bool, kube::Error> {
    exists(&Api::<Namespace>::all(client.clone()), SYSTEM).await
}

/// Whether the API serves anything before the limit is reached.
pub(crate) async fn answers(
    client: &Client,
    limit: Duration,
    cancelled: &Cancelled,
) -> Result<bool, BootstrapError> {
    let patience = Patience::within("the API's answer", limit, cancelled);
    while serves(client).await.is_err() {
        match patience.pause(&[]).await {
            Err(BootstrapError::TimedOut { .. }) => return Ok(false),
            result => result?,
        }
    }
    Ok(true)
}

/// Whether the API server has finished a post-start hook; an error while it has not.
pub(crate) async fn is_done(client: &Client, hook: &str) -> Result<(), kube::Error> {
    let request = http::Request::get(format!("/readyz/poststarthook/{hook}")).body(Vec::new());
    let request = request.expect("the hooks' names are ours");
    client.request_text(request).await.map(drop)
}

/// Whether an object of that name exists.
pub(crate) async fn exists<K>(api: &Api<K>, name: &str) -> Result<bool, kube::Error>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    Ok(api.get_metadata_opt(name).await?.is_some())
}

/// Whether objects of all of these names exist. One connection, one request at a time.
pub(crate) async fn all_exist<K>(api: &Api<K>, names: &[&str]) -> Result<bool, kube::Error>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    for name in names {
        if !exists(api, name).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Creates an object unless it exists.
pub(crate) async fn create<K>(api: &Api<K>, object: Value) -> Result<(), kube::Error>
where
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let object = serde_json::from_value(object).expect("it is such an object");
    match api.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        made => made.map(drop),
    }
}

/// Deletes an object if it exists.
pub(crate) async fn delete<K>(api: &Api<K>, name: &str, how: &DeleteParams) -> Result<(), kube::Error>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    match api.delete(name, how).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        deleted => deleted.map(drop),
    }
}

/// Retries while the error is temporary, within the limit of requests. The request must be idempotent: an
/// answer may be lost.
pub(crate) async fn insist<T, F>(
    action: impl Into<String>,
    cancelled: &Cancelled,
    ask: impl Fn() -> F,
) -> Result<T, BootstrapError>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    let action = action.into();
    let patience = Patience::for_request(action.as_str(), cancelled);
    loop {
        let error = match ask().await {
            Err(error) if is_passing(&error) => error,
            answer => return answer.map_err(cannot(action)),
        };
        match patience.pause(&[]).await {
            Err(BootstrapError::TimedOut { .. }) => return Err(cannot(action)(error)),
            result => result?,
        }
    }
}

/// Whether a retry may succeed: the server was not reached, it is temporarily unable, or the object was changed
/// concurrently.
pub(crate) fn is_passing(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => matches!(status.code, 409 | 429 | 500..),
        error => matches!(error, kube::Error::Service(_) | kube::Error::HyperError(_)),
    }
}

/// The error of a failed request.
pub(crate) fn cannot(action: impl Into<String>) -> impl FnOnce(kube::Error) -> BootstrapError {
    let action = action.into();
    move |source| BootstrapError::Api { action, source: source.into() }
}

fn unusable(source: Box<dyn std::error::Error + Send + Sync>) -> BootstrapError {
    BootstrapError::Api { action: "use the administrator's credentials".to_owned(), source }
}

#[cfg(test)]
mod tests;
