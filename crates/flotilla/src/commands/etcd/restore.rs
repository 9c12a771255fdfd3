//! `flotilla etcd snapshot restore`

use flotilla_engine::converge::Wait;
use flotilla_ops::OpError;
use flotilla_ops::etcd::restore::{self, Prepared, Request};

use super::{agreed, tell_copies};
use crate::args::SnapshotRestoreArgs;
use crate::cluster::Cx;

pub(super) fn run(cx: &Cx, args: &SnapshotRestoreArgs) -> Result<(), OpError> {
    let request = Request {
        cluster: cx.name.clone(),
        file: args.file.clone(),
        force: args.force,
        busy: args.lock.busy(),
    };
    let prepared = cx.wait(restore::prepare(&cx.context(), request))?;
    let question = format!("Restore etcd of cluster {}?", cx.name);
    if !agreed(cx, args.yes, &lines(cx, args, &prepared), &question)? {
        return Ok(());
    }
    cx.handle_signals()?;
    let restored = cx.wait(prepared.run(&cx.context(), &Wait::for_cluster(args.waiting.wait_timeout)))?;
    cx.screen.result(&restored, || {
        let (file, keys) = (restored.file.display(), restored.snapshot.keys);
        format!("restored etcd of cluster {} from {file} ({keys} keys)", restored.cluster)
    });
    tell_copies(cx, &restored.copies);
    Ok(())
}

/// What is going to happen.
fn lines(cx: &Cx, args: &SnapshotRestoreArgs, prepared: &Prepared) -> Vec<String> {
    let mut lines = vec![
        format!(
            "restores etcd of cluster {} from {}: everything written since is lost",
            cx.name,
            args.file.display()
        ),
        "the API does not answer meanwhile, pods keep running; the old data is kept on the nodes' disks"
            .to_owned(),
    ];
    if prepared.others_join_again() {
        lines.push("one control plane starts from the snapshot, the others join it again".to_owned());
    }
    lines
}
