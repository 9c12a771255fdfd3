//! `flotilla node stop`

use flotilla_core::{Changed, Drain};
use flotilla_engine::converge::Leaving;
use flotilla_ops::OpError;
use flotilla_spec::WantedPower;
use serde_json::json;

use crate::args::NodeStopArgs;
use crate::cluster::Cx;

pub(crate) fn run(cx: &Cx, args: &NodeStopArgs) -> Result<(), OpError> {
    super::names(&cx.cluster()?, &args.nodes)?;
    cx.handle_signals()?;
    let _lock = cx.lock(&cx.name, "flotilla node stop", args.lock)?;
    let mut cluster = cx.store.get(&cx.name)?;
    let names = super::names(&cluster, &args.nodes)?;
    let force = args.draining.force;
    if !force {
        cx.wait(cx.engine().can_spare(&cluster, &names, Leaving::Stopped))?;
    }
    let mut changed = Changed::No;
    if args.drain {
        let drain = Drain { limit: args.draining.drain_timeout, force };
        // Before they are wanted stopped: nodes that cannot be emptied go on as they were.
        changed = cx.wait(cx.engine().drain_nodes(&cluster, &names, drain))?;
    }
    for node in cluster.spec.nodes.iter_mut().filter(|node| names.contains(&node.name)) {
        node.power = WantedPower::Stopped;
    }
    cluster.spec.hand_over_primary(&names);
    cx.store.save(&cluster)?;
    changed = changed.or(cx.wait(cx.engine().stop_nodes(&cluster, &names, force))?);
    cx.screen.result(&json!({"cluster": cx.name.as_ref(), "changed": changed.is_yes()}), || {
        let (names, verb) = (super::joined(&names), if names.len() > 1 { "are" } else { "is" });
        match changed {
            Changed::Yes => format!("{names} {verb} stopped"),
            Changed::No => format!("{names} {verb} stopped already"),
        }
    });
    Ok(())
}
