//! Snapshots of etcd.

use std::net::Ipv4Addr;
use std::time::Duration;

use flotilla_core::{BootstrapError, Cmd, Machine, Snapshot, Writer};
use serde::Deserialize;

use super::{etcdctl, parse};
use crate::phase::{in_node, run};

/// Temporary directory of snapshots; leftovers of killed commands are removed by a later one.
const FOLDER: &str = "/var/lib/flotilla/snapshots";
/// A database of gigabytes takes a while.
const LIMIT: Duration = Duration::from_mins(10);

/// What etcd's tool says of a snapshot.
#[derive(Deserialize)]
struct Found {
    revision: u64,
    #[serde(rename = "totalKey")]
    keys: u64,
    #[serde(rename = "totalSize")]
    bytes: u64,
}

/// Writes a snapshot of this machine's etcd member to `target`. Needs no quorum.
pub(super) async fn save_snapshot(via: &dyn Machine, target: Writer) -> Result<Snapshot, BootstrapError> {
    let path = save(via).await?;
    let saved = async {
        let snapshot = examine(via, &path).await?;
        let copied = via.guest().copy_out(&path, target).await;
        copied.map_err(in_node("copy the snapshot", via))?;
        Ok(snapshot)
    }
    .await;
    let removed = run(via, "remove the node's copy of the snapshot", Cmd::new(["rm", "-f", &path])).await;
    saved.and_then(|snapshot| removed.map(|_| snapshot))
}

/// Saves a snapshot in the node, and returns its path.
pub(super) async fn save(via: &dyn Machine) -> Result<String, BootstrapError> {
    let path = new_path(via).await?;
    let save = etcdctl(Ipv4Addr::LOCALHOST, LIMIT, &["snapshot", "save", &path]);
    run(via, "save a snapshot of etcd", save).await?;
    Ok(path)
}

/// A path for a snapshot in the node that nobody else uses.
pub(super) async fn new_path(machine: &dyn Machine) -> Result<String, BootstrapError> {
    let path = format!("{FOLDER}/{}.db", std::process::id());
    let prepare = format!("mkdir -p -m 0700 {FOLDER} && find {FOLDER} -mmin +60 -delete; rm -f {path}");
    run(machine, "make room for a snapshot", Cmd::sh(prepare)).await?;
    Ok(path)
}

/// Reads the header of a snapshot. A file that is not a snapshot, or damaged, is an error.
pub(super) async fn examine(machine: &dyn Machine, path: &str) -> Result<Snapshot, BootstrapError> {
    // It would wait forever for a database that a running etcd has locked.
    let examine = Cmd::new(["etcdutl", "snapshot", "status", "-w", "json", path]).within(LIMIT);
    let said = run(machine, "read the snapshot", examine).await?;
    let found = parse(&said.text()).map_err(|source| BootstrapError::Api {
        action: "read what etcd says of the snapshot".to_owned(),
        source: source.into(),
    })?;
    let Found { revision, keys, bytes } = found;
    Ok(Snapshot { revision, keys, bytes })
}
