//! Cluster DNS that answers.

use std::sync::Arc;
use std::time::Duration;

use flotilla_core::cluster::Cluster;
use flotilla_core::explain::one_line;
use flotilla_core::{BootstrapError, Machine};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::api::ListParams;
use kube::{Api, Client};

use super::probe::Probe;
use crate::api::SYSTEM;
use crate::patience::Patience;

const SERVICE: &str = "kube-dns";
const SLICES: &str = "kubernetes.io/service-name=kube-dns";
const DEPLOYMENT: &str = "coredns";

/// How long kube-proxy may take on each node to lead to the pods of `CoreDNS` once they answer: a second on an idle host.
///
/// Not longer: a cluster that works but for that is better than a command that gives up.
const SETTLE: Duration = Duration::from_secs(10);

/// Waits until the pods of `CoreDNS` answer a query from the first machine; then a moment until they answer in each
/// machine by the service, which is the way of every pod's query.
pub(super) async fn wait(
    client: &Client,
    cluster: &Cluster,
    machines: &[Arc<dyn Machine>],
    patience: &Patience,
) -> Result<(), BootstrapError> {
    let Some(machine) = machines.first() else { return Ok(()) };
    let Some(service) = address(client, patience).await? else { return Ok(()) };
    let domain = &cluster.spec.network.dns_domain;
    let slices = Api::<EndpointSlice>::namespaced(client.clone(), SYSTEM);
    loop {
        // Pods come and go while DNS starts, so they are looked up for each query.
        let problem = match slices.list(&ListParams::default().labels(SLICES)).await {
            Ok(slices) => match servers(&slices.items) {
                servers if servers.is_empty() => "no pod of CoreDNS is ready".to_owned(),
                servers => match Probe::of_dns(&servers, domain).ask(machine.as_ref()).await? {
                    None => break,
                    Some(problem) => problem,
                },
            },
            Err(error) => one_line(&error),
        };
        patience.pause(&[problem]).await?;
    }
    let by_service = Probe::of_dns(&[service], domain);
    match tokio::time::timeout(SETTLE, by_service.answers_in_all(machines, patience)).await {
        Ok(settled) => settled,
        Err(_elapsed) => Ok(()),
    }
}

/// The address of the service; none if the user has removed DNS or scaled it to nothing.
async fn address(client: &Client, patience: &Patience) -> Result<Option<String>, BootstrapError> {
    let services = Api::<Service>::namespaced(client.clone(), SYSTEM);
    let deployments = Api::<Deployment>::namespaced(client.clone(), SYSTEM);
    loop {
        match tokio::try_join!(services.get_opt(SERVICE), deployments.get_opt(DEPLOYMENT)) {
            Ok((service, deployment)) => {
                let replicas = |deployment: Deployment| deployment.spec.and_then(|spec| spec.replicas);
                let runs = deployment.is_some_and(|deployment| replicas(deployment) != Some(0));
                return Ok(service.filter(|_| runs).and_then(|service| service.spec?.cluster_ip));
            }
            Err(error) => patience.pause(&[one_line(&error)]).await?,
        }
    }
}

/// The addresses of the pods that are ready.
fn servers(slices: &[EndpointSlice]) -> Vec<String> {
    let is_ready = |endpoint: &&Endpoint| {
        endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
    };
    let ready = slices.iter().flat_map(|slice| &slice.endpoints).filter(is_ready);
    ready.flat_map(|endpoint| endpoint.addresses.clone()).collect()
}
