//! A cluster that begins with several control planes: all of them found it together.
//!
//! ```text
//! first: authorities ─▶ each: keys, certificates, etcd, API server, kubelet ─▶ first answer ─▶ each joins: finish
//! ```
//!
//! Joining one after the other would take long: etcd takes in a new member only when it has known the last one for five
//! seconds. So its members know each other from the beginning. The phases are those of `kubeadm init`, in each machine.
//!
//! A mark says of a machine that it is founding. Before the first answer nobody was promised anything: what a killed
//! founding left is cleared away by the next. With the first answer another mark takes its place on all initial members: from
//! then on their data is the cluster's, whatever becomes of the first.

use std::sync::Arc;

use flotilla_core::cluster::{Cluster, Node};
use flotilla_core::{BootstrapError, Cmd, Machine};
use futures::future::{join_all, try_join_all};
use k8s_openapi::api::core::v1::Node as KubeNode;
use kube::{Api, Client};

use crate::api::{exists, insist};
use crate::config;
use crate::control_plane::{LOOK, hand_over};
use crate::files::{CONFIG, FOUNDED, FOUNDING, FOUNDING_CONFIG};
use crate::init;
use crate::kubelet;
use crate::leave;
use crate::marks;
use crate::mirror;
use crate::patience::Cancelled;
use crate::phase::{self, run};
use crate::rotation;

const DATA: &str = "/var/lib/etcd/member";

/// Whether these machines can found a cluster together. Not if one has data that no unfinished founding has left: it may be
/// all that somebody has.
pub(crate) async fn is_possible(
    machine: &dyn Machine,
    others: &[Arc<dyn Machine>],
) -> Result<bool, BootstrapError> {
    let script = format!("[ ! -e {DATA} ] || [ -e {FOUNDING} -a ! -e {FOUNDED} ] || echo data");
    let every = others.iter().map(AsRef::as_ref).chain([machine]);
    let looks = every.map(|machine| run(machine, "look for data of etcd", Cmd::sh(script.as_str())));
    let found = try_join_all(looks).await?;
    Ok(!others.is_empty() && found.iter().all(|output| output.text().is_empty()))
}

/// Begins etcd and the API servers in all of these machines.
pub(crate) async fn found(
    cluster: &Cluster,
    node: &Node,
    machine: &dyn Machine,
    others: &[Arc<dyn Machine>],
) -> Result<(), BootstrapError> {
    let mut initial_members = vec![(node.clone(), machine)];
    let nodes = others.iter().filter_map(|other| Some((cluster.node(other.name())?, other.as_ref())));
    initial_members.extend(nodes);
    let nodes: Vec<_> = initial_members.iter().map(|(node, _)| node.clone()).collect();
    try_join_all(initial_members.iter().map(|(node, machine)| prepare(cluster, node, *machine, &nodes)))
        .await?;
    init::claim_virtual_ip(machine).await?;
    phase::authorities(machine).await?;
    try_join_all(others.iter().map(|other| hand_over(machine, other.as_ref()))).await?;
    // One that fails does not end the others: their processes would be left behind.
    let begun = join_all(initial_members.iter().map(|(_, machine)| phase::found(*machine))).await;
    begun.into_iter().collect()
}

/// Writes down what kubeadm is reported, in a machine with nothing of an earlier try in it.
async fn prepare(
    cluster: &Cluster,
    node: &Node,
    machine: &dyn Machine,
    initial_members: &[Node],
) -> Result<(), BootstrapError> {
    let left = run(machine, "look for an unfinished start", Cmd::sh(LOOK)).await?;
    if !left.text().is_empty() {
        leave::clear(machine).await?;
    }
    marks::put(machine, FOUNDING).await?;
    let facts = init::facts(machine).await?;
    let patches = config::patches(&cluster.spec, &node.spec);
    phase::put_configuration(machine, CONFIG, &config::render(cluster, node, facts), &patches).await?;
    let founding = config::render_founding(cluster, node, facts, initial_members);
    phase::put_configuration(machine, FOUNDING_CONFIG, &founding, &[]).await
}

/// Lets the kubelets register their nodes once the API answers. They have tried in vain meanwhile, and would let up to seven
/// seconds pass before they try again.
pub(crate) async fn register(
    client: &Client,
    machine: &dyn Machine,
    others: &[Arc<dyn Machine>],
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let nodes = Api::<KubeNode>::all(client.clone());
    let every = others.iter().map(AsRef::as_ref).chain([machine]);
    let registrations = every.map(|machine| async {
        let name = machine.name().as_ref();
        if !insist("look for the node", cancelled, || exists(&nodes, name)).await? {
            kubelet::restart(machine).await?;
        }
        Ok(())
    });
    try_join_all(registrations).await.map(drop)
}

/// Says of all other initial members that their data is the cluster's, once the API has answered and the first is a member.
pub(crate) async fn keep(others: &[Arc<dyn Machine>]) -> Result<(), BootstrapError> {
    let kept = others.iter().map(|other| async {
        if marks::has(other.as_ref(), FOUNDING).await? {
            marks::put(other.as_ref(), FOUNDED).await?;
            let end = Cmd::new(["rm", "-f", FOUNDING]);
            run(other.as_ref(), "finish the bootstrap", end).await?;
        }
        Ok(())
    });
    try_join_all(kept).await.map(drop)
}

/// Whether the machine has founded its cluster together with others, and is not finished yet.
pub(crate) async fn is_founder(machine: &dyn Machine) -> Result<bool, BootstrapError> {
    Ok(marks::has(machine, FOUNDING).await? || marks::has(machine, FOUNDED).await?)
}

/// Gives a founder whose node has registered what the first one gets when the cluster is completed.
pub(crate) async fn finish(
    client: &Client,
    node: &Node,
    machine: &dyn Machine,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let pieces = tokio::join!(
        phase::controller_manager(machine),
        phase::scheduler(machine),
        phase::mark_control_plane(machine),
        mirror::ensure_etcd(client, node.spec.name.as_ref(), cancelled),
    );
    pieces.0.and(pieces.1).and(pieces.2).and(pieces.3)?;
    rotation::ensure(machine).await
}

/// Takes away what says that the machine is founding, once another mark says what it is.
pub(crate) async fn end(machine: &dyn Machine) -> Result<(), BootstrapError> {
    let end = Cmd::new(["rm", "-f", FOUNDING, FOUNDED, FOUNDING_CONFIG]);
    run(machine, "finish the bootstrap", end).await.map(drop)
}

#[cfg(test)]
mod tests;
