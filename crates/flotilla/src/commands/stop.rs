//! `flotilla stop`

use flotilla_core::Changed;
use flotilla_core::explain::profile_flag;
use flotilla_spec::{ClusterName, WantedPower};
use serde_json::json;

use crate::args::StopArgs;
use crate::cluster::Cx;
use crate::failure::Failure;

pub(crate) fn run(cx: &Cx, args: &StopArgs) -> Result<(), Failure> {
    cx.require_root()?;
    if !args.all {
        // Before the lock, which would make a folder.
        cx.store.get(&cx.name)?;
        cx.handle_signals()?;
        return stop(cx, &cx.name, args);
    }
    let mut names = cx.store.names()?;
    // What was never saved has nothing to stop.
    names.retain(|name| !matches!(cx.store.load(name), Ok(None)));
    if names.is_empty() {
        cx.screen.result(&json!({"changed": false}), || "there is no cluster to stop".into());
    }
    cx.handle_signals()?;
    cx.each(names, "stopped", |name| stop(cx, name, args))
}

fn stop(cx: &Cx, name: &ClusterName, args: &StopArgs) -> Result<(), Failure> {
    let _lock = cx.lock(name, "flotilla stop", args.lock)?;
    let mut cluster = cx.store.get(name)?;
    for node in &mut cluster.spec.nodes {
        node.power = WantedPower::Stopped;
    }
    cx.store.save(&cluster)?;
    let changed = cx.wait(cx.engine().stop(&cluster, args.keep_context_active))?;
    cx.screen.result(&json!({"cluster": name.as_ref(), "changed": changed.is_yes()}), || match changed {
        Changed::Yes => {
            let flag = profile_flag(name);
            format!("{name} is stopped; `flotilla start{flag}` brings it back with all it holds")
        }
        Changed::No => format!("{name} is stopped already"),
    });
    Ok(())
}
