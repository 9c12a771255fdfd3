//! A cluster out of a snapshot: etcd begins anew with a single member, and the other control planes have to join it.
//!
//! ```text
//! new data beside the old ─▶ all control planes silent ─▶ others reset ─▶ data exchanged ─▶ API answers
//! ```
//!
//! Up to the reset nothing is lost by a kill. After it only the repetition of the command brings the API back, and
//! that repetition needs nothing that the first run has taken away.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use flotilla_engine::cluster::{Cluster, Node};
use flotilla_engine::port::{BootstrapError, Cmd, ExecError, Machine};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Node as KubeNode;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use super::PEER_PORT;
use super::snapshot::{self, Snapshot};
use crate::api::insist;
use crate::files::CRI_SOCKET;
use crate::init;
use crate::join;
use crate::leave;
use crate::mirror;
use crate::patience::Cancelled;
use crate::phase::{in_node, run};
use crate::stopped;

/// Where the data of a cluster comes from.
#[derive(Debug)]
pub enum Source {
    /// A snapshot that was saved before.
    File(File),
    /// What the control plane itself has, which may be all that is left.
    Own,
}

const DATA: &str = "/var/lib/etcd";
const RESTORED: &str = "/var/lib/etcd.restored";
/// The data from before, until the next restoration.
const BEFORE: &str = "/var/lib/etcd.before";
const MANIFEST: &str = "/etc/kubernetes/manifests/etcd.yaml";
/// Where the manifest is while there may be no data: an etcd that finds none would begin a cluster of its own.
const HELD: &str = "/etc/flotilla/etcd.yaml";
const LIMIT: Duration = Duration::from_mins(10);

/// Above every revision that clients may have seen: what they remember of the future is void, and they look anew.
const BUMP: &str = "--bump-revision=1000000000";

/// Begins etcd anew in `machine`. `others` are the machines of all other control planes that are there; they are on, and
/// afterwards they have not joined.
pub(crate) async fn restore(
    cluster: &Cluster,
    node: &Node,
    machine: &dyn Machine,
    others: &[Arc<dyn Machine>],
    source: Source,
    cancelled: &Cancelled,
) -> Result<Snapshot, BootstrapError> {
    run(machine, "finish an earlier restoration", Cmd::sh(undo())).await?;
    let path = snapshot_in(machine, source).await?;
    let found = if let Some(path) = &path {
        prepare(node, machine, path, "").await
    } else {
        // Its database is locked while it runs.
        silence(machine).await?;
        prepare(node, machine, &format!("{DATA}/member/snap/db"), "--skip-hash-check").await
    };
    if let Some(path) = &path {
        run(machine, "remove the node's copy of the snapshot", Cmd::new(["rm", "-f", path])).await?;
    }
    let found = found?;
    let every = others.iter().map(AsRef::as_ref).chain([machine]);
    try_join_all(every.map(silence)).await?;
    try_join_all(others.iter().map(|other| leave::clear(other.as_ref()))).await?;
    run(machine, "exchange etcd's data", Cmd::sh(exchange())).await?;
    finish(cluster, machine, others, cancelled).await?;
    Ok(found)
}

/// Brings the API back once etcd has begun anew in `machine`, and tells it what has changed since it was there last.
pub(crate) async fn finish(
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

/// Takes nodes off the list that have been removed since the snapshot was made.
async fn forget_strangers(
    client: &Client,
    cluster: &Cluster,
    cancelled: &Cancelled,
) -> Result<(), BootstrapError> {
    let (nodes, all) = (Api::<KubeNode>::all(client.clone()), ListParams::default());
    for node in insist("list the nodes", cancelled, || nodes.list(&all)).await? {
        let name = node.name_any();
        if !cluster.spec.nodes.iter().any(|known| known.name.as_ref() == name) {
            join::forget_by(client, &name, cancelled).await?;
        }
    }
    Ok(())
}

/// The path of a snapshot in the machine; none if there is but the database itself.
async fn snapshot_in(machine: &dyn Machine, source: Source) -> Result<Option<String>, BootstrapError> {
    match source {
        Source::File(file) => {
            let path = snapshot::new_path(machine).await?;
            let copied = machine.exec().copy_in(file, &path, 0o600).await;
            copied.map_err(in_node("copy the snapshot", machine))?;
            Ok(Some(path))
        }
        Source::Own => match snapshot::save(machine).await {
            Err(BootstrapError::Node { source: ExecError::Failed { .. }, .. }) => Ok(None),
            saved => saved.map(Some),
        },
    }
}

/// Makes the new data out of a snapshot, and finds out whether it is one.
async fn prepare(
    node: &Node,
    machine: &dyn Machine,
    path: &str,
    flag: &str,
) -> Result<Snapshot, BootstrapError> {
    let (name, peer) = (&node.spec.name, format!("https://{}:{PEER_PORT}", node.address));
    run(machine, "make room for the snapshot", Cmd::new(["rm", "-rf", RESTORED])).await?;
    let words = format!(
        "etcdutl snapshot restore {path} --data-dir={RESTORED} --name={name} --initial-cluster={name}={peer} \
         --initial-advertise-peer-urls={peer} {BUMP} --mark-compacted {flag}"
    );
    // Without a shell around it, which would end with us and leave it at work.
    let restore = Cmd { limit: Some(LIMIT), ..Cmd::new(words.split_whitespace()) };
    let restored = run(machine, "read the snapshot", restore).await.map(drop);
    match restored {
        // Its last words are a trace that helps nobody.
        Err(BootstrapError::Node { source: ExecError::Failed { .. }, .. }) => Err(BootstrapError::Api {
            action: "read the snapshot".to_owned(),
            source: "it is no snapshot of etcd, or it is damaged".into(),
        }),
        restored => restored,
    }?;
    snapshot::examine(machine, &format!("{RESTORED}/member/snap/db")).await
}

/// Stops the kubelet and the control plane's pods. Both come back with the kubelet.
async fn silence(machine: &dyn Machine) -> Result<(), BootstrapError> {
    let crictl = format!("crictl --runtime-endpoint {CRI_SOCKET}");
    let script = format!(
        "systemctl stop kubelet
         for component in kube-apiserver kube-controller-manager kube-scheduler etcd; do
             {crictl} pods --quiet --namespace kube-system --label component=$component
         done | xargs -r {crictl} stopp"
    );
    run(machine, "stop the control plane", Cmd::sh(script)).await.map(drop)
}

fn exchange() -> String {
    format!(
        "set -e
         mv {MANIFEST} {HELD}
         rm -rf {BEFORE}; mkdir -m 0700 {BEFORE}
         mv {DATA}/member {BEFORE}/; mv {RESTORED}/member {DATA}/
         mv {HELD} {MANIFEST}; rm -rf {RESTORED}"
    )
}

/// Leads out of an exchange that was cut off in the middle.
fn undo() -> String {
    format!(
        "[ -e {HELD} ] || exit 0
         [ -e {DATA}/member ] || mv {BEFORE}/member {DATA}/
         mv {HELD} {MANIFEST}"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fake_api::FakeApi;
    use flotilla_testkit::fake::{self, FakeMachine};

    fn primary() -> Node {
        fake::cluster("10.213.0.0/24").primary().unwrap()
    }

    #[tokio::test]
    async fn what_is_no_snapshot_is_refused_before_anything_is_stopped() {
        let machine = FakeMachine::new(&[], &[("etcdutl snapshot restore", Err("panic: page 0"))]);
        let error = prepare(&primary(), &machine, "/tmp/x.db", "").await.unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(cause, "it is no snapshot of etcd, or it is damaged");
    }

    #[tokio::test]
    async fn nodes_that_are_no_more_are_forgotten() {
        let object = |name: &str| json!({"metadata": {"name": name}});
        let paths = ["/api/v1/nodes/demo", "/api/v1/nodes/demo-m02"];
        let api = FakeApi::new(&[(paths[0], object("demo")), (paths[1], object("demo-m02"))]);
        let never: Cancelled = Arc::new(|| false);
        forget_strangers(&api.client(), &fake::cluster("10.213.0.0/24"), &never).await.unwrap();
        assert_eq!(paths.map(|path| api.object(path).is_some()), [true, false]);
    }

    #[tokio::test]
    async fn a_restored_etcd_has_one_member() {
        let state = r#"{"hash":1,"revision":7,"totalKey":404,"totalSize":1753088,"version":"3.7.0"}"#;
        let machine = FakeMachine::new(&[], &[("snapshot status", Ok(state))]);
        let found = prepare(&primary(), &machine, "/tmp/x.db", "").await.unwrap();
        assert_eq!(found, Snapshot { revision: 7, keys: 404, bytes: 1_753_088 });
        assert!(machine.log()[1].contains("--initial-cluster=demo=https://10.213.0.2:2380 "));
    }

    #[tokio::test]
    async fn an_etcd_that_is_silent_is_taken_by_its_files() {
        let machine = FakeMachine::new(&[], &[("snapshot save", Err("deadline exceeded"))]);
        assert_eq!(snapshot_in(&machine, Source::Own).await.unwrap(), None);
        let path = snapshot_in(&FakeMachine::new(&[], &[]), Source::Own).await.unwrap().unwrap();
        assert!(path.starts_with("/var/lib/flotilla/snapshots/"));
    }

    /// The exchange by the shell itself, cut off after each of its lines.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a shell that is over at once")]
    fn an_exchange_that_is_cut_off_anywhere_loses_no_data_and_starts_no_empty_etcd() {
        let lines = exchange().lines().count();
        for cut in 0..=lines {
            let root = tempfile::tempdir().unwrap();
            let here = |script: String| script.replace(" /", &format!(" {}/", root.path().display()));
            let sh = |script: String| {
                let status = std::process::Command::new("sh").arg("-c").arg(here(script)).status();
                assert!(status.unwrap().success());
            };
            sh(format!("mkdir -p {DATA}/member {RESTORED}/member /etc/flotilla /etc/kubernetes/manifests"));
            sh(format!(
                "echo old > {DATA}/member/db; echo new > {RESTORED}/member/db; echo etcd > {MANIFEST}"
            ));
            sh(exchange().lines().take(cut).collect::<Vec<_>>().join("\n"));
            let read = |path: &str| std::fs::read_to_string(format!("{}{path}", root.path().display())).ok();
            let data = read(&format!("{DATA}/member/db"));
            assert!(data.is_some() || read(MANIFEST).is_none(), "after line {cut} etcd would start empty");
            sh(undo());
            assert!(read(&format!("{DATA}/member/db")).is_some() && read(MANIFEST).is_some(), "line {cut}");
            if cut == lines {
                assert_eq!(read(&format!("{DATA}/member/db")).unwrap(), "new\n");
            }
        }
    }
}
