//! A cluster out of a snapshot: etcd begins again with a single member, and the other control planes have to join it.
//!
//! ```text
//! new data beside the old ─▶ all control planes silent ─▶ others set aside and reset ─▶ data exchanged ─▶ API answers
//! ```
//!
//! Up to the reset nothing is lost by a kill. After it only the repetition of the command brings the API back, and
//! that repetition needs nothing that the first run has taken away. No data is deleted: see [`super::copies`].

use std::io::{self, Seek};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use flotilla_core::cluster::{Cluster, Node};
use flotilla_core::{BootstrapError, Cmd, GuestError, Machine, Snapshot, SnapshotFile, Source};
use futures::future::{join_all, try_join_all};
use k8s_openapi::api::core::v1::Node as KubeNode;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use super::copies::{self, NEXT};
use super::snapshot;
use super::{DATA, DATABASE, PEER_PORT};
use crate::api::insist;
use crate::files::CRI_SOCKET;
use crate::init;
use crate::join;
use crate::kubelet;
use crate::leave;
use crate::mirror;
use crate::patience::Cancelled;
use crate::phase::{in_node, run};
use crate::stopped;

const RESTORED: &str = "/var/lib/etcd.restored";
const MANIFEST: &str = "/etc/kubernetes/manifests/etcd.yaml";
/// Where the manifest is while there may be no data: an etcd that finds none would begin a cluster of its own.
const HELD: &str = "/etc/flotilla/etcd.yaml";
/// A link to where an exchange moves the data from before.
const MOVED: &str = "/etc/flotilla/etcd.moved";
const LIMIT: Duration = Duration::from_mins(10);
/// How often the lock of an etcd that was stopped is looked for, five times a second.
const LOCKED: u32 = 50;

/// For a database that has no checksum after it.
const SKIP: &str = "--skip-hash-check";
/// Above every revision that clients may have seen: what they remember of the future is void, and they look again.
const BUMP: &str = "--bump-revision=1000000000";

/// Begins etcd again in `machine`. `others` are the machines of all other control planes that exist; they are on, and
/// afterwards they have not joined. The data that all of them had is kept in them: see [`super::copies()`].
pub(super) async fn restore(
    cluster: &Cluster,
    node: &Node,
    machine: &dyn Machine,
    others: &[Arc<dyn Machine>],
    source: Source,
    cancelled: &Cancelled,
) -> Result<Snapshot, BootstrapError> {
    run(machine, "finish an earlier restoration", Cmd::sh(undo())).await?;
    let found = prepare_from(node, machine, source).await?;
    silence_all(others.iter().map(AsRef::as_ref).chain([machine])).await?;
    try_join_all(others.iter().map(|other| async {
        copies::set_aside(other.as_ref()).await?;
        leave::clear(other.as_ref()).await
    }))
    .await?;
    run(machine, "replace etcd's data", Cmd::sh(exchange())).await?;
    finish(cluster, machine, others, cancelled).await?;
    Ok(found)
}

/// Stops a control plane whose etcd does not answer, and says what is in its database.
pub(super) async fn stop_and_examine(machine: &dyn Machine) -> Result<Snapshot, BootstrapError> {
    silence(machine).await?;
    snapshot::examine(machine, DATABASE).await
}

/// Brings the API back once etcd has begun again in `machine`, and tells it what has changed since it was there last.
pub(super) async fn finish(
    cluster: &Cluster,
    machine: &dyn Machine,
    others: &[Arc<dyn Machine>],
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let client = init::restart(cluster, machine, cancelled).await?;
    for other in others {
        // The data is of a time when they were there.
        mirror::forget(&client, other.name().as_ref(), cancelled).await?;
        stopped::mark(&client, other.name().as_ref(), cancelled).await?;
    }
    forget_strangers(&client, cluster, cancelled).await
}

/// Deletes Node objects of nodes that were removed after the snapshot. Only nodes with an address of this cluster:
/// those of another cluster, whose snapshot was restored by force, are kept.
async fn forget_strangers(
    client: &Client,
    cluster: &Cluster,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let (nodes, all) = (Api::<KubeNode>::all(client.clone()), ListParams::default());
    for node in insist("list the nodes", cancelled, || nodes.list(&all)).await? {
        let name = node.name_any();
        let is_known = cluster.spec.nodes.iter().any(|known| known.name.as_ref() == name);
        if !is_known && has_address_of(cluster, &node) {
            join::forget_by(client, &name, cancelled).await?;
        }
    }
    Ok(())
}

fn has_address_of(cluster: &Cluster, node: &KubeNode) -> bool {
    let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    addresses.filter_map(|address| address.address.parse().ok()).any(|address| match address {
        IpAddr::V4(address) => cluster.allocations.subnet.contains(&address),
        IpAddr::V6(_) => false,
    })
}

/// Creates the new data next to the old. Stops etcd only to read its own database, which is locked while etcd runs.
async fn prepare_from(
    node: &Node,
    machine: &dyn Machine,
    source: Source,
) -> Result<Snapshot, BootstrapError> {
    let (path, flag) = match source {
        Source::File(file) => {
            let flag = if file.has_checksum { "" } else { SKIP };
            (copy_in(machine, file).await?, flag)
        }
        Source::Own => match snapshot::save(machine).await {
            Err(BootstrapError::Node { source: GuestError::Failed { .. }, .. }) => {
                silence(machine).await?;
                return prepare(node, machine, DATABASE, SKIP).await;
            }
            saved => (saved?, ""),
        },
    };
    let prepared = prepare(node, machine, &path, flag).await;
    let removed = run(machine, "remove the node's copy of the snapshot", Cmd::new(["rm", "-f", &path])).await;
    prepared.and_then(|found| removed.map(|_| found))
}

async fn copy_in(
    machine: &dyn Machine,
    SnapshotFile { mut content, .. }: SnapshotFile,
) -> Result<String, BootstrapError> {
    let failed = |source: io::Error| BootstrapError::Api {
        action: "read the snapshot".to_owned(),
        source: source.into(),
    };
    content.rewind().map_err(failed)?;
    let path = snapshot::new_path(machine).await?;
    let copied = machine.guest().copy_in(Box::new(content), &path, 0o600).await;
    copied.map_err(in_node("copy the snapshot", machine))?;
    Ok(path)
}

/// Creates the new data from a snapshot, and returns its contents.
async fn prepare(
    node: &Node,
    machine: &dyn Machine,
    path: &str,
    flag: &str,
) -> Result<Snapshot, BootstrapError> {
    let found = snapshot::examine(machine, path).await?;
    let (name, peer) = (&node.spec.name, format!("https://{}:{PEER_PORT}", node.address));
    let clear = || run(machine, "make room for the snapshot", Cmd::new(["rm", "-rf", RESTORED]));
    clear().await?;
    let words = format!(
        "etcdutl snapshot restore {path} --data-dir={RESTORED} --name={name} --initial-cluster={name}={peer} \
         --initial-advertise-peer-urls={peer} {BUMP} --mark-compacted {flag}"
    );
    // Without a shell, which would end with us and leave the program running.
    let restore = Cmd { limit: Some(LIMIT), ..Cmd::new(words.split_whitespace()) };
    let restored = run(machine, "unpack the snapshot", restore).await;
    if restored.is_err() {
        // Only the first failure is reported.
        drop(clear().await);
    }
    restored.map(|_| found).map_err(|error| disk_full(error, RESTORED))
}

/// The same error, or that the disk is full if the program says so.
fn disk_full(error: BootstrapError, path: &str) -> BootstrapError {
    match error {
        BootstrapError::Node { action, node, source: GuestError::Failed { tail, .. } }
            if tail.iter().any(|line| line.contains("no space left on device")) =>
        {
            let (path, full) = (path.to_owned(), io::ErrorKind::StorageFull.into());
            let source = GuestError::File { node: node.clone(), action: "write", path, source: full };
            BootstrapError::Node { action, node, source }
        }
        error => error,
    }
}

/// All of them or none: if one cannot be stopped, the others go on, and the cluster is what it was.
async fn silence_all<'a>(every: impl Iterator<Item = &'a dyn Machine> + Clone) -> Result<(), BootstrapError> {
    // Each to its end: one that is still being stopped would not stay started.
    let silenced: Result<(), _> = join_all(every.clone().map(silence)).await.into_iter().collect();
    if silenced.is_err() {
        kubelet::start_all(every).await;
    }
    silenced
}

/// Stops the kubelet and the control plane's pods. Both come back with the kubelet.
async fn silence(machine: &dyn Machine) -> Result<(), BootstrapError> {
    run(machine, "stop the control plane", Cmd::sh(stop_control_plane())).await.map(drop)
}

/// Fails if it cannot say what runs, or if an etcd still has the database: its data must not be moved away under it. It holds a
/// lock on it as long as it runs, which other programs named etcd do not.
fn stop_control_plane() -> String {
    let crictl = format!("crictl --runtime-endpoint {CRI_SOCKET}");
    format!(
        "set -e
         systemctl stop kubelet
         pods=
         for component in kube-apiserver kube-controller-manager kube-scheduler etcd; do
             found=$({crictl} pods --quiet --namespace kube-system --label component=$component)
             pods=\"$pods $found\"
         done
         echo $pods | xargs -r {crictl} stopp
         [ -e {DATABASE} ] || exit 0
         inode=$(stat -c %i {DATABASE})
         for _ in $(seq {LOCKED}); do
             grep -q \":$inode \" /proc/locks || exit 0
             sleep 0.2
         done
         echo 'etcd still runs' >&2
         exit 1"
    )
}

/// If it is killed after any line, [`undo`] repairs it.
fn exchange() -> String {
    format!(
        "set -e
         [ -e {HELD} ] || mv {MANIFEST} {HELD}
         rm -f {MOVED}
         {NEXT}
         [ ! -e {DATA}/member ] || ln -s \"$copy\" {MOVED}
         [ ! -e {DATA}/member ] || mv {DATA}/member \"$copy\"
         mv {RESTORED}/member {DATA}/
         mv {HELD} {MANIFEST}
         rm -rf {RESTORED} {MOVED}"
    )
}

/// Repairs an interrupted exchange. Without data etcd must not start: it would create a new cluster.
fn undo() -> String {
    format!(
        "[ -e {HELD} ] || exit 0
         [ -e {DATA}/member ] || [ ! -e {MOVED} ] || mv \"$(readlink {MOVED})\" {DATA}/member
         [ ! -e {DATA}/member ] || mv {HELD} {MANIFEST}"
    )
}

#[cfg(test)]
mod tests;
