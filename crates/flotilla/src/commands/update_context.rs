//! `flotilla update-context`

use flotilla_engine::EngineError;
use flotilla_engine::port::Kubeconfig;
use serde_json::json;

use crate::cluster::Cx;
use crate::failure::Failure;

pub(crate) fn run(cx: &Cx) -> Result<(), Failure> {
    let cluster = cx.cluster()?;
    let engine = cx.engine();
    let primary = &cluster.spec.primary().name;
    let machine = cx.wait(engine.machine(&cx.name, primary))?;
    let access =
        cx.wait(engine.bootstrapper.access(&cluster, machine.as_ref())).map_err(EngineError::from)?;
    let not_running = || EngineError::NotRunning { cluster: cx.name.clone(), node: primary.clone() };
    let access = access.ok_or_else(not_running)?;
    let changed = cx.kubeconfig().put(&cx.name, &access)?;
    let path = cx.kubeconfig().file(&cx.name).path().display().to_string();
    let value = json!({"name": cx.name.as_ref(), "changed": changed.is_yes(), "kubeconfig": path});
    cx.screen.result(&value, || {
        let name = &cx.name;
        if changed.is_yes() {
            format!("{name} is the current context of {path}")
        } else {
            format!("{name} is the current context of {path} already")
        }
    });
    Ok(())
}
