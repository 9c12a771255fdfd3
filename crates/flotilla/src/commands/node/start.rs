//! `flotilla node start`

use flotilla_core::Changed;
use flotilla_ops::{OpError, bring_up};
use flotilla_spec::WantedPower;
use serde_json::json;

use crate::args::NodeStartArgs;
use crate::cluster::{Cx, ranges};
use crate::commands::start::wait;

pub(crate) fn run(cx: &Cx, args: &NodeStartArgs) -> Result<(), OpError> {
    let wanted: Vec<String> = args.nodes.iter().chain(&args.name).cloned().collect();
    super::names(&cx.cluster()?, &wanted)?;
    cx.handle_signals()?;
    let locked = cx.lock(&cx.name, "flotilla node start", args.lock)?;
    let mut cluster = cx.store.get(&cx.name)?;
    let asked_for = super::names(&cluster, &wanted)?;
    // As a proposal has it: `node add`, then `node start`. Its --all says the same.
    let all = cluster.spec.nodes.iter().map(|node| node.name.clone());
    let names = if asked_for.is_empty() { all.collect() } else { asked_for.clone() };
    for node in cluster.spec.nodes.iter_mut().filter(|node| names.contains(&node.name)) {
        node.power = WantedPower::Running;
    }
    // Whoever starts one wants to keep it.
    cluster.allocations.leaving.retain(|node| !asked_for.contains(node));
    super::control_plane_is_to_run(&cluster)?;
    ranges::check(cx, &cluster, false)?;
    let changed = if asked_for.is_empty() {
        cx.store.save(&cluster)?;
        cx.wait(bring_up::start(&cx.context(), &locked, &mut cluster, &wait::default()))?
    } else {
        cx.wait(cx.engine().can_start_nodes(&cluster, &asked_for))?;
        cx.store.save(&cluster)?;
        cx.wait(bring_up::start_nodes(&cx.context(), &locked, &mut cluster, &asked_for, &wait::default()))?
    };
    cx.screen.result(&json!({"cluster": cx.name.as_ref(), "changed": changed.is_yes()}), || {
        let (names, verb) = (super::joined(&names), if names.len() > 1 { "run" } else { "runs" });
        match changed {
            Changed::Yes => format!("{names} {verb}"),
            Changed::No => format!("{names} {verb} already"),
        }
    });
    Ok(())
}
