//! `flotilla node delete`

use flotilla_engine::converge::Leaving;
use flotilla_engine::port::Drain;
use flotilla_engine::{Cluster, EngineError};
use flotilla_spec::NodeName;
use serde_json::json;

use crate::args::NodeDeleteArgs;
use crate::cluster::Cx;
use crate::failure::Failure;

pub(crate) fn run(cx: &Cx, args: &NodeDeleteArgs) -> Result<(), Failure> {
    super::names(&cx.cluster()?, &args.nodes)?;
    cx.heed_signals()?;
    let _lock = cx.lock(&cx.name, "flotilla node delete", args.lock)?;
    let mut cluster = cx.store.get(&cx.name)?;
    let names = super::names(&cluster, &args.nodes)?;
    if cluster.spec.control_planes().all(|node| names.contains(&node.name)) {
        return Err(EngineError::LastControlPlane { cluster: cx.name.clone() }.into());
    }
    let drain = Drain { limit: args.draining.drain_timeout, force: args.draining.force };
    if !drain.force {
        cx.wait(cx.engine().can_spare(&cluster, &names, Leaving::Deleted))?;
    }
    remove(cx, &mut cluster, &names, drain)?;
    let value =
        json!({"cluster": cx.name.as_ref(), "nodes": names.iter().map(AsRef::as_ref).collect::<Vec<&str>>()});
    cx.screen.result(&value, || {
        let verb = if names.len() > 1 { "are" } else { "is" };
        format!("{} {verb} deleted", super::joined(&names))
    });
    Ok(())
}

/// Takes nodes out of the cluster, its spec and its state.
pub(crate) fn remove(
    cx: &Cx,
    cluster: &mut Cluster,
    names: &[NodeName],
    drain: Drain,
) -> Result<(), Failure> {
    // First: nobody relies on one that is about to go.
    cluster.spec.hand_over_primary(names);
    cx.store.save(cluster)?;
    cx.wait(cx.engine().remove_nodes(cluster, names, drain))?;
    // Last: killed before, the same command finds them again.
    cluster.spec.nodes.retain(|node| !names.contains(&node.name));
    for name in names {
        cluster.handed_out.take_back(name);
    }
    cx.store.save(cluster)?;
    cx.wait(cx.engine().driver.ensure_routes(cluster)).map_err(EngineError::from)?;
    Ok(())
}
