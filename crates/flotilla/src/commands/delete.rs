//! `flotilla delete`

use flotilla_core::Changed;
use flotilla_core::Explain;
use flotilla_ops::delete::{self, Deleted, Request};
use flotilla_ops::{OpError, several};
use serde_json::json;

use crate::args::DeleteArgs;
use crate::cluster::Cx;
use crate::profile;
use crate::screen::Screen;

pub(crate) fn run(cx: &Cx, args: &DeleteArgs) -> Result<(), OpError> {
    let context = cx.context();
    let delete = async |cluster| {
        let deleted = delete::run(&context, &Request { cluster, busy: args.lock.busy() }).await?;
        tell(cx.screen, &deleted);
        if profile::selected(cx.settings()).is_some_and(|name| name == deleted.cluster.as_ref()) {
            // With a name that does not exist, the next command says so.
            let _ = profile::unselect(cx.settings());
        }
        Ok(deleted.changed)
    };
    cx.handle_signals()?;
    if !args.all {
        if !cx.wait(delete(cx.name.clone()))?.is_yes() {
            suggest_others(cx);
        }
        return Ok(());
    }
    let names = cx.wait(delete::all(&context))?;
    if names.is_empty() {
        cx.screen.result(&json!({"changed": false}), || "no cluster to delete".into());
    }
    cx.wait(several::each(&context, names, "deleted", async |name| delete(name).await.map(drop)))
}

fn tell(screen: &Screen, deleted: &Deleted) {
    let name = &deleted.cluster;
    screen.result(deleted, || match deleted.changed {
        Changed::Yes => format!("deleted cluster {name}"),
        Changed::No => format!("cluster {name} does not exist: nothing was deleted"),
    });
}

/// For a user who has mistyped the name: that the cluster does not exist is no failure, as with minikube.
fn suggest_others(cx: &Cx) {
    if cx.store.names().is_ok_and(|names| !names.is_empty()) {
        for hint in cx.store.no_cluster(&cx.name).hints() {
            cx.screen.hint(&hint);
        }
    }
}
