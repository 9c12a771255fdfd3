//! Waiting for what `--wait` names.
//!
//! A cluster of many nodes must not spend its CPUs on being asked: objects are listed once, and the API server
//! tells what changes in them ([`follow`]). What cannot be watched is asked for ever less often ([`Patience::pause`]).

use std::collections::BTreeSet;
use std::sync::Arc;

use flotilla_core::cluster::Cluster;
use flotilla_core::explain::one_line;
use flotilla_core::{BootstrapError, Condition, GuestError, Machine, node};
use flotilla_node_api::Unit;
use flotilla_spec::WantedPower;
use futures::future::{FutureExt, try_join_all};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::{Api, Client};

use crate::api::{self, PATIENT, SYSTEM};
use crate::credentials;
use crate::patience::{Cancelled, Patience};
use crate::phase::in_node;

mod dns;
mod follow;
mod nodes;
mod probe;
mod proxy;
mod workloads;

use follow::{Followed, Objects, until_right};
use probe::Probe;

/// Waits until each condition has held once.
pub(crate) async fn wait(
    cluster: &Cluster,
    primary: &dyn Machine,
    machines: &[Arc<dyn Machine>],
    conditions: &BTreeSet<Condition>,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let client = api::client(cluster, &credentials::require(primary).await?, PATIENT).await?;
    // One that is on and not to run may not have joined.
    let is_to_run = |machine: &&Arc<dyn Machine>| {
        let mut nodes = cluster.spec.nodes.iter().filter(|node| node.power == WantedPower::Running);
        nodes.any(|node| node.name == *machine.name())
    };
    let machines: Vec<_> = machines.iter().filter(is_to_run).cloned().collect();
    // A query that is sent before the rules of kube-proxy exist is lost, and costs a second: DNS is asked last.
    let (dns, others): (BTreeSet<_>, BTreeSet<_>) =
        conditions.iter().copied().partition(|condition| *condition == Condition::Dns);
    let patience = Patience::new(Condition::titles(conditions), cancelled);
    for together in [others, dns] {
        let mut waits = Vec::new();
        for condition in together {
            // On the heap: all of them together make a large future.
            waits.push(wait_for(condition, &client, cluster, &machines, &patience).boxed());
        }
        try_join_all(waits).await?;
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
                patience.pause(&problems).await?;
            }
            Ok(())
        }
        Condition::NodeReady => {
            let boots = nodes::boots(machines).await;
            nodes::wait(client, cluster, &boots, patience).await
        }
        Condition::DefaultServiceAccount => {
            let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "default");
            until_right(Followed::new(accounts), patience, service_account_problems).await
        }
        Condition::Controllers => {
            let is_control_plane = |machine: &&Arc<dyn Machine>| {
                cluster.spec.control_planes().any(|node| node.name == *machine.name())
            };
            let machines: Vec<_> = machines.iter().filter(is_control_plane).cloned().collect();
            Probe::of_controllers(&cluster.spec).answers_in_all(&machines, patience).await
        }
        Condition::KubeProxy => proxy::wait(client, cluster, machines, patience).await,
        Condition::Dns => dns::wait(client, cluster, machines, patience).await,
        Condition::SystemPods => {
            let pods = Api::<Pod>::namespaced(client.clone(), SYSTEM);
            until_right(Followed::new(pods), patience, workloads::pod_problems).await
        }
        Condition::AppsRunning => {
            let deployments = Api::<Deployment>::namespaced(client.clone(), SYSTEM);
            until_right(Followed::new(deployments), patience, workloads::deployment_problems).await
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

fn service_account_problems(accounts: &Objects<ServiceAccount>) -> Vec<String> {
    let missing = !accounts.contains_key("default");
    missing.then(|| "the default service account does not exist".to_owned()).into_iter().collect()
}

/// A kubelet that was seen to run is not asked again.
async fn wait_for_kubelets(machines: &[Arc<dyn Machine>], patience: &Patience) -> Result<(), BootstrapError> {
    let mut waiting = machines.to_vec();
    loop {
        let (mut problems, mut still_waiting) = (Vec::new(), Vec::new());
        for machine in waiting {
            let problem = match node::status(machine.as_ref()).await {
                Ok(status) if status.is_active(&Unit::KUBELET) => continue,
                Ok(_) => format!("the kubelet of node {} does not run", machine.name()),
                // It will not answer otherwise, however long one waits.
                Err(error @ GuestError::OtherVersion { .. }) => {
                    return Err(in_node("inspect the kubelet", machine.as_ref())(error));
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
        patience.pause(&problems).await?;
    }
}

#[cfg(test)]
mod tests;
