//! `flotilla update-context`

use flotilla_core::ApiAccess;
use flotilla_core::Cluster;
use flotilla_engine::EngineError;
use flotilla_ops::OpError;
use serde_json::json;

use crate::cluster::Cx;

pub(crate) fn run(cx: &Cx) -> Result<(), OpError> {
    let cluster = cx.cluster()?;
    let access = cx.wait(access(cx, &cluster))?;
    let changed = cx.kubeconfig().put(&cx.name, &access).map_err(EngineError::from)?;
    let path = cx.kubeconfig().path(&cx.name).display().to_string();
    let value = json!({"cluster": cx.name.as_ref(), "changed": changed.is_yes(), "kubeconfig": path});
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

/// By the first control plane that is on and has it.
async fn access(cx: &Cx<'_>, cluster: &Cluster) -> Result<ApiAccess, EngineError> {
    let engine = cx.engine();
    for node in cluster.spec.control_planes() {
        let machine = match engine.machine(&cx.name, &node.name).await {
            Err(EngineError::NotRunning { .. } | EngineError::Stopped(_)) => continue,
            machine => machine?,
        };
        if let Some(access) = engine.bootstrapper.access(cluster, machine.as_ref()).await? {
            return Ok(access);
        }
    }
    Err(EngineError::Stopped(cx.name.clone()))
}
