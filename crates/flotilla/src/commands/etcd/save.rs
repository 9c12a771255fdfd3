//! `flotilla etcd snapshot save`

use flotilla_ops::OpError;
use flotilla_ops::etcd::save::{self, Request};

use crate::args::SnapshotSaveArgs;
use crate::cluster::Cx;

pub(super) fn run(cx: &Cx, args: &SnapshotSaveArgs) -> Result<(), OpError> {
    let request = Request { cluster: cx.name.clone(), file: args.file.clone(), force: args.force };
    cx.handle_signals()?;
    let saved = cx.wait(save::run(&cx.context(), &request))?;
    cx.screen.result(&saved, || {
        format!(
            "saved etcd of cluster {} to {} ({} keys)",
            saved.cluster,
            saved.file.display(),
            saved.snapshot.keys
        )
    });
    Ok(())
}
