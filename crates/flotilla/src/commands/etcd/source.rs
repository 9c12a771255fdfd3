//! A snapshot that a user names: whether it may become the data of this cluster.

use std::fs::File;
use std::path::Path;

use flotilla_core::{Cluster, Event, SnapshotFile, SnapshotOrigin};
use flotilla_engine::EngineError;
use flotilla_ops::OpError;

use super::EtcdError;
use crate::cluster::Cx;

/// Opens and checks the file. Nothing else is touched.
pub(crate) fn open(cx: &Cx, path: &Path, force: bool) -> Result<SnapshotFile, OpError> {
    let file = File::open(path);
    let file = file.map_err(|source| EngineError::Io { action: "read", path: path.to_owned(), source })?;
    let checked = cx.engine().bootstrapper.check_snapshot(file);
    let snapshot = checked.map_err(|source| EtcdError::BadSnapshot { file: path.to_owned(), source })?;
    if !snapshot.has_checksum && !force {
        return Err(EtcdError::NoChecksum { file: path.to_owned() }.into());
    }
    Ok(snapshot)
}

/// Refuses a snapshot that is not proven to be of this cluster: of the one whose authority its control planes have on their
/// disks. They may be off.
pub(crate) fn require_own(
    cx: &Cx,
    cluster: &Cluster,
    (path, snapshot): (&Path, &SnapshotFile),
    force: bool,
) -> Result<(), OpError> {
    let (name, file) = (cx.name.clone(), path.to_owned());
    let Some(origin) = origin(cx, cluster, snapshot)? else {
        return Err(EtcdError::NoSurvivor { cluster: name }.into());
    };
    let error = match origin {
        SnapshotOrigin::ThisCluster => return Ok(()),
        SnapshotOrigin::AnotherCluster => EtcdError::Foreign { cluster: name, file },
        SnapshotOrigin::Unknown => EtcdError::UnknownOrigin { cluster: name, file },
    };
    if !force {
        return Err(error.into());
    }
    let text = format!("{error}: remove nodes of the other cluster with `kubectl delete node`");
    cx.screen.reporter().report(Event::Warning { text });
    Ok(())
}

/// As the first control plane says that has an authority.
fn origin(
    cx: &Cx,
    cluster: &Cluster,
    snapshot: &SnapshotFile,
) -> Result<Option<SnapshotOrigin>, EngineError> {
    let engine = cx.engine();
    cx.wait(async {
        let machines = engine.machines(&cx.name).await?;
        for machine in cluster.spec.control_planes().filter_map(|node| machines.get(&node.name)) {
            let origin = engine.bootstrapper.snapshot_origin(snapshot, machine.as_ref()).await?;
            if origin.is_some() {
                return Ok(origin);
            }
        }
        Ok(None)
    })
}
