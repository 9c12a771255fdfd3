//! `flotilla etcd snapshot restore`: the API holds what it held when a snapshot was saved.

use std::path::PathBuf;

use flotilla_core::{Cluster, Snapshot, SnapshotFile, Source};
use flotilla_engine::converge::Wait;
use flotilla_engine::store::{Locked, WhenBusy};
use flotilla_spec::ClusterName;
use serde::{Deserialize, Serialize};

use super::{DataCopy, EtcdError, recovery, source};
use crate::{Context, OpError};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub cluster: ClusterName,
    pub file: PathBuf,
    /// Restores also a snapshot without a checksum, or of another cluster.
    pub force: bool,
    pub busy: WhenBusy,
}

/// A restoration that may begin. The cluster is locked while a person thinks: what they agree to is what is done.
#[derive(Debug)]
pub struct Prepared {
    locked: Locked,
    cluster: Cluster,
    file: SnapshotFile,
    request: Request,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    pub cluster: ClusterName,
    pub file: PathBuf,
    #[serde(flatten)]
    pub snapshot: Snapshot,
    /// Where the data is kept that etcd had before.
    pub copies: Vec<DataCopy>,
}

/// Checks the file. Nothing is changed.
pub async fn prepare(cx: &Context<'_>, request: Request) -> Result<Prepared, OpError> {
    cx.require_root().await?;
    let peeked = cx.store.peek_existing(&request.cluster)?;
    let file = source::open(cx, &request.file, request.force)?;
    let locked = cx.lock(&request.cluster, "flotilla etcd snapshot restore", request.busy)?;
    let cluster = locked.refresh_existing(peeked)?;
    source::require_own(&cx.engine(&request.cluster), &cluster, (&request.file, &file), request.force)
        .await?;
    Ok(Prepared { locked, cluster, file, request })
}

impl Prepared {
    /// Other control planes join the restored one again.
    pub fn others_join_again(&self) -> bool {
        self.cluster.spec.control_planes().count() > 1
    }

    pub async fn run(self, cx: &Context<'_>, wait: &Wait) -> Result<Restored, OpError> {
        let Self { locked, mut cluster, file, request } = self;
        let engine = cx.engine(&request.cluster);
        let there = recovery::power_on(&engine, &cluster).await?;
        let member = there.iter().find(|control_plane| control_plane.joined).cloned();
        let member = member.ok_or_else(|| EtcdError::NoSurvivor { cluster: request.cluster.clone() })?;
        let source = Source::File(file);
        let (snapshot, copies) =
            recovery::recover(&engine, &locked, &mut cluster, &member, &there, source).await?;
        engine.start(&locked, &cluster, wait).await?;
        Ok(Restored { cluster: request.cluster, file: request.file, snapshot, copies })
    }
}
