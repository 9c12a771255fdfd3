//! `flotilla pause`, `flotilla unpause`

use flotilla_engine::EngineError;
use serde_json::json;

use crate::args::PauseArgs;
use crate::cluster::Cx;
use crate::failure::Failure;

pub(crate) fn pause(cx: &Cx, args: &PauseArgs) -> Result<(), Failure> {
    change(cx, args, Change::Pause)
}

pub(crate) fn unpause(cx: &Cx, args: &PauseArgs) -> Result<(), Failure> {
    change(cx, args, Change::Unpause)
}

#[derive(Clone, Copy)]
enum Change {
    Pause,
    Unpause,
}

fn change(cx: &Cx, args: &PauseArgs, change: Change) -> Result<(), Failure> {
    let cluster = cx.cluster()?;
    cx.heed_signals()?;
    let verb = match change {
        Change::Pause => "pause",
        Change::Unpause => "unpause",
    };
    let _lock = cx.lock(&cx.name, &format!("flotilla {verb}"), args.lock)?;
    let namespaces = (!args.all_namespaces).then_some(args.namespaces.as_slice());
    let engine = cx.engine();
    let mut count = 0;
    for node in &cluster.spec.nodes {
        let machine = cx.wait(engine.machine(&cx.name, &node.name))?;
        let done = match change {
            Change::Pause => cx.wait(engine.bootstrapper.pause(machine.as_ref(), namespaces)),
            Change::Unpause => cx.wait(engine.bootstrapper.unpause(machine.as_ref(), namespaces)),
        };
        count += done.map_err(EngineError::from)?;
    }
    let value = json!({"name": cx.name.as_ref(), "containers": count});
    cx.screen.result(&value, || {
        let whose = namespaces.map_or_else(|| "all namespaces".into(), |namespaces| namespaces.join(", "));
        let done = match change {
            Change::Pause => "paused",
            Change::Unpause => "unpaused",
        };
        let containers = if count == 1 { "container" } else { "containers" };
        format!("{done} {count} {containers} in {whose}")
    });
    Ok(())
}
