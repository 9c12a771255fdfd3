//! Lets control planes leave etcd without losing quorum.

use flotilla_spec::{NodeName, NodeSpec, Role};

use super::Engine;
use super::last_data::has_copy_elsewhere;
use super::work::Work;
use crate::error::EngineError;
use crate::plan::{Action, Observed};
use crate::quorum::{self, Quorum, Shortfall};
use flotilla_core::cluster::{Cluster, Node};
use flotilla_core::event::Event;

/// Why control planes leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    Stopped,
    Deleted,
}

/// All changes of a command to the control plane, in this order.
#[derive(Debug, Clone, Copy)]
pub struct ControlPlaneChange<'a> {
    /// Control planes that are started first: existing members, or new ones that join.
    pub coming: &'a [NodeName],
    pub deleted: &'a [NodeName],
    pub stopped: &'a [NodeName],
}

impl Leaving {
    fn doing(self) -> &'static str {
        match self {
            Self::Stopped => "stopping",
            Self::Deleted => "deleting",
        }
    }
}

impl Engine<'_> {
    /// Refuses to remove the last control plane, and changes that would lose quorum.
    pub async fn can_spare(
        &self,
        cluster: &Cluster,
        nodes: &[NodeName],
        leaving: Leaving,
    ) -> Result<(), EngineError> {
        if control_planes(cluster, nodes).is_empty() {
            return Ok(());
        }
        let observed = self.observe(cluster).await?;
        if leaving == Leaving::Deleted {
            self.require_copy_elsewhere(cluster, &observed, nodes).await?;
        }
        retiring(cluster, &observed, nodes, leaving).map(drop)
    }

    /// The same for all changes of a command to the control plane together. `cluster` has the control planes that are
    /// added and those that are removed.
    pub async fn can_turn_over(
        &self,
        cluster: &Cluster,
        control_plane_change: ControlPlaneChange<'_>,
    ) -> Result<(), EngineError> {
        let ControlPlaneChange { deleted, stopped, .. } = control_plane_change;
        if control_planes(cluster, &[deleted, stopped].concat()).is_empty() {
            return Ok(());
        }
        self.keeps_data(cluster, control_plane_change).await?;
        turn_over(cluster, &self.observe(cluster).await?, control_plane_change)
    }

    /// Refuses only what would delete the last copy of etcd's data: also by force.
    pub async fn keeps_data(
        &self,
        cluster: &Cluster,
        ControlPlaneChange { coming, deleted, .. }: ControlPlaneChange<'_>,
    ) -> Result<(), EngineError> {
        let joins = |node: &&NodeName| !deleted.contains(node);
        // It has a copy by then. Whether it does is checked again before others are deleted.
        let is_coming = !control_planes(cluster, coming).is_empty() && coming.iter().any(|node| joins(&node));
        if is_coming || control_planes(cluster, deleted).is_empty() {
            return Ok(());
        }
        self.require_copy_elsewhere(cluster, &self.observe(cluster).await?, deleted).await
    }

    /// Refuses to restart a control plane if etcd would lose quorum meanwhile; not if there are so few members that
    /// it always would.
    pub async fn can_restart(&self, cluster: &Cluster, node: &NodeName) -> Result<(), EngineError> {
        let going = control_planes(cluster, std::slice::from_ref(node));
        let Some(node) = going.first() else { return Ok(()) };
        let members = self.members(cluster, &self.machines(cluster).await?).await;
        let members = members.ok_or_else(|| unknown(cluster))?;
        quorum::can_pause(&members, node)
            .map_err(|shortfall| too_few(cluster, "restarting", &going, shortfall))
    }

    /// Refuses to pause a control plane if etcd would lose quorum. The only node of a cluster may be paused: then the
    /// whole cluster is.
    pub async fn can_pause(&self, cluster: &Cluster, node: &NodeName) -> Result<(), EngineError> {
        let going = control_planes(cluster, std::slice::from_ref(node));
        let Some(node) = going.first().filter(|_| cluster.spec.nodes.len() > 1) else { return Ok(()) };
        let members = self.members(cluster, &self.machines(cluster).await?).await;
        let members = members.ok_or_else(|| unknown(cluster))?;
        quorum::can_freeze(&members, node).map_err(|shortfall| too_few(cluster, "pausing", &going, shortfall))
    }

    /// The control planes among these nodes that have to leave etcd, in that order. With `force` none leaves if not
    /// all can, with a warning.
    pub(super) fn retiring_or_forced(
        &self,
        cluster: &Cluster,
        observed: &Observed,
        nodes: &[NodeName],
        (leaving, force): (Leaving, bool),
    ) -> Result<Vec<NodeName>, EngineError> {
        match retiring(cluster, observed, nodes, leaving) {
            // Nobody has data: there is no etcd to be a member of.
            Err(_)
                if force && leaving == Leaving::Deleted && !has_copy_elsewhere(cluster, observed, nodes) =>
            {
                Ok(Vec::new())
            }
            Err(error) if force => {
                let meaning = match leaving {
                    Leaving::Stopped => {
                        "they remain members of etcd: without quorum the API does not answer until they are started \
                         again"
                    }
                    Leaving::Deleted => {
                        "they remain stale members of etcd: without quorum the API does not answer until \
                         `flotilla recover`"
                    }
                };
                self.reporter.report(Event::Warning { text: format!("{error}; {meaning}") });
                Ok(Vec::new())
            }
            retiring => retiring,
        }
    }

    /// Replaces the credentials of a removed control plane in the user's kubeconfig.
    pub(super) async fn publish_anew(
        &self,
        retired: &[NodeName],
        work: &Work<'_>,
    ) -> Result<(), EngineError> {
        if !retired.is_empty() && self.is_current(work.name)? {
            self.act(&Action::WriteKubeconfig, work).await?;
        }
        Ok(())
    }
}

pub(super) fn control_planes(cluster: &Cluster, nodes: &[NodeName]) -> Vec<Node> {
    let named = nodes.iter().filter_map(|name| cluster.node(name));
    named.filter(|node| node.spec.role == Role::ControlPlane).collect()
}

/// The control planes among these nodes that have to leave etcd, in an order that keeps quorum; an error if there is
/// none.
fn retiring(
    cluster: &Cluster,
    observed: &Observed,
    nodes: &[NodeName],
    leaving: Leaving,
) -> Result<Vec<NodeName>, EngineError> {
    let going = control_planes(cluster, nodes);
    let is_on = |node: &NodeSpec| observed.is_on(&node.name);
    if going.is_empty() {
        return Ok(Vec::new());
    }
    if !cluster.spec.control_planes().any(is_on) {
        return match leaving {
            // They are off and remain members: when they start again, they rejoin with their data.
            Leaving::Stopped => Ok(Vec::new()),
            Leaving::Deleted => Err(EngineError::Stopped(cluster.name().clone())),
        };
    }
    let too_few = |shortfall| too_few(cluster, leaving.doing(), &going, shortfall);
    if cluster.spec.control_planes().all(|node| nodes.contains(&node.name)) {
        let up = going.iter().filter(|node| is_on(&node.spec)).count();
        return Err(too_few(Shortfall { before: Quorum { total: going.len(), up }, left: 0 }));
    }
    let members = observed.members.as_ref().ok_or_else(|| unknown(cluster))?;
    let mut order = quorum::order_of_leaving(members, &going).map_err(too_few)?;
    let has_left = |node: &Node| !is_on(&node.spec) && !members.iter().any(|member| member.is_of(node));
    order.retain(|name| !going.iter().any(|node| node.spec.name == *name && has_left(node)));
    Ok(order)
}

fn turn_over(
    cluster: &Cluster,
    observed: &Observed,
    control_plane_change: ControlPlaneChange<'_>,
) -> Result<(), EngineError> {
    let named = |names| control_planes(cluster, names);
    let (deleted, stopped) = (named(control_plane_change.deleted), named(control_plane_change.stopped));
    let going = [deleted.clone(), stopped.clone()].concat();
    let (doing, leaving) = match (deleted.is_empty(), stopped.is_empty()) {
        (true, _) => (Leaving::Stopped.doing(), Leaving::Stopped),
        (false, true) => (Leaving::Deleted.doing(), Leaving::Deleted),
        (false, false) => ("deleting and stopping", Leaving::Deleted),
    };
    if !cluster.spec.control_planes().any(|node| observed.is_on(&node.name)) {
        return retiring(cluster, observed, &names_of(&going), leaving).map(drop);
    }
    let members = observed.members.as_ref().ok_or_else(|| unknown(cluster))?;
    let members = quorum::once_up(members, &named(control_plane_change.coming));
    quorum::can_go(&members, &deleted, &stopped)
        .map_err(|shortfall| too_few(cluster, doing, &going, shortfall))
}

fn names_of(nodes: &[Node]) -> Vec<NodeName> {
    nodes.iter().map(|node| node.spec.name.clone()).collect()
}

fn unknown(cluster: &Cluster) -> EngineError {
    EngineError::QuorumUnknown { cluster: cluster.name().clone() }
}

fn too_few(cluster: &Cluster, doing: &'static str, going: &[Node], shortfall: Shortfall) -> EngineError {
    let Shortfall { before: Quorum { total, up }, left } = shortfall;
    let names: Vec<_> = going.iter().map(|node| node.spec.name.to_string()).collect();
    EngineError::QuorumLoss {
        cluster: cluster.name().clone(),
        up,
        total,
        doing,
        nodes: names.join(", "),
        left,
    }
}
