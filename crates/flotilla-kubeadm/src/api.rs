//! The API as seen from the host: one client, one connection, short questions.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use flotilla_engine::cluster::Cluster;
use flotilla_engine::port::BootstrapError;

use crate::credentials::Credentials;

pub(crate) const SYSTEM: &str = "kube-system";

/// How long a connection may take where only a short look is wanted. The node is on this host: one that is up
/// answers in less.
pub(crate) const QUICK: Duration = Duration::from_millis(300);
/// The same where the API server may be busy with its own start.
pub(crate) const PATIENT: Duration = Duration::from_secs(2);

/// No question asked here takes longer, unless the server is stuck.
const ANSWER: Duration = Duration::from_secs(10);

/// A client for the cluster's API with these credentials. Connects with its first request.
pub(crate) async fn client(
    cluster: &Cluster,
    credentials: &Credentials,
    connect: Duration,
) -> Result<Client, BootstrapError> {
    let kubeconfig: Kubeconfig = serde_json::from_value(json!({
        "clusters": [{"name": "", "cluster": {
            "server": cluster.api_url(),
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
    // Whoever waits asks again anyway, and not after as many seconds as the server would like.
    config.default_retry = false;
    Client::try_from(config).map_err(|source| unusable(source.into()))
}

/// Whether the API serves what every cluster has.
pub(crate) async fn serves(client: &Client) -> Result<bool, kube::Error> {
    exists(&Api::<Namespace>::all(client.clone()), SYSTEM).await
}

/// Whether the API server is through with something that it does after its start; an error while it is not.
pub(crate) async fn is_done(client: &Client, hook: &str) -> Result<(), kube::Error> {
    let request = http::Request::get(format!("/readyz/poststarthook/{hook}")).body(Vec::new());
    let request = request.expect("the hooks' names are ours");
    client.request_text(request).await.map(drop)
}

/// Whether there is an object of that name.
pub(crate) async fn exists<K>(api: &Api<K>, name: &str) -> Result<bool, kube::Error>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    Ok(api.get_metadata_opt(name).await?.is_some())
}

/// Makes an object, unless somebody was faster.
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

/// The error of a question that failed.
pub(crate) fn cannot(action: impl Into<String>) -> impl FnOnce(kube::Error) -> BootstrapError {
    let action = action.into();
    move |source| BootstrapError::Api { action, source: source.into() }
}

/// An error with those of its causes that it does not tell itself.
pub(crate) fn in_one_line(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let text = next.to_string();
        if !line.contains(&text) {
            line = format!("{line}: {text}");
        }
        cause = next.source();
    }
    line
}

fn unusable(source: Box<dyn std::error::Error + Send + Sync>) -> BootstrapError {
    BootstrapError::Api { action: "use the administrator's credentials".to_owned(), source }
}

#[cfg(test)]
mod tests;
