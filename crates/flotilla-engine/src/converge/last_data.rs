//! Keeps the last copy of etcd's data: with it all objects of the API would be lost.

use std::sync::Arc;

use flotilla_core::cluster::{Cluster, Node};
use flotilla_core::{Machine, Membership};
use flotilla_spec::NodeName;

use super::Engine;
use super::retire::control_planes;
use crate::error::EngineError;
use crate::plan::Observed;
use crate::quorum::Quorum;

impl Engine<'_> {
    /// Refuses to delete these nodes if no control plane that stays has etcd's data, while one of them has it or may
    /// have it. Nothing can force that: quorum comes back, data does not.
    pub(super) async fn require_copy_elsewhere(
        &self,
        cluster: &Cluster,
        observed: &Observed,
        nodes: &[NodeName],
    ) -> Result<(), EngineError> {
        let going = control_planes(cluster, nodes);
        if going.is_empty() {
            return Ok(());
        }
        let machines = self.machines(cluster).await?;
        let mut staying = 0;
        for node in copies_elsewhere(cluster, observed, nodes) {
            let has_data = self.still_has_data(&node, observed, machines.get(&node.spec.name)).await;
            staying += usize::from(has_data);
        }
        if staying >= copies_needed(cluster, observed) {
            return Ok(());
        }
        let mut copies = Vec::new();
        for node in going {
            if let Some(machine) = machines.get(&node.spec.name)
                && self.may_have_data(&node, machine.as_ref()).await?
            {
                copies.push(node.spec.name);
            }
        }
        if copies.is_empty() {
            return Ok(());
        }
        let others = cluster.spec.control_planes().map(|node| node.name.clone());
        let others = others.filter(|name| !nodes.contains(name)).collect();
        Err(EngineError::LastData { cluster: cluster.name().clone(), nodes: copies, others })
    }

    /// Whether a copy is there to this day. Of one that is off the observation has told.
    async fn still_has_data(
        &self,
        node: &Node,
        observed: &Observed,
        machine: Option<&Arc<dyn Machine>>,
    ) -> bool {
        let Some(machine) = machine else { return false };
        !observed.is_on(&node.spec.name)
            || matches!(self.bootstrapper.has_data(node, machine.as_ref()).await, Ok(Some(true) | None))
    }

    /// Whether the disk of a machine may have data of a cluster that has answered.
    async fn may_have_data(&self, node: &Node, machine: &dyn Machine) -> Result<bool, EngineError> {
        Ok(match machine.record().await?.membership {
            // Also if its database is gone: data that was set aside may be left.
            Membership::InitialMember | Membership::Member => true,
            Membership::Founding => false,
            // Of a leave that was killed. What cannot be looked at may be there.
            Membership::None => !matches!(self.bootstrapper.has_data(node, machine).await, Ok(Some(false))),
        })
    }
}

/// Whether a control plane stays that has all that users have stored, as far as that can be seen.
pub(super) fn has_copy_elsewhere(cluster: &Cluster, observed: &Observed, going: &[NodeName]) -> bool {
    !copies_elsewhere(cluster, observed, going).is_empty()
}

/// The control planes that stay and have all that users have stored, as far as that can be seen. One whose host does not
/// answer is not relied on.
fn copies_elsewhere(cluster: &Cluster, observed: &Observed, going: &[NodeName]) -> Vec<Node> {
    let members = observed.members.as_deref();
    let has_quorum = members.is_some_and(|members| Quorum::of(members).holds());
    let staying = cluster.nodes().filter(|node| !going.contains(&node.spec.name));
    let is_copy = |node: &Node| {
        let Some(members) = members else { return true };
        // While etcd takes writes, one that is down has only older ones.
        let is_copy = |member: &&flotilla_core::Member| !member.learner && (member.up || !has_quorum);
        members.iter().filter(is_copy).any(|member| member.is_of(node))
    };
    let has_data = |node: &Node| observed.initial_members.contains(&node.spec.name);
    staying.filter(|node| has_data(node) && is_copy(node)).collect()
}

/// How many copies must stay so that one of them has what was written last. A member that is up has it while etcd has a
/// quorum. Else any member may have been down while the others took writes, and only so many that no majority was without
/// one of them have it for sure.
fn copies_needed(cluster: &Cluster, observed: &Observed) -> usize {
    let total = match observed.members.as_deref().map(Quorum::of) {
        Some(quorum) if quorum.holds() => return 1,
        Some(quorum) => quorum.total,
        // Nodes that were deleted by force remain members, as far as they were control planes.
        None => {
            let is_gone = |name: &&NodeName| !cluster.spec.nodes.iter().any(|node| node.name == **name);
            let gone = cluster.allocations.ghosts.iter().filter(is_gone).count();
            observed.initial_members.len() + observed.emptied.len() + gone
        }
    };
    total.div_ceil(2).max(1)
}
