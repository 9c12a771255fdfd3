//! `flotilla etcd …`: the members of etcd, snapshots of it.

mod error;
pub(crate) mod recovery;
pub mod restore;
pub mod save;
pub(crate) mod source;
pub mod status;

use std::sync::Arc;

use flotilla_core::{Cluster, Machine, Node, Power};
use flotilla_engine::EngineError;
use flotilla_engine::converge::Engine;
use flotilla_spec::Role;

use crate::Context;

pub use error::EtcdError;
pub use recovery::DataCopy;

/// A control plane that is on.
#[derive(Clone)]
pub(crate) struct ControlPlane {
    pub(crate) node: Node,
    pub(crate) machine: Arc<dyn Machine>,
    /// It has been one before: it has data and keys.
    pub(crate) joined: bool,
}

/// The control planes that are on, the primary one first.
pub(crate) async fn control_planes(
    engine: &Engine<'_>,
    cluster: &Cluster,
) -> Result<Vec<ControlPlane>, EngineError> {
    let mut machines = engine.machines(cluster).await?;
    machines.retain(|_, machine| machine.state().power == Power::On);
    let mut found = Vec::new();
    for node in cluster.nodes().filter(|node| node.spec.role == Role::ControlPlane) {
        if let Some(machine) = machines.remove(&node.spec.name) {
            // One that founded the cluster and was killed before it was finished has data and keys, too.
            let joined = machine.record().await?.membership.holds_data();
            found.push(ControlPlane { node, machine, joined });
        }
    }
    Ok(found)
}

/// Those of them that are members, of which there must be one.
async fn members_that_are_on(cx: &Context<'_>, cluster: &Cluster) -> Result<Vec<ControlPlane>, EngineError> {
    let mut found = control_planes(&cx.engine(cluster.name()), cluster).await?;
    found.retain(|control_plane| control_plane.joined);
    if found.is_empty() {
        return Err(EngineError::Stopped(cluster.name().clone()));
    }
    Ok(found)
}
