//! `flotilla node delete`

use flotilla_core::Drain;
use flotilla_engine::EngineError;
use flotilla_engine::converge::Leaving;
use flotilla_ops::OpError;
use serde_json::json;

use crate::args::NodeDeleteArgs;
use crate::cluster::Cx;

pub(crate) fn run(cx: &Cx, args: &NodeDeleteArgs) -> Result<(), OpError> {
    super::names(&cx.cluster()?, &args.nodes)?;
    cx.handle_signals()?;
    let locked = cx.lock(&cx.name, "flotilla node delete", args.lock)?;
    let mut cluster = cx.store.get(&cx.name)?;
    let names = super::names(&cluster, &args.nodes)?;
    if cluster.spec.control_planes().all(|node| names.contains(&node.name)) {
        let going = cluster.spec.control_planes().count();
        return Err(EngineError::LastControlPlane { cluster: cx.name.clone(), going }.into());
    }
    let drain = Drain { limit: args.draining.drain_timeout, force: args.draining.force };
    if !drain.force {
        cx.wait(cx.engine().can_spare(&cluster, &names, Leaving::Deleted))?;
    }
    cx.wait(cx.engine().delete_nodes(&locked, &mut cluster, &names, drain))?;
    let value =
        json!({"cluster": cx.name.as_ref(), "nodes": names.iter().map(AsRef::as_ref).collect::<Vec<&str>>()});
    cx.screen.result(&value, || {
        let verb = if names.len() > 1 { "are" } else { "is" };
        format!("{} {verb} deleted", super::joined(&names))
    });
    Ok(())
}
