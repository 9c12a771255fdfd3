//! kube-proxy on every node: without it pods there reach no service.

use std::collections::BTreeSet;
use std::sync::Arc;

use flotilla_core::cluster::Cluster;
use flotilla_core::explain::one_line;
use flotilla_core::{BootstrapError, Machine};
use flotilla_spec::Component;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};

use super::follow::{Followed, Objects, until_right};
use super::probe::{Probe, setting};
use crate::api::SYSTEM;
use crate::patience::Patience;

const NAME: &str = "kube-proxy";
const PODS: &str = "k8s-app=kube-proxy";
/// kubeadm's own selector.
const OS: &str = "kubernetes.io/os";

/// Waits until kube-proxy has written its rules in all machines. The API may still show the pods of an earlier life, so
/// each is asked itself.
pub(super) async fn wait(
    client: &Client,
    cluster: &Cluster,
    machines: &[Arc<dyn Machine>],
    patience: &Patience,
) -> Result<(), BootstrapError> {
    if !is_wanted(client, patience).await? {
        return Ok(());
    }
    let nodes: BTreeSet<_> = machines.iter().map(|machine| machine.name().to_string()).collect();
    let pods = Api::<Pod>::namespaced(client.clone(), SYSTEM);
    let running = Followed::labelled(pods, PODS);
    until_right(running, patience, |pods| problems(&nodes, pods)).await?;
    // With an address of the user's own nobody knows where to ask.
    if setting(&cluster.spec, Component::KubeProxy, "metricsBindAddress").is_some() {
        return Ok(());
    }
    Probe::of_kube_proxy().answers_in_all(machines, patience).await
}

/// A user may replace kube-proxy: by removing it, or with a selector that no node matches.
async fn is_wanted(client: &Client, patience: &Patience) -> Result<bool, BootstrapError> {
    let sets = Api::<DaemonSet>::namespaced(client.clone(), SYSTEM);
    loop {
        match sets.get_opt(NAME).await {
            Ok(set) => return Ok(set.is_some_and(|set| is_for_all_nodes(&set))),
            Err(error) => patience.pause(&[one_line(&error)]).await?,
        }
    }
}

fn is_for_all_nodes(set: &DaemonSet) -> bool {
    let template = set.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let mut selector = template.into_iter().flat_map(|spec| spec.node_selector.iter().flatten());
    selector.all(|(label, _)| label == OS)
}

pub(super) fn problems(nodes: &BTreeSet<String>, pods: &Objects<Pod>) -> Vec<String> {
    let runs_on = |node: &String| {
        pods.values().any(|pod| {
            let is_on = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()) == Some(node);
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            is_on && phase == Some("Running")
        })
    };
    let without = nodes.iter().filter(|node| !runs_on(node));
    without.map(|node| format!("kube-proxy does not run on node {node}")).collect()
}
