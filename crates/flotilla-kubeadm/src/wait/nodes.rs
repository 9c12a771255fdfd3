//! Nodes that are Ready.

use std::collections::BTreeMap;
use std::sync::Arc;

use flotilla_core::cluster::Cluster;
use flotilla_core::explain::one_line;
use flotilla_core::{BootstrapError, Machine};
use flotilla_spec::WantedPower;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::follow::{Followed, Objects};
use crate::drain;
use crate::patience::Patience;

/// What the API server marks every new node with, until the controller manager has seen that it is Ready.
pub(super) const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Another one each time that a machine is turned on, and the kubelet reports it.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// The boot that each machine is in. What a node said in another boot is of an earlier life. Times would not tell:
/// somebody may have set the clock since.
pub(super) async fn boots(machines: &[Arc<dyn Machine>]) -> BTreeMap<String, String> {
    let look = |machine: &Arc<dyn Machine>| {
        let machine = Arc::clone(machine);
        async move {
            let boot = String::from_utf8(machine.guest().read(BOOT).await.ok()??).ok()?;
            Some((machine.name().to_string(), boot.trim().to_owned()))
        }
    };
    futures::future::join_all(machines.iter().map(look)).await.into_iter().flatten().collect()
}

/// Waits until all nodes that are to run are Ready.
pub(super) async fn wait(
    client: &Client,
    cluster: &Cluster,
    boots: &BTreeMap<String, String>,
    patience: &Patience,
) -> Result<(), BootstrapError> {
    let mut nodes = Followed::new(Api::<Node>::all(client.clone()));
    loop {
        let looked = match nodes.objects().await {
            Ok(objects) => problems(client, cluster, boots, objects).await,
            Err(error) => Err(error),
        };
        let seen = match looked {
            Ok(seen) if seen.is_empty() => return Ok(()),
            Ok(seen) => seen,
            Err(error) => {
                // Somebody else has changed a node, or the API server could not be asked.
                nodes.distrust();
                vec![one_line(&error)]
            }
        };
        nodes.change(patience, &seen).await?;
    }
}

/// What keeps the nodes that are to run from being Ready. Those that are get their pods at once.
pub(super) async fn problems(
    client: &Client,
    cluster: &Cluster,
    boots: &BTreeMap<String, String>,
    nodes: &mut Objects<Node>,
) -> Result<Vec<String>, kube::Error> {
    let mut problems = Vec::new();
    for wanted in cluster.spec.nodes.iter().filter(|node| node.power == WantedPower::Running) {
        let name = wanted.name.as_ref();
        let problem = problem(name, boots.get(name).map(String::as_str), nodes.get(name));
        if let Some(node) = nodes.get_mut(name) {
            // A drain that was killed has left it closed.
            if drain::was_drained(node) {
                *node = drain::open(client, node).await?;
            } else if problem.is_none() && is_marked(node) {
                *node = unmark(client, node).await?;
            }
        }
        problems.extend(problem);
    }
    Ok(problems)
}

/// `boot` is the one that the node's machine is in, if that is known.
pub(super) fn problem(name: &str, boot: Option<&str>, node: Option<&Node>) -> Option<String> {
    let Some(node) = node else { return Some(format!("node {name} is not registered")) };
    let status = node.status.as_ref();
    let reported = status.and_then(|status| status.node_info.as_ref()).map(|info| info.boot_id.as_str());
    let is_old = boot.is_some_and(|boot| reported != Some(boot));
    let mut conditions = status.into_iter().flat_map(|status| status.conditions.iter().flatten());
    match conditions.find(|condition| condition.type_ == "Ready") {
        Some(_) if is_old => Some(format!("node {name} has not reported since it booted")),
        Some(ready) if ready.status == "True" => None,
        Some(ready) => Some(format!(
            "node {name} is not Ready: {}",
            ready.message.as_deref().unwrap_or("no reason given")
        )),
        None => Some(format!("node {name} has not reported yet")),
    }
}

/// Whether pods are kept off a node because it was not Ready when it registered.
pub(super) fn is_marked(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.into_iter().any(|taint| taint.key == NOT_READY)
}

/// Lets pods come to a node that is Ready, as the controller manager does a few seconds later.
async fn unmark(client: &Client, node: &Node) -> Result<Node, kube::Error> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let others: Vec<_> = taints.filter(|taint| taint.key != NOT_READY).collect();
    // Of this very version: what another has changed meanwhile is not undone.
    let patch = Patch::Merge(json!({
        "metadata": {"resourceVersion": node.resource_version()},
        "spec": {"taints": others},
    }));
    let nodes = Api::<Node>::all(client.clone());
    nodes.patch(&node.name_any(), &PatchParams::default(), &patch).await
}
