//! `flotilla node start`

use flotilla_engine::port::Changed;
use flotilla_engine::{Cluster, EngineError};
use flotilla_spec::WantedPower;
use serde_json::json;

use crate::args::NodeStartArgs;
use crate::cluster::{Cx, ranges};
use crate::commands::start::wait;
use crate::failure::Failure;

pub(crate) fn run(cx: &Cx, args: &NodeStartArgs) -> Result<(), Failure> {
    let wanted: Vec<String> = args.nodes.iter().chain(&args.name).cloned().collect();
    super::names(&cx.cluster()?, &wanted)?;
    cx.heed_signals()?;
    let _lock = cx.lock(&cx.name, "flotilla node start", args.lock)?;
    let mut cluster = cx.store.get(&cx.name)?;
    let mut names = super::names(&cluster, &wanted)?;
    // As a proposal has it: `node add`, then `node start`. Its --all says the same.
    if names.is_empty() {
        names = cluster.spec.nodes.iter().map(|node| node.name.clone()).collect();
    }
    for node in cluster.spec.nodes.iter_mut().filter(|node| names.contains(&node.name)) {
        node.power = WantedPower::Running;
    }
    super::control_plane_is_to_run(&cluster)?;
    start_together(cx, &cluster)?;
    ranges::check(cx, &cluster, false)?;
    cx.store.save(&cluster)?;
    let changed = cx.start(&mut cluster, &wait::default())?;
    cx.screen.result(&json!({"cluster": cx.name.as_ref(), "changed": changed.is_yes()}), || {
        let (names, verb) = (super::joined(&names), if names.len() > 1 { "run" } else { "runs" });
        match changed {
            Changed::Yes => format!("{names} {verb}"),
            Changed::No => format!("{names} {verb} already"),
        }
    });
    Ok(())
}

/// Control planes that were stopped together start together: some of them alone may be no majority of etcd's members,
/// and none of them can be asked.
fn start_together(cx: &Cx, cluster: &Cluster) -> Result<(), Failure> {
    let any_stopped = cluster.spec.control_planes().any(|node| node.power == WantedPower::Stopped);
    if any_stopped && !cx.wait(cx.engine().control_plane_is_on(cluster))? {
        return Err(EngineError::Stopped(cx.name.clone()).into());
    }
    Ok(())
}
