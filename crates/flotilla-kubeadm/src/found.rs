//! Bootstraps a cluster with several control planes together.
//!
//! ```text
//! first: authorities ─▶ each: keys, certificates, etcd, API server, kubelet ─▶ first answer ─▶ each joins: finish
//! ```
//!
//! Joining one after the other takes long: etcd adds a member only five seconds after the last one. So all initial
//! members know each other from the start. The phases are those of `kubeadm init`, in each machine.
//!
//! The record of each machine says that the bootstrap is unfinished. Before the API's first answer no data of users
//! exists: the next attempt removes what a killed one left. With the first answer all of them are recorded as initial
//! members: from then on their data belongs to the cluster, even if the first one fails.

use std::sync::Arc;

use flotilla_core::cluster::{Cluster, Node};
use flotilla_core::{BootstrapError, Cmd, Machine, Membership};
use futures::future::{join_all, try_join_all};
use k8s_openapi::api::core::v1::Node as KubeNode;
use kube::{Api, Client};

use crate::alone;
use crate::api::{exists, insist};
use crate::authorities;
use crate::config;
use crate::control_plane::{LOOK, hand_over};
use crate::files::{CONFIG, FOUNDING_CONFIG};
use crate::init;
use crate::kubelet;
use crate::leave;
use crate::membership;
use crate::mirror;
use crate::patience::Cancelled;
use crate::phase::{self, run};
use crate::rotation;
use crate::serving;

const DATA: &str = "/var/lib/etcd/member";

/// Whether these machines can bootstrap a cluster. Not if one has data that is not from an unfinished bootstrap: it
/// may be the only copy.
pub(crate) async fn is_possible(
    machine: &dyn Machine,
    others: &[Arc<dyn Machine>],
) -> Result<bool, BootstrapError> {
    let every = others.iter().map(AsRef::as_ref).chain([machine]);
    let looks = every.map(|machine| async move {
        if membership::of(machine).await? == Membership::Founding {
            return Ok::<_, BootstrapError>(true);
        }
        let look = Cmd::sh(format!("[ ! -e {DATA} ] || echo data"));
        Ok(run(machine, "look for data of etcd", look).await?.text().is_empty())
    });
    let are_free = try_join_all(looks).await?;
    Ok(!others.is_empty() && are_free.into_iter().all(|is_free| is_free))
}

/// Starts etcd and the API servers in all of these machines.
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
    authorities::put(cluster, machine).await?;
    phase::authorities(machine).await?;
    try_join_all(others.iter().map(|other| hand_over(machine, other.as_ref()))).await?;
    // A failure does not cancel the others: their processes would be left behind.
    let begun = join_all(initial_members.iter().map(|(_, machine)| phase::found(*machine))).await;
    begun.into_iter().collect()
}

/// Writes the configuration of kubeadm, in a machine without leftovers of an earlier attempt.
async fn prepare(
    cluster: &Cluster,
    node: &Node,
    machine: &dyn Machine,
    initial_members: &[Node],
) -> Result<(), BootstrapError> {
    let look = format!("{}; {LOOK}", alone::forget());
    let left = run(machine, "look for an unfinished start", Cmd::sh(look)).await?;
    if !left.text().is_empty() {
        leave::clear(machine).await?;
    }
    membership::set(machine, Membership::Founding).await?;
    serving::ensure(cluster, node, machine).await?;
    let facts = init::facts(machine).await?;
    let patches = config::patches(cluster, &node.spec);
    phase::put_configuration(machine, CONFIG, &config::render(cluster, node, facts), &patches).await?;
    let founding = config::render_founding(cluster, node, facts, initial_members);
    phase::put_configuration(machine, FOUNDING_CONFIG, &founding, &[]).await
}

/// Restarts the kubelets when the API answers, so that they register immediately: after failed attempts they would
/// wait up to seven seconds.
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

/// Records the data of all other initial members as the cluster's, when the API has answered and the first is a member.
pub(crate) async fn keep(others: &[Arc<dyn Machine>]) -> Result<(), BootstrapError> {
    let kept = others.iter().map(|other| async {
        if membership::of(other.as_ref()).await? == Membership::Founding {
            membership::set(other.as_ref(), Membership::InitialMember).await?;
        }
        Ok(())
    });
    try_join_all(kept).await.map(drop)
}

/// Whether the machine is an initial member whose setup is unfinished.
pub(crate) async fn is_founder(machine: &dyn Machine) -> Result<bool, BootstrapError> {
    Ok(matches!(membership::of(machine).await?, Membership::Founding | Membership::InitialMember))
}

/// Completes a registered initial member like the first one.
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

/// Removes the configuration of the bootstrap when the membership is recorded.
pub(crate) async fn end(machine: &dyn Machine) -> Result<(), BootstrapError> {
    let end = Cmd::new(["rm", "-f", FOUNDING_CONFIG]);
    run(machine, "finish the bootstrap", end).await.map(drop)
}

#[cfg(test)]
mod tests;
