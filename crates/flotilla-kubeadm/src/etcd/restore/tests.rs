use std::path::Path;

use serde_json::json;

use super::*;
use crate::etcd::copies::tests::sh;
use crate::etcd::file::tests::own_snapshot;
use crate::fake_api::FakeApi;
use flotilla_core::Membership;
use flotilla_testkit::fake::{self, FakeMachine};

const STATE: &str = r#"{"hash":1,"revision":7,"totalKey":404,"totalSize":1753088,"version":"3.7.0"}"#;

fn primary() -> Node {
    fake::cluster("10.213.0.0/24").primary().unwrap()
}

fn reason(error: &BootstrapError) -> String {
    let cause = std::error::Error::source(error).unwrap();
    cause.source().map_or_else(|| cause.to_string(), ToString::to_string)
}

#[tokio::test]
async fn a_full_disk_is_not_called_a_bad_snapshot() {
    let full = "write /var/lib/etcd.restored/member/snap/db: no space left on device";
    let machine =
        FakeMachine::new(&[], &[("snapshot status", Ok(STATE)), ("etcdutl snapshot restore", Err(full))]);
    let error = prepare(&primary(), &machine, "/tmp/x.db", "").await.unwrap_err();
    assert_eq!(error.to_string(), "cannot unpack the snapshot on node demo");
    assert_eq!(reason(&error), "no storage space");
    assert_eq!(machine.log().last().unwrap(), "rm -rf /var/lib/etcd.restored", "the space is given back");
}

#[tokio::test]
async fn a_snapshot_that_etcd_cannot_read_is_refused_before_anything_is_stopped() {
    let machine = FakeMachine::new(&[], &[("etcdutl snapshot status", Err("panic: page 0"))]);
    let file = Source::File(own_snapshot());
    assert!(prepare_from(&primary(), &machine, file).await.is_err());
    let log = machine.log();
    assert!(log.iter().all(|line| !line.contains("kubelet")), "{log:#?}");
    assert!(log.last().unwrap().starts_with("rm -f /var/lib/flotilla/snapshots/"), "{log:#?}");
}

#[tokio::test]
async fn nodes_of_this_cluster_that_are_no_more_are_forgotten_and_others_are_not() {
    let object = |name: &str, address: &str| {
        let address = json!({"type": "InternalIP", "address": address});
        json!({"metadata": {"name": name}, "status": {"addresses": [address]}})
    };
    let paths = ["demo", "demo-m02", "other", "new"].map(|name| format!("/api/v1/nodes/{name}"));
    let api = FakeApi::new(&[
        (&paths[0], object("demo", "10.213.0.2")),
        (&paths[1], object("demo-m02", "10.213.0.3")),
        (&paths[2], object("other", "10.214.0.2")),
        (&paths[3], json!({"metadata": {"name": "new"}})),
    ]);
    let never = Cancelled::new(Arc::new(|| false));
    forget_strangers(&api.client(), &fake::cluster("10.213.0.0/24"), &never).await.unwrap();
    assert_eq!(paths.map(|path| api.object(&path).is_some()), [true, false, true, true]);
}

#[tokio::test]
async fn a_restored_etcd_has_one_member() {
    let machine = FakeMachine::new(&[], &[("snapshot status", Ok(STATE))]);
    let found = prepare(&primary(), &machine, "/tmp/x.db", "").await.unwrap();
    assert_eq!(found, Snapshot { revision: 7, keys: 404, bytes: 1_753_088 });
    assert!(machine.log()[2].contains("--initial-cluster=demo=https://10.213.0.2:2380 "));
}

#[tokio::test]
async fn an_etcd_that_is_silent_is_stopped_and_taken_by_its_files() {
    let script = [("snapshot save", Err("deadline exceeded")), ("snapshot status", Ok(STATE))];
    let machine = FakeMachine::new(&[], &script);
    prepare_from(&primary(), &machine, Source::Own).await.unwrap();
    let log = machine.log();
    let stopped = log.iter().position(|line| line.contains("systemctl stop kubelet")).unwrap();
    let restore = "etcdutl snapshot restore /var/lib/etcd/member/snap/db ";
    let read = log.iter().position(|line| line.contains(restore)).unwrap();
    assert!(stopped < read && log[read].ends_with("--skip-hash-check"), "{log:#?}");
    let machine = FakeMachine::new(&[], &[("snapshot status", Ok(STATE))]);
    prepare_from(&primary(), &machine, Source::Own).await.unwrap();
    assert!(machine.log().iter().all(|line| !line.contains("kubelet")), "{:#?}", machine.log());
}

#[tokio::test]
async fn the_data_of_the_others_is_set_aside_before_anything_clears_it_away() {
    let machine =
        FakeMachine::new(&[], &[("snapshot status", Ok(STATE)), ("mv", Ok("")), ("mv", Err("stop here"))]);
    let member = FakeMachine::new(&[], &[]).with_membership(Membership::Member);
    let others = [member, FakeMachine::new(&[], &[])];
    let machines = others.clone().map(|other| Arc::new(other) as Arc<dyn Machine>);
    let (cluster, never) = (fake::cluster("10.213.0.0/24"), Cancelled::new(Arc::new(|| false)));
    let file = Source::File(own_snapshot());
    let done = restore(&cluster, &primary(), &machine, &machines, file, &never).await;
    assert!(done.is_err(), "the exchange fails");
    for other in &others {
        let log = other.log();
        let aside = log.iter().position(|line| line.contains("mv /var/lib/etcd/member \"$copy\"")).unwrap();
        let reset = log.iter().position(|line| line.starts_with("kubeadm reset")).unwrap();
        let silent = log.iter().position(|line| line.contains("systemctl stop kubelet")).unwrap();
        assert!(silent < aside && aside < reset, "{log:#?}");
    }
}

#[tokio::test]
async fn if_one_cannot_be_stopped_all_go_on() {
    let failing = FakeMachine::new(&[], &[("crictl", Err("etcd still runs"))]);
    let machines = [FakeMachine::new(&[], &[]), failing, FakeMachine::new(&[], &[])];
    let every = machines.iter().map(|machine| machine as &dyn Machine);
    let error = silence_all(every.clone()).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot stop the control plane on node demo");
    for machine in &machines {
        assert_eq!(machine.log().last().unwrap(), "systemctl start kubelet");
    }
    silence_all(every).await.unwrap();
    for machine in &machines {
        assert_ne!(machine.log().last().unwrap(), "systemctl start kubelet");
    }
}

fn read(root: &Path, path: &str) -> Option<String> {
    std::fs::read_to_string(format!("{}{path}", root.display())).ok()
}

/// A node whose etcd has `old` data, and `new` data beside it.
fn node_with(root: &Path, old: Option<&str>, new: &str) {
    sh(root, &format!("mkdir -p {DATA} {RESTORED}/member /etc/flotilla /etc/kubernetes/manifests"));
    sh(root, &format!("echo {new} > {RESTORED}/member/db; echo etcd > {MANIFEST}"));
    if let Some(old) = old {
        sh(root, &format!("mkdir -p {DATA}/member; echo {old} > {DATA}/member/db"));
    }
}

/// Runs the stop by the shell itself, with a `crictl` that does this. Gives its status and what it was asked to stop.
fn stop_with(root: &Path, crictl: &str) -> (String, String) {
    let stop = stop_control_plane().replace("sleep 0.2", "sleep 0");
    let bin = root.join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let asked = root.join("asked");
    let programs = [
        ("systemctl", "exit 0".to_owned()),
        (
            "crictl",
            format!("case \"$*\" in *stopp*) echo \"$*\" >> {};; *) {crictl};; esac", asked.display()),
        ),
    ];
    for (name, text) in programs {
        sh(
            root,
            &format!("printf '#!/bin/sh\\n%s\\n' '{text}' > {0}/{name}; chmod +x {0}/{name}", bin.display()),
        );
    }
    let ended = sh(root, &format!("PATH={}:$PATH; ( {stop} ) 2>/dev/null; echo $?", bin.display()));
    (ended.trim().to_owned(), std::fs::read_to_string(asked).unwrap_or_default())
}

#[test]
fn a_control_plane_that_cannot_be_stopped_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    assert_eq!(stop_with(root, "exit 0"), ("0".into(), String::new()), "nothing runs");
    let (ended, asked) = stop_with(root, "echo pod1; echo pod2");
    assert!(ended == "0" && asked.contains("stopp pod1 pod2 pod1"), "{ended} {asked}");
    assert_ne!(stop_with(root, "exit 1").0, "0", "nobody can say what runs");
}

#[test]
fn data_that_an_etcd_still_has_is_not_taken_for_free() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    node_with(root, None, "new");
    sh(root, &format!("mkdir -p {DATA}/member/snap; echo db > {DATABASE}"));
    let database = std::fs::File::open(format!("{}{DATABASE}", root.display())).unwrap();
    assert_eq!(stop_with(root, "exit 0").0, "0");
    database.lock().unwrap();
    assert_ne!(stop_with(root, "exit 0").0, "0");
    database.unlock().unwrap();
    assert_eq!(stop_with(root, "exit 0").0, "0");
}

/// The exchange by the shell itself, cut off after each of its lines.
#[test]
fn an_exchange_that_is_cut_off_anywhere_loses_no_data_and_starts_no_empty_etcd() {
    let lines = exchange().lines().count();
    for cut in 0..=lines {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        node_with(root, Some("old"), "new");
        sh(root, &exchange().lines().take(cut).collect::<Vec<_>>().join("\n"));
        let data = || read(root, &format!("{DATA}/member/db"));
        assert!(
            data().is_some() || read(root, MANIFEST).is_none(),
            "after line {cut} etcd would start empty"
        );
        sh(root, &undo());
        assert!(data().is_some() && read(root, MANIFEST).is_some(), "line {cut}");
        let kept = read(root, "/var/lib/etcd.before-1/db");
        assert!(data().unwrap() == "old\n" || kept.as_deref() == Some("old\n"), "line {cut} lost the data");
        // The same command again: it has made the new data once more.
        node_with(root, None, "again");
        sh(root, &exchange());
        assert_eq!(data().unwrap(), "again\n", "line {cut}");
        assert_eq!(read(root, "/var/lib/etcd.before-1/db").unwrap(), "old\n", "line {cut}");
        assert_eq!((read(root, HELD), read(root, MOVED)), (None, None));
    }
}

#[test]
fn a_node_that_has_lost_its_data_can_be_given_new_data_at_every_moment() {
    for cut in 0..=exchange().lines().count() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        // The copy of an earlier restoration is not what the node had.
        sh(root, "mkdir -p /var/lib/etcd.before-1; echo older > /var/lib/etcd.before-1/db");
        node_with(root, None, "new");
        sh(root, &exchange().lines().take(cut).collect::<Vec<_>>().join("\n"));
        sh(root, &undo());
        let data = || read(root, &format!("{DATA}/member/db"));
        assert!(data().is_none_or(|data| data == "new\n"), "line {cut}");
        sh(root, &format!("mkdir -p {RESTORED}/member; echo new > {RESTORED}/member/db"));
        sh(root, &exchange());
        assert_eq!((data().unwrap().as_str(), read(root, MANIFEST).is_some()), ("new\n", true), "line {cut}");
        assert_eq!(read(root, "/var/lib/etcd.before-1/db").unwrap(), "older\n");
    }
}
