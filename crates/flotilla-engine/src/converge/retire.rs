//! Taking control planes out of the control plane, without losing it.

use flotilla_spec::{NodeName, NodeSpec, Role};

use super::Engine;
use super::work::Work;
use crate::cluster::{Cluster, Node};
use crate::error::EngineError;
use crate::event::Event;
use crate::plan::{Action, Observed};
use crate::quorum::{self, Quorum, Shortfall};

/// Why control planes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    Stopped,
    Deleted,
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
    /// Refuses what would cost the cluster its last control plane, or etcd its majority.
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
        retiring(cluster, &observed, nodes, leaving).map(drop)
    }

    /// The control planes among some nodes that have to retire, in that order. With `force` none does where not all can,
    /// and what that means is told.
    pub(super) fn retiring_or_forced(
        &self,
        cluster: &Cluster,
        observed: &Observed,
        nodes: &[NodeName],
        (leaving, force): (Leaving, bool),
    ) -> Result<Vec<NodeName>, EngineError> {
        match retiring(cluster, observed, nodes, leaving) {
            Err(error) if force => {
                let meaning = match leaving {
                    Leaving::Stopped => {
                        "they stay members of etcd: without a majority of them the API does not answer until they \
                         are started again"
                    }
                    Leaving::Deleted => {
                        "etcd still counts them among its members: without a majority of them the API does not \
                         answer until `flotilla recover`"
                    }
                };
                self.reporter.report(Event::Warning { text: format!("{error}; {meaning}") });
                Ok(Vec::new())
            }
            retiring => retiring,
        }
    }

    /// Takes credentials that a control plane had which is none any more out of the person's kubeconfig.
    pub(super) async fn publish_anew(
        &self,
        retired: &[NodeName],
        work: &Work<'_>,
    ) -> Result<(), EngineError> {
        if !retired.is_empty() && self.kubeconfig.is_current(work.name)? {
            self.act(&Action::Publish, work).await?;
        }
        Ok(())
    }
}

fn control_planes(cluster: &Cluster, nodes: &[NodeName]) -> Vec<Node> {
    let named = nodes.iter().filter_map(|name| cluster.node(name));
    named.filter(|node| node.spec.role == Role::ControlPlane).collect()
}

/// The control planes among some nodes that have to retire, in an order in which all can; an error if they cannot.
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
        let (cluster, node) = (cluster.name().clone(), cluster.spec.primary().name.clone());
        return match leaving {
            // They are off, and when they start again they are what they were.
            Leaving::Stopped => Ok(Vec::new()),
            Leaving::Deleted => Err(EngineError::NotRunning { cluster, node }),
        };
    }
    let too_few = |Shortfall { before: Quorum { total, up }, left }| {
        let names: Vec<_> = going.iter().map(|node| node.spec.name.to_string()).collect();
        let (cluster, doing, nodes) = (cluster.name().clone(), leaving.doing(), names.join(", "));
        EngineError::Majority { cluster, up, total, doing, nodes, left }
    };
    if cluster.spec.control_planes().all(|node| nodes.contains(&node.name)) {
        let up = going.iter().filter(|node| is_on(&node.spec)).count();
        return Err(too_few(Shortfall { before: Quorum { total: going.len(), up }, left: 0 }));
    }
    let unknown = || EngineError::MajorityUnknown { cluster: cluster.name().clone() };
    let members = observed.members.as_ref().ok_or_else(unknown)?;
    let mut order = quorum::order_of_leaving(members, &going).map_err(too_few)?;
    let has_left = |node: &Node| !is_on(&node.spec) && !members.iter().any(|member| member.is_of(node));
    order.retain(|name| !going.iter().any(|node| node.spec.name == *name && has_left(node)));
    Ok(order)
}
