//! An etcd that is recreated with one member.

use std::sync::Arc;

use flotilla_core::event::{Outcome, Step};
use flotilla_core::{Cluster, Machine, Power, Snapshot, Source};
use flotilla_engine::EngineError;
use flotilla_engine::converge::Engine;
use flotilla_engine::store::{Locked, Recovery};
use flotilla_spec::{NodeName, NodeSpec, Role, WantedPower};
use serde::{Deserialize, Serialize};

use super::{ControlPlane, EtcdError, control_planes};
use crate::OpError;

/// Turns on every control plane that has a machine, and is to run or was stopped by force as a member. Gives all that are
/// on.
///
/// One that stayed off with its old data would not know, when it is started one day, that etcd was recreated without it:
/// two such could be a majority of the old members.
pub(crate) async fn power_on(engine: &Engine<'_>, cluster: &Cluster) -> Result<Vec<ControlPlane>, OpError> {
    let machines = engine.machines(cluster).await?;
    let machine_of = |node: &NodeSpec| machines.get(&node.name);
    if !cluster.spec.control_planes().any(|node| machine_of(node).is_some()) {
        return Err(EtcdError::NoSurvivor { cluster: cluster.name().clone() }.into());
    }
    for node in cluster.spec.control_planes() {
        // It may run with others as etcd's majority: etcd recreated beside them would be a second one.
        if let Some(Power::Unknown(why)) = machine_of(node).map(|machine| machine.state().power) {
            let (cluster, nodes) = (cluster.name().clone(), vec![node.name.clone()]);
            return Err(EngineError::Unknown { cluster, nodes, doing: "recover", why }.into());
        }
    }
    engine.fleet.ensure_network(cluster).await.map_err(EngineError::from)?;
    for node in cluster.nodes().filter(|node| node.spec.role == Role::ControlPlane) {
        let machine = machine_of(&node.spec).filter(|machine| machine.state().power == Power::Off);
        let Some(machine) = machine else { continue };
        let record = machine.record().await.map_err(EngineError::from)?;
        if node.spec.power == WantedPower::Stopped && !record.membership.holds_data() {
            continue;
        }
        let name = &node.spec.name;
        let title = format!("booting node {name}");
        let step = Step::start(engine.reporter, format!("machine/{name}"), title, None);
        engine.boot(cluster, &node).await?;
        step.done(Outcome::Done);
    }
    Ok(control_planes(engine, cluster).await?)
}

/// How far the last recovery came, if it was of this control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There was none, or it was killed before etcd was recreated.
    None,
    /// It was killed after that.
    Begun,
    Finished,
}

pub(crate) async fn progress(
    engine: &Engine<'_>,
    cluster: &Cluster,
    member: &ControlPlane,
) -> Result<Progress, EngineError> {
    let recovery = engine.store.recovery(cluster.name())?.filter(|it| it.node == member.node.spec.name);
    Ok(match recovery {
        Some(recovery) if recovery.finished => Progress::Finished,
        Some(recovery) if recovery.data != data_id(engine, member).await? => Progress::Begun,
        _ => Progress::None,
    })
}

async fn data_id(engine: &Engine<'_>, member: &ControlPlane) -> Result<String, EngineError> {
    Ok(engine.bootstrapper.data_id(member.machine.as_ref()).await?)
}

/// Recreates etcd in `member`, which is the primary control plane from then on. No other one of those that are `there` has
/// joined afterwards.
pub(crate) async fn recover(
    engine: &Engine<'_>,
    locked: &Locked,
    cluster: &mut Cluster,
    member: &ControlPlane,
    there: &[ControlPlane],
    source: Source,
) -> Result<(Snapshot, Vec<DataCopy>), OpError> {
    let name = &member.node.spec.name;
    let others = others(member, there);
    // First: killed in the middle, the next command goes on with the same one.
    cluster.spec.make_primary(name);
    locked.save(cluster)?;
    let had_begun = progress(engine, cluster, member).await? == Progress::Begun;
    let data = data_id(engine, member).await?;
    if !had_begun {
        let recovery = Recovery { node: name.clone(), data: data.clone(), finished: false };
        locked.save_recovery(&recovery)?;
    }
    let title = format!("recreating etcd on node {name}");
    let step = Step::start(engine.reporter, format!("restore/{name}"), title, None);
    let machine = member.machine.as_ref();
    let restored = engine.bootstrapper.restore(cluster, &member.node, machine, &others, source).await;
    if restored.is_err() {
        if let Some(text) = DataCopy::text(&copies(engine, there).await) {
            engine.warn(text);
        }
        // Else it would be taken for one that had begun, as soon as the node has other data for another reason.
        if !had_begun && data_id(engine, member).await.is_ok_and(|now| now == data) {
            locked.remove_recovery()?;
        }
    }
    let restored = restored.map_err(EngineError::from)?;
    step.done(Outcome::Done);
    let copies = copies(engine, there).await;
    end(engine, locked, cluster, member).await?;
    Ok((restored, copies))
}

/// Does what is left of a recovery that was killed after etcd was recreated in `member`.
pub(crate) async fn finish(
    engine: &Engine<'_>,
    locked: &Locked,
    cluster: &Cluster,
    member: &ControlPlane,
    there: &[ControlPlane],
) -> Result<Vec<DataCopy>, OpError> {
    let others = others(member, there);
    let finished = engine.bootstrapper.finish_restore(cluster, member.machine.as_ref(), &others).await;
    finished.map_err(EngineError::from)?;
    let copies = copies(engine, there).await;
    end(engine, locked, cluster, member).await?;
    Ok(copies)
}

fn others(member: &ControlPlane, there: &[ControlPlane]) -> Vec<Arc<dyn Machine>> {
    let others = there.iter().filter(|other| other.node.spec.name != member.node.spec.name);
    others.map(|other| other.machine.clone()).collect()
}

/// Turns off again what was turned on only to set its data aside, and notes that nothing is left to do.
async fn end(
    engine: &Engine<'_>,
    locked: &Locked,
    cluster: &Cluster,
    member: &ControlPlane,
) -> Result<(), EngineError> {
    let name = &member.node.spec.name;
    let stopped = cluster.spec.control_planes().filter(|node| node.power == WantedPower::Stopped);
    let stopped: Vec<_> = stopped.map(|node| node.name.clone()).filter(|stopped| stopped != name).collect();
    engine.power_off(cluster, &stopped).await?;
    let recovery = Recovery { node: name.clone(), data: data_id(engine, member).await?, finished: true };
    locked.save_recovery(&recovery)
}

/// Data that etcd had before, which is kept in a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataCopy {
    pub node: NodeName,
    pub path: String,
}

/// All copies in these control planes. One that cannot be asked is left out: nothing depends on it.
pub(crate) async fn copies(engine: &Engine<'_>, there: &[ControlPlane]) -> Vec<DataCopy> {
    let mut copies = Vec::new();
    for one in there {
        let found = engine.bootstrapper.copies(one.machine.as_ref()).await.unwrap_or_default();
        copies.extend(found.into_iter().map(|path| DataCopy { node: one.node.spec.name.clone(), path }));
    }
    copies
}

impl DataCopy {
    /// Where the copies are, in the words of `flotilla cp`; none if there are none.
    pub fn text(copies: &[Self]) -> Option<String> {
        let places: Vec<_> = copies.iter().map(ToString::to_string).collect();
        (!places.is_empty()).then(|| format!("old data of etcd is kept in {}", places.join(", ")))
    }
}

impl std::fmt::Display for DataCopy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.node, self.path)
    }
}
