//! Waiting for what `--wait` names.
//!
//! A cluster of many nodes must not spend its CPUs on being asked: objects are listed once, and the API server
//! tells what changes in them ([`follow`]). What cannot be watched is asked for ever less often ([`Patience::pause`]).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use flotilla_core::cluster::Cluster;
use flotilla_core::explain::one_line;
use flotilla_core::{BootstrapError, Condition, GuestError, Machine, node};
use flotilla_node_api::Unit;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::{Api, Client};

use crate::api::{self, PATIENT, SYSTEM, exists};
use crate::credentials;
use crate::patience::{Cancelled, Patience};
use crate::phase::in_node;

mod follow;
mod nodes;
mod workloads;

use follow::until_right;

const POLL: Duration = Duration::from_millis(100);

/// Waits until each condition has held once.
pub(crate) async fn wait(
    cluster: &Cluster,
    primary: &dyn Machine,
    machines: &[Arc<dyn Machine>],
    conditions: &BTreeSet<Condition>,
    limit: Duration,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let client = api::client(cluster, &credentials::require(primary).await?, PATIENT).await?;
    let names: Vec<_> = conditions.iter().map(|condition| condition.name()).collect();
    let patience = Patience::new(format!("waiting for {}", names.join(", ")), limit, cancelled);
    for condition in conditions {
        wait_for(*condition, &client, cluster, machines, &patience).await?;
    }
    Ok(())
}

async fn wait_for(
    condition: Condition,
    client: &Client,
    cluster: &Cluster,
    machines: &[Arc<dyn Machine>],
    patience: &Patience,
) -> Result<(), BootstrapError> {
    match condition {
        Condition::ApiServer => {
            while let Some(problems) = seen(api_server_problems(client).await) {
                patience.pause(POLL, &problems).await?;
            }
            Ok(())
        }
        Condition::NodeReady => {
            let boots = nodes::boots(machines).await;
            nodes::wait(client, cluster, &boots, patience).await
        }
        Condition::DefaultServiceAccount => {
            while let Some(problems) = seen(service_account_problems(client).await) {
                patience.pause(POLL, &problems).await?;
            }
            Ok(())
        }
        Condition::SystemPods => {
            until_right(Api::<Pod>::namespaced(client.clone(), SYSTEM), patience, workloads::pod_problems)
                .await
        }
        Condition::AppsRunning => {
            let deployments = Api::<Deployment>::namespaced(client.clone(), SYSTEM);
            until_right(deployments, patience, workloads::deployment_problems).await
        }
        Condition::Kubelet => wait_for_kubelets(machines, patience).await,
    }
}

/// What keeps a condition from holding, a line each; a failure to look is a problem, too. None if it holds.
fn seen(looked: Result<Vec<String>, kube::Error>) -> Option<Vec<String>> {
    let problems = looked.unwrap_or_else(|error| vec![one_line(&error)]);
    (!problems.is_empty()).then_some(problems)
}

async fn api_server_problems(client: &Client) -> Result<Vec<String>, kube::Error> {
    let request = http::Request::get("/readyz").body(Vec::new()).expect("a path alone is a request");
    let answer = client.request_text(request).await?;
    Ok(if answer == "ok" { Vec::new() } else { answer.lines().map(str::to_owned).collect() })
}

async fn service_account_problems(client: &Client) -> Result<Vec<String>, kube::Error> {
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "default");
    let missing = !exists(&accounts, "default").await?;
    Ok(missing.then(|| "the default service account does not exist".to_owned()).into_iter().collect())
}

/// A kubelet that was seen to run is not asked again.
async fn wait_for_kubelets(machines: &[Arc<dyn Machine>], patience: &Patience) -> Result<(), BootstrapError> {
    let mut waiting = machines.to_vec();
    loop {
        let (mut problems, mut still_waiting) = (Vec::new(), Vec::new());
        for machine in waiting {
            let problem = match node::status(machine.as_ref()).await {
                Ok(status) if status.is_active(Unit::Kubelet) => continue,
                Ok(_) => format!("the kubelet of node {} does not run", machine.name()),
                // It will not answer otherwise, however long one waits.
                Err(error @ GuestError::OtherVersion { .. }) => {
                    return Err(in_node("look at the kubelet", machine.as_ref())(error));
                }
                Err(error) => error.to_string(),
            };
            problems.push(problem);
            still_waiting.push(machine);
        }
        if problems.is_empty() {
            return Ok(());
        }
        waiting = still_waiting;
        patience.pause(POLL, &problems).await?;
    }
}

#[cfg(test)]
mod tests;
