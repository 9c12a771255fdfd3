//! `flotilla etcd …`

mod error;
pub(crate) mod renewal;
mod snapshot;
pub(crate) mod source;
mod status;

use std::sync::Arc;

use flotilla_core::{Cluster, Node};
use flotilla_core::{Machine, Membership, Power};
use flotilla_engine::EngineError;
use flotilla_ops::OpError;
use flotilla_spec::Role;

use crate::args::{EtcdCommand, SnapshotCommand};
use crate::cluster::Cx;

pub(crate) use error::EtcdError;
pub(crate) use status::Status;

pub(crate) fn run(cx: &Cx, command: &EtcdCommand) -> Result<u8, OpError> {
    let done = |()| 0;
    match command {
        EtcdCommand::Status(_) => status::run(cx),
        EtcdCommand::Snapshot(SnapshotCommand::Save(args)) => snapshot::save(cx, args).map(done),
        EtcdCommand::Snapshot(SnapshotCommand::Restore(args)) => snapshot::restore(cx, args).map(done),
    }
}

/// A control plane that is on.
#[derive(Clone)]
pub(crate) struct ControlPlane {
    pub(crate) node: Node,
    pub(crate) machine: Arc<dyn Machine>,
    /// It has been one before: it has data and keys.
    pub(crate) joined: bool,
}

/// The control planes that are on, the primary one first.
pub(crate) fn control_planes(cx: &Cx, cluster: &Cluster) -> Result<Vec<ControlPlane>, OpError> {
    let engine = cx.engine();
    cx.wait(async {
        let mut machines = engine.machines(&cx.name).await?;
        machines.retain(|_, machine| machine.state().power == Power::On);
        let mut found = Vec::new();
        for node in cluster.nodes().filter(|node| node.spec.role == Role::ControlPlane) {
            if let Some(machine) = machines.remove(&node.spec.name) {
                // One that founded the cluster and was killed before it was finished has data and keys, too.
                let membership = engine.bootstrapper.membership(machine.as_ref()).await;
                let joined = membership.map_err(EngineError::from)? != Membership::None;
                found.push(ControlPlane { node, machine, joined });
            }
        }
        Ok(found)
    })
}

/// Those of them that are members, of which there must be one.
fn members_that_are_on(cx: &Cx, cluster: &Cluster) -> Result<Vec<ControlPlane>, OpError> {
    let mut found = control_planes(cx, cluster)?;
    found.retain(|control_plane| control_plane.joined);
    if found.is_empty() {
        return Err(EngineError::Stopped(cx.name.clone()).into());
    }
    Ok(found)
}
