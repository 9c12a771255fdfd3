//! A snapshot that a person names: whether it may become the data of this cluster.

use std::fs::File;
use std::path::Path;

use flotilla_core::{Cluster, Event};
use flotilla_engine::EngineError;
use flotilla_kubeadm::etcd::{self, Origin, SnapshotFile};
use flotilla_ops::OpError;

use super::EtcdError;
use crate::cluster::Cx;

/// Opens and checks the file. Nothing else is touched.
pub(crate) fn open(path: &Path, force: bool) -> Result<SnapshotFile, OpError> {
    let file = File::open(path);
    let file = file.map_err(|source| EngineError::Io { action: "read", path: path.to_owned(), source })?;
    let checked = SnapshotFile::check(file);
    let snapshot = checked.map_err(|source| EtcdError::BadSnapshot { file: path.to_owned(), source })?;
    if !snapshot.has_checksum() && !force {
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
    let Some(authority) = authority(cx, cluster)? else {
        return Err(EtcdError::NoSurvivor { cluster: name }.into());
    };
    let error = match snapshot.origin(&authority) {
        Origin::ThisCluster => return Ok(()),
        Origin::AnotherCluster => EtcdError::Foreign { cluster: name, file },
        Origin::Unknown => EtcdError::UnknownOrigin { cluster: name, file },
    };
    if !force {
        return Err(error.into());
    }
    let text = format!("{error}: `kubectl delete node` removes nodes of another cluster from its list");
    cx.screen.reporter().report(Event::Warning { text });
    Ok(())
}

/// That of the first control plane that has one.
fn authority(cx: &Cx, cluster: &Cluster) -> Result<Option<Vec<u8>>, EngineError> {
    cx.wait(async {
        let machines = cx.engine().machines(&cx.name).await?;
        for machine in cluster.spec.control_planes().filter_map(|node| machines.get(&node.name)) {
            if let Some(authority) = etcd::authority(machine.as_ref()).await? {
                return Ok(Some(authority));
            }
        }
        Ok(None)
    })
}
