//! A snapshot that a user names: whether it may become the data of this cluster.

use std::fs::File;
use std::path::Path;

use flotilla_core::{Cluster, SnapshotError, SnapshotFile, SnapshotOrigin};
use flotilla_engine::EngineError;
use flotilla_engine::converge::Engine;

use super::EtcdError;
use crate::{Context, OpError};

/// Opens and checks the file. Nothing else is touched.
pub(crate) fn open(cx: &Context<'_>, path: &Path, force: bool) -> Result<SnapshotFile, OpError> {
    let unreadable = |source| EngineError::Io { action: "read", path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let checked = if file.metadata().map_err(unreadable)?.is_file() {
        cx.bootstrapper.check_snapshot(Box::new(file))
    } else {
        Err(SnapshotError::NotSnapshot)
    };
    let snapshot = checked.map_err(|source| EtcdError::BadSnapshot { file: path.to_owned(), source })?;
    if !snapshot.has_checksum && !force {
        return Err(EtcdError::NoChecksum { file: path.to_owned() }.into());
    }
    Ok(snapshot)
}

/// Refuses a snapshot that is not proven to be of this cluster: of the one whose authority its control planes have on their
/// disks. They may be off.
pub(crate) async fn require_own(
    engine: &Engine<'_>,
    cluster: &Cluster,
    (path, snapshot): (&Path, &SnapshotFile),
    force: bool,
) -> Result<(), OpError> {
    let (name, file) = (cluster.name().clone(), path.to_owned());
    let Some(origin) = origin(engine, cluster, snapshot).await? else {
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
    engine.warn(text);
    Ok(())
}

/// As the first control plane says that has an authority.
async fn origin(
    engine: &Engine<'_>,
    cluster: &Cluster,
    snapshot: &SnapshotFile,
) -> Result<Option<SnapshotOrigin>, EngineError> {
    let machines = engine.machines(cluster).await?;
    for machine in cluster.spec.control_planes().filter_map(|node| machines.get(&node.name)) {
        let origin = engine.bootstrapper.snapshot_origin(snapshot, machine.as_ref()).await?;
        if origin.is_some() {
            return Ok(origin);
        }
    }
    Ok(None)
}
