//! `flotilla stop`

use flotilla_engine::explain::profile_flag;
use flotilla_engine::port::Changed;
use flotilla_spec::{ClusterName, WantedPower};
use serde_json::json;

use crate::args::StopArgs;
use crate::cluster::Cx;
use crate::failure::Failure;

pub(crate) fn run(cx: &Cx, args: &StopArgs) -> Result<(), Failure> {
    cx.require_root()?;
    let names = if args.all { cx.store.names()? } else { vec![cx.name.clone()] };
    if !args.all {
        cx.store.get(&cx.name)?;
    }
    if names.is_empty() {
        cx.screen.result(&json!({"changed": false}), || "there is no cluster to stop".into());
    }
    cx.heed_signals()?;
    for name in names {
        stop(cx, &name, args)?;
    }
    Ok(())
}

fn stop(cx: &Cx, name: &ClusterName, args: &StopArgs) -> Result<(), Failure> {
    let _lock = cx.lock(name, "flotilla stop", args.lock)?;
    let mut cluster = cx.store.get(name)?;
    for node in &mut cluster.spec.nodes {
        node.power = WantedPower::Stopped;
    }
    cx.store.save(&cluster)?;
    let changed = cx.wait(cx.engine().stop(&cluster, args.keep_context_active))?;
    cx.screen.result(&json!({"name": name.as_ref(), "changed": changed.is_yes()}), || match changed {
        Changed::Yes => {
            let flag = profile_flag(name);
            format!("{name} is stopped; `flotilla start{flag}` brings it back with all it holds")
        }
        Changed::No => format!("{name} is stopped already"),
    });
    Ok(())
}
