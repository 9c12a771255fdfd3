//! `flotilla delete`

use flotilla_core::Changed;
use flotilla_core::Explain;
use flotilla_ops::OpError;
use flotilla_spec::ClusterName;
use serde_json::json;

use crate::args::DeleteArgs;
use crate::cluster::Cx;

pub(crate) fn run(cx: &Cx, args: &DeleteArgs) -> Result<(), OpError> {
    cx.require_root()?;
    cx.handle_signals()?;
    if !args.all {
        let deleted = delete(cx, &cx.name, args)?;
        if !deleted.is_yes() {
            suggest_others(cx);
        }
        return Ok(());
    }
    let names = cx.store.names()?;
    if names.is_empty() {
        cx.screen.result(&json!({"changed": false}), || "there is no cluster to delete".into());
    }
    cx.each(names, "deleted", |name| delete(cx, name, args).map(drop))
}

/// Without a look at its state, which may be damaged or gone: the name is enough.
fn delete(cx: &Cx, name: &ClusterName, args: &DeleteArgs) -> Result<Changed, OpError> {
    let _lock = cx.lock(name, "flotilla delete", args.lock)?;
    let deleted = cx.wait(cx.engine().delete(name))?;
    cx.screen.result(&json!({"cluster": name.as_ref(), "changed": deleted.is_yes()}), || match deleted {
        Changed::Yes => format!("{name} is deleted"),
        Changed::No => format!("there is no cluster {name}: nothing was deleted"),
    });
    Ok(deleted)
}

/// For a person who has mistyped the name: that the cluster does not exist is no failure, as with minikube.
fn suggest_others(cx: &Cx) {
    if cx.store.names().is_ok_and(|names| !names.is_empty()) {
        for hint in cx.store.no_cluster(&cx.name).hints() {
            cx.screen.hint(&hint);
        }
    }
}
