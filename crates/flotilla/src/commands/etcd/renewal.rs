//! An etcd that begins again with one member.

use std::sync::Arc;

use flotilla_core::event::{Event, Outcome, Step};
use flotilla_core::{Cluster, Snapshot, Source};
use flotilla_core::{Machine, Membership, Power};
use flotilla_engine::EngineError;
use flotilla_engine::store::Renewal;
use flotilla_ops::OpError;
use flotilla_spec::{NodeName, NodeSpec, WantedPower};
use serde_json::{Value, json};

use super::{ControlPlane, EtcdError, control_planes};
use crate::cluster::Cx;

/// Says what is going to happen, and asks unless `yes` was given.
pub(crate) fn agreed(cx: &Cx, yes: bool, lines: &[String]) -> Result<bool, OpError> {
    if !cx.screen.is_json() {
        cx.screen.line(&lines.join("\n"));
    }
    if yes {
        return Ok(true);
    }
    let yes = cx.screen.ask("do it?").ok_or(EtcdError::NobodyToAsk)?;
    if !yes {
        cx.screen.line("nothing was changed");
    }
    Ok(yes)
}

/// Turns on every control plane that has a machine, and is to run or was stopped by force as a member. Gives all that are
/// on.
///
/// One that stayed off with its old data would not know, when it is started one day, that etcd has begun again without
/// it: two such could be a majority of what was.
pub(crate) fn power_on(cx: &Cx, cluster: &Cluster) -> Result<Vec<ControlPlane>, OpError> {
    let engine = cx.engine();
    let machines = cx.wait(engine.machines(&cx.name))?;
    let machine_of = |node: &NodeSpec| machines.get(&node.name);
    if !cluster.spec.control_planes().any(|node| machine_of(node).is_some()) {
        return Err(EtcdError::NoSurvivor { cluster: cx.name.clone() }.into());
    }
    cx.wait(async {
        engine.fleet.ensure_network(cluster).await?;
        for node in cluster.spec.control_planes() {
            let machine = machine_of(node).filter(|machine| machine.state().power == Power::Off);
            let Some(machine) = machine else { continue };
            let has_data = engine.bootstrapper.membership(machine.as_ref()).await? != Membership::None;
            if node.power == WantedPower::Stopped && !has_data {
                continue;
            }
            let title = format!("booting node {}", node.name);
            let step = Step::start(engine.reporter, format!("machine/{}", node.name), title, None);
            let node =
                cluster.node(&node.name).ok_or_else(|| EngineError::no_node(cluster, node.name.as_ref()))?;
            engine.nodes().ensure(cluster, &node, false).await?;
            step.done(Outcome::Done);
        }
        Ok::<(), EngineError>(())
    })?;
    control_planes(cx, cluster)
}

/// How far the last renewal came that is of this control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There was none, or it was killed before etcd had begun again.
    None,
    /// It was killed after that.
    Begun,
    Finished,
}

pub(crate) fn progress(cx: &Cx, member: &ControlPlane) -> Result<Progress, OpError> {
    let renewal = cx.store.renewal(&cx.name)?.filter(|renewal| renewal.node == member.node.spec.name);
    Ok(match renewal {
        Some(renewal) if renewal.finished => Progress::Finished,
        Some(renewal) if renewal.data != data_of(cx, member)? => Progress::Begun,
        _ => Progress::None,
    })
}

/// What tells etcd's data from what replaces it.
fn data_of(cx: &Cx, member: &ControlPlane) -> Result<String, OpError> {
    let id = cx.wait(cx.engine().bootstrapper.data_id(member.machine.as_ref()));
    Ok(id.map_err(EngineError::from)?)
}

/// Lets etcd begin again in `member`, which is the primary control plane from then on. No other one of those that are
/// `there` has joined afterwards.
pub(crate) fn renew(
    cx: &Cx,
    cluster: &mut Cluster,
    member: &ControlPlane,
    there: &[ControlPlane],
    source: Source,
) -> Result<(Snapshot, Kept), OpError> {
    let name = &member.node.spec.name;
    let others = others(member, there);
    // First: killed in the middle, the next command goes on with the same one.
    cluster.spec.make_primary(name);
    cx.store.save(cluster)?;
    let had_begun = progress(cx, member)? == Progress::Begun;
    let data = data_of(cx, member)?;
    if !had_begun {
        let renewal = Renewal { node: name.clone(), data: data.clone(), finished: false };
        cx.store.save_renewal(&cx.name, &renewal)?;
    }
    let title = format!("recreating etcd on node {name}");
    let step = Step::start(cx.screen.reporter(), format!("restore/{name}"), title, None);
    let bootstrapper = cx.engine().bootstrapper;
    let machine = member.machine.as_ref();
    let restored = cx.wait(bootstrapper.restore(cluster, &member.node, machine, &others, source));
    if restored.is_err() {
        Kept::find(cx, there).warn(cx);
        // Else it would be taken for one that had begun, as soon as the node has other data for another reason.
        if !had_begun && data_of(cx, member).is_ok_and(|now| now == data) {
            cx.store.remove_renewal(&cx.name)?;
        }
    }
    let restored = restored.map_err(EngineError::from)?;
    step.done(Outcome::Done);
    let kept = Kept::find(cx, there);
    rest(cx, cluster, member)?;
    Ok((restored, kept))
}

/// Does what is left of a renewal that was killed after etcd had begun again in `member`.
pub(crate) fn finish(
    cx: &Cx,
    cluster: &Cluster,
    member: &ControlPlane,
    there: &[ControlPlane],
) -> Result<Kept, OpError> {
    let bootstrapper = cx.engine().bootstrapper;
    let others = others(member, there);
    let finished = cx.wait(bootstrapper.finish_restore(cluster, member.machine.as_ref(), &others));
    finished.map_err(EngineError::from)?;
    let kept = Kept::find(cx, there);
    rest(cx, cluster, member)?;
    Ok(kept)
}

fn others(member: &ControlPlane, there: &[ControlPlane]) -> Vec<Arc<dyn Machine>> {
    let others = there.iter().filter(|other| other.node.spec.name != member.node.spec.name);
    others.map(|other| other.machine.clone()).collect()
}

/// Turns off again what was turned on only to forget its data, and notes that nothing is left to do.
fn rest(cx: &Cx, cluster: &Cluster, member: &ControlPlane) -> Result<(), OpError> {
    let stopped = cluster.spec.control_planes().filter(|node| node.power == WantedPower::Stopped);
    let stopped = stopped.filter(|node| node.name != member.node.spec.name);
    let stopped: Vec<_> = stopped.map(|node| node.name.clone()).collect();
    cx.wait(cx.engine().power_off(cluster, &stopped))?;
    let renewal = Renewal { node: member.node.spec.name.clone(), data: data_of(cx, member)?, finished: true };
    Ok(cx.store.save_renewal(&cx.name, &renewal)?)
}

/// The data that etcd had before, which is kept in the nodes.
pub(crate) struct Kept(Vec<(NodeName, String)>);

impl Kept {
    /// All copies in these control planes. One that cannot be asked is left out: nothing depends on it.
    pub(crate) fn find(cx: &Cx, there: &[ControlPlane]) -> Self {
        let copies = there.iter().flat_map(|one| {
            let found = cx.wait(cx.engine().bootstrapper.copies(one.machine.as_ref())).unwrap_or_default();
            found.into_iter().map(|path| (one.node.spec.name.clone(), path))
        });
        Self(copies.collect())
    }

    pub(crate) fn to_json(&self) -> Value {
        let copies = self.0.iter().map(|(node, path)| json!({"node": node.as_ref(), "path": path}));
        copies.collect()
    }

    /// Where a copy is, in the words of `flotilla cp`.
    pub(crate) fn of(&self, node: &NodeName) -> Option<String> {
        let newest = self.0.iter().rfind(|(of, _)| of == node);
        newest.map(|(node, path)| format!("{node}:{path}"))
    }

    fn text(&self) -> Option<String> {
        let places: Vec<_> = self.0.iter().map(|(node, path)| format!("{node}:{path}")).collect();
        (!places.is_empty()).then(|| format!("old data of etcd is kept in {}", places.join(", ")))
    }

    /// Says where they are, and how they are removed.
    pub(crate) fn tell(&self, cx: &Cx) {
        if let Some(text) = self.text() {
            cx.screen
                .note(&text, "remove a copy that you do not need with `flotilla ssh -n NODE -- rm -r PATH`");
        }
    }

    fn warn(&self, cx: &Cx) {
        if let Some(text) = self.text() {
            cx.screen.reporter().report(Event::Warning { text });
        }
    }
}
