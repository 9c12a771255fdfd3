//! `flotilla delete`

use flotilla_spec::ClusterName;
use serde_json::json;

use crate::args::DeleteArgs;
use crate::cluster::Cx;
use crate::failure::Failure;

pub(crate) fn run(cx: &Cx, args: &DeleteArgs) -> Result<(), Failure> {
    cx.require_root()?;
    cx.heed_signals()?;
    let names = if args.all { cx.store.names()? } else { vec![cx.name.clone()] };
    if names.is_empty() {
        cx.screen.result(&json!({"deleted": false}), || "there is no cluster to delete".into());
    }
    for name in names {
        delete(cx, &name, args)?;
    }
    Ok(())
}

/// Without a look at its state, which may be damaged or gone: the name is enough.
fn delete(cx: &Cx, name: &ClusterName, args: &DeleteArgs) -> Result<(), Failure> {
    let _lock = cx.lock(name, "flotilla delete", args.lock)?;
    let deleted = cx.wait(cx.engine().delete(name))?.is_yes();
    cx.screen.result(&json!({"name": name.as_ref(), "deleted": deleted}), || {
        if deleted { format!("{name} is deleted") } else { format!("there was no cluster {name}") }
    });
    Ok(())
}
