//! `flotilla etcd snapshot …`

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use flotilla_core::event::{Outcome, Step};
use flotilla_core::{Cluster, Snapshot, Source};
use flotilla_engine::EngineError;
use flotilla_engine::converge::Wait;
use flotilla_ops::OpError;
use serde_json::{Value, json};

use super::renewal;
use super::{EtcdError, source, status};
use crate::args::{SnapshotRestoreArgs, SnapshotSaveArgs};
use crate::cluster::Cx;

pub(super) fn save(cx: &Cx, args: &SnapshotSaveArgs) -> Result<(), OpError> {
    let cluster = cx.cluster()?;
    may_be_written(args)?;
    cx.handle_signals()?;
    // Of the most that is agreed on, if one of them should lag behind.
    let vias = super::members_that_are_on(cx, &cluster)?;
    let status = status::Status::ask(cx, &cluster, &vias)?;
    let via = vias.iter().rev().max_by_key(|via| status.agreed(via));
    let via = via.expect("one of them answered");
    let title = format!("saving a snapshot from node {}", via.node.spec.name);
    let step = Step::start(cx.screen.reporter(), "snapshot", title, None);
    let snapshot = written(args, |file| {
        let saved = cx.wait(cx.engine().bootstrapper.save_snapshot(via.machine.as_ref(), file));
        Ok(saved.map_err(EngineError::from)?)
    })?;
    step.done(Outcome::Done);
    cx.screen.result(&of_file(cx, &args.file, &snapshot), || {
        format!("saved a snapshot of {} to {} ({} keys)", cx.name, args.file.display(), snapshot.keys)
    });
    Ok(())
}

fn may_be_written(args: &SnapshotSaveArgs) -> Result<(), EtcdError> {
    let is_there = args.file.symlink_metadata().is_ok();
    if is_there && !args.force {
        return Err(EtcdError::FileExists { file: args.file.clone() });
    }
    Ok(())
}

/// Makes the file, readable for its owner alone, whole or not at all.
fn written<T>(args: &SnapshotSaveArgs, write: impl FnOnce(File) -> Result<T, OpError>) -> Result<T, OpError> {
    let mut unfinished = args.file.clone().into_os_string();
    unfinished.push(".unfinished");
    let unfinished = PathBuf::from(unfinished);
    let failed = |source: io::Error| EngineError::Io { action: "write", path: args.file.clone(), source };
    // One that a killed command left could have been made by anybody: it is not written into.
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error).into()),
        _ => {}
    }
    let file = File::options().write(true).create_new(true).mode(0o600).open(&unfinished).map_err(failed)?;
    let done = file.try_clone().map_err(|error| failed(error).into()).and_then(write).and_then(|written| {
        file.sync_all().map_err(failed)?;
        may_be_written(args)?;
        fs::rename(&unfinished, &args.file).map_err(failed)?;
        Ok(written)
    });
    if done.is_err() {
        // The error to tell is the first one.
        let _ = fs::remove_file(&unfinished);
    }
    done
}

pub(super) fn restore(cx: &Cx, args: &SnapshotRestoreArgs) -> Result<(), OpError> {
    cx.cluster()?;
    let file = source::open(cx, &args.file, args.force)?;
    // Held while a user thinks: what they agree to is what is done.
    let _lock = cx.lock(&cx.name, "flotilla etcd snapshot restore", args.lock)?;
    let mut cluster = cx.store.get(&cx.name)?;
    source::require_own(cx, &cluster, (&args.file, &file), args.force)?;
    if !agreed(cx, args, &cluster)? {
        return Ok(());
    }
    cx.handle_signals()?;
    let there = renewal::power_on(cx, &cluster)?;
    let member = there.iter().find(|control_plane| control_plane.joined).cloned();
    let member = member.ok_or_else(|| EtcdError::NoSurvivor { cluster: cx.name.clone() })?;
    let (snapshot, kept) = renewal::renew(cx, &mut cluster, &member, &there, Source::File(file))?;
    // The other control planes join again.
    cx.wait(cx.engine().start(&cluster, &Wait::for_pods()))?;
    let mut value = of_file(cx, &args.file, &snapshot);
    value["copies"] = kept.to_json();
    cx.screen.result(&value, || {
        format!("{} is as {} has it: {} keys", cx.name, args.file.display(), snapshot.keys)
    });
    kept.tell(cx);
    Ok(())
}

fn agreed(cx: &Cx, args: &SnapshotRestoreArgs, cluster: &Cluster) -> Result<bool, OpError> {
    let others = cluster.spec.control_planes().count() - 1;
    let mut lines = vec![
        format!(
            "restores etcd of {} from {}: everything written since is lost",
            cx.name,
            args.file.display()
        ),
        "the API does not answer meanwhile, pods keep running; the old data is kept on the nodes' disks"
            .to_owned(),
    ];
    if others > 0 {
        lines.push("one control plane starts from the snapshot, the others join it again".to_owned());
    }
    renewal::agreed(cx, args.yes, &lines)
}

fn of_file(cx: &Cx, file: &Path, snapshot: &Snapshot) -> Value {
    json!({
        "cluster": cx.name.as_ref(),
        "file": file,
        "keys": snapshot.keys,
        "revision": snapshot.revision,
        "bytes": snapshot.bytes,
    })
}
