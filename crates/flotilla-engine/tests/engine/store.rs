//! What is kept of clusters on disk.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use flotilla_engine::port::Changed;
use flotilla_engine::store::{ClusterLock, ClusterStore, Renewal, WhenBusy};
use flotilla_engine::{Cluster, EngineError};
use flotilla_linux::filelock::Holder;
use flotilla_linux::host::Cancel;
use flotilla_spec::{NodeSpec, Role, WantedPower};
use flotilla_testkit::fake;
use tempfile::TempDir;

/// A state folder that does not exist yet, and a cluster for it.
struct Kept {
    root: TempDir,
    store: ClusterStore,
    cluster: Cluster,
}

impl Kept {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let store = ClusterStore::new(&root.path().join("home"));
        Self { root, store, cluster: fake::cluster("10.213.0.0/24") }
    }

    fn saved() -> Self {
        let kept = Self::new();
        kept.store.save(&kept.cluster).unwrap();
        kept
    }

    fn file(&self, name: &str) -> PathBuf {
        self.store.folder(self.cluster.name()).join(name)
    }

    fn load(&self) -> Result<Option<Cluster>, EngineError> {
        self.store.load(self.cluster.name())
    }

    fn lock(
        &self,
        what: &str,
        busy: WhenBusy,
        on_wait: impl FnOnce(Option<Holder>),
    ) -> Result<ClusterLock, EngineError> {
        self.store.lock(self.cluster.name(), what, busy, &Cancel::new(), on_wait)
    }
}

fn nobody_waits(_: Option<Holder>) {
    panic!("the lock is free");
}

/// What the first version that made nodes wrote, byte for byte.
const OLD_SPEC: &str = "apiVersion: flotilla.dev/v1
kind: Cluster
name: demo
kubernetesVersion: v1.37.1
driver: native
network:
  nodePodPrefix: 24
  serviceSubnet: 10.96.0.0/12
  dnsDomain: cluster.local
nodes:
- name: demo
  role: control-plane
  cpus: no-limit
  memory: no-limit
  state: stopped
- name: demo-m02
  role: worker
  cpus: no-limit
  memory: no-limit
  state: stopped
";
const OLD_STATE: &str = r#"{
  "subnet": "10.213.0.0/24",
  "podSubnet": "10.244.0.0/16",
  "nodes": {
    "demo": 1,
    "demo-m02": 2
  },
  "highest": 2,
  "bundle": "c9f50de7998af54c3809837500f49572f502c5d703d57d18f7c8a3abce93c209"
}"#;

#[test]
fn a_cluster_of_the_first_version_is_one_that_can_grow() {
    let kept = Kept::saved();
    fs::write(kept.file("cluster.yaml"), OLD_SPEC).unwrap();
    fs::write(kept.file("state.json"), OLD_STATE).unwrap();
    let mut cluster = kept.load().unwrap().unwrap();
    let before: Vec<_> = cluster.nodes().collect();
    assert!(before.iter().all(|node| node.spec.power == WantedPower::Stopped), "{before:?}");
    cluster.spec.nodes.push(NodeSpec::plain("demo-m03".parse().unwrap(), Role::ControlPlane));
    cluster.hand_out().unwrap();
    let after: Vec<_> = cluster.nodes().collect();
    assert_eq!(after[..2], before);
    assert_eq!(after[2].address.to_string(), "10.213.0.4");
    kept.store.save(&cluster).unwrap();
    assert_eq!(kept.load().unwrap(), Some(cluster));
}

#[test]
fn a_saved_cluster_is_loaded_as_it_was() {
    let mut kept = Kept::saved();
    assert_eq!(kept.load().unwrap().as_ref(), Some(&kept.cluster));
    assert_eq!(kept.store.get(kept.cluster.name()).unwrap(), kept.cluster);
    let state = fs::read_to_string(kept.file("state.json")).unwrap();
    assert!(!state.contains("adding"), "as earlier versions wrote it: {state}");
    kept.cluster.spec.network.dns_domain = "example.test".to_owned();
    kept.cluster.handed_out.adding.insert("demo".parse().unwrap());
    kept.store.save(&kept.cluster).unwrap();
    assert_eq!(kept.load().unwrap().as_ref(), Some(&kept.cluster));
    let files: BTreeSet<_> =
        fs::read_dir(kept.file("")).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files, BTreeSet::from(["cluster.yaml".into(), "state.json".into()]), "nothing unfinished");
}

#[test]
fn what_is_kept_is_for_its_owner_only() {
    let kept = Kept::saved();
    for folder in ["home", "home/clusters", "home/clusters/demo"] {
        let mode = fs::metadata(kept.root.path().join(folder)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{folder}");
    }
    for file in ["cluster.yaml", "state.json"] {
        assert_eq!(fs::metadata(kept.file(file)).unwrap().permissions().mode() & 0o777, 0o600, "{file}");
    }
}

#[test]
fn a_cluster_that_was_never_saved_is_none() {
    let kept = Kept::new();
    assert_eq!(kept.load().unwrap(), None);
    assert_eq!(kept.store.names().unwrap(), []);
    let error = kept.store.get(kept.cluster.name()).unwrap_err();
    assert!(matches!(error, EngineError::NoCluster(_)), "{error:?}");
    assert!(!kept.root.path().join("home").exists(), "looking makes nothing");
}

#[test]
fn a_cluster_half_of_which_was_saved_is_none() {
    for lost in ["cluster.yaml", "state.json"] {
        let kept = Kept::saved();
        fs::remove_file(kept.file(lost)).unwrap();
        assert_eq!(kept.load().unwrap(), None, "without {lost}");
    }
}

#[test]
fn a_folder_that_only_has_a_lock_is_no_cluster() {
    let kept = Kept::new();
    let _lock = kept.lock("a test", WhenBusy::Wait, nobody_waits).unwrap();
    assert_eq!(kept.load().unwrap(), None);
}

#[test]
fn a_damaged_file_is_told_with_what_is_wrong() {
    let state = "{\"subnet\": \"10.213.0.0/24\", \"podSubnet\": \"10.244.0.0/16\", \"nodes\": {}, \
                 \"bundle\": \"\", \"more\": 1}";
    let name =
        "apiVersion: flotilla.dev/v1\nkind: Cluster\nname: other\nkubernetesVersion: v1.37.1\nnodes: []\n";
    let told =
        [("cluster.yaml", ""), ("cluster.yaml", name), ("state.json", "{\"sub"), ("state.json", state)].map(
            |(file, text)| {
                let kept = Kept::saved();
                fs::write(kept.file(file), text).unwrap();
                let error = kept.load().unwrap_err();
                assert!(matches!(error, EngineError::Damaged { .. }), "{error:?}");
                assert_eq!(error.to_string(), "the state of cluster demo cannot be read");
                std::error::Error::source(&error).unwrap().to_string()
            },
        );
    insta::assert_snapshot!(told.join("\n"), @"
    line 1, column 1 (``): unexpected end of file
    cluster.yaml is that of cluster other
    EOF while parsing a string at line 1 column 5
    unknown field `more`, expected one of `subnet`, `podSubnet`, `nodes`, `highest`, `adding`, `bundle`, `bundles`, `cni` at line 1 column 91
    ");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let kept = Kept::saved();
    fs::remove_file(kept.file("state.json")).unwrap();
    fs::create_dir(kept.file("state.json")).unwrap();
    let error = kept.load().unwrap_err();
    assert_eq!(error.to_string(), format!("cannot read {}", kept.file("state.json").display()));
}

#[test]
fn every_folder_with_a_name_is_listed_in_order() {
    let kept = Kept::saved();
    let clusters = kept.root.path().join("home/clusters");
    for folder in ["zoo", "alpha", ".hidden", "Not A Name"] {
        fs::create_dir(clusters.join(folder)).unwrap();
    }
    let names: Vec<_> = kept.store.names().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["alpha", "demo", "zoo"]);
}

#[test]
fn a_removed_cluster_leaves_nothing_and_removing_it_again_succeeds() {
    let kept = Kept::saved();
    assert_eq!(kept.store.remove(kept.cluster.name()).unwrap(), Changed::Yes);
    assert_eq!(kept.load().unwrap(), None);
    assert_eq!(fs::read_dir(kept.root.path()).unwrap().count(), 0, "nor an empty state folder");
    assert_eq!(kept.store.remove(kept.cluster.name()).unwrap(), Changed::No);
}

#[test]
fn a_renewal_is_remembered_for_as_long_as_the_cluster_is() {
    let kept = Kept::saved();
    let name = kept.cluster.name();
    assert_eq!(kept.store.renewal(name).unwrap(), None);
    let mut renewal = Renewal { node: "demo".parse().unwrap(), data: "4711".to_owned(), finished: false };
    for finished in [false, true] {
        renewal.finished = finished;
        kept.store.save_renewal(name, &renewal).unwrap();
        assert_eq!(kept.store.renewal(name).unwrap().as_ref(), Some(&renewal));
    }
    assert_eq!(kept.load().unwrap().as_ref(), Some(&kept.cluster));
    fs::write(kept.file("renewal.json"), "{}").unwrap();
    assert!(matches!(kept.store.renewal(name), Err(EngineError::Damaged { .. })));
    kept.store.remove(name).unwrap();
    assert_eq!(kept.store.renewal(name).unwrap(), None);
}

#[test]
fn a_removed_cluster_leaves_others_alone() {
    let kept = Kept::saved();
    let mut other = kept.cluster.clone();
    other.spec.name = "other".parse().unwrap();
    kept.store.save(&other).unwrap();
    kept.store.remove(kept.cluster.name()).unwrap();
    assert_eq!(kept.store.names().unwrap(), [other.spec.name]);
}

#[test]
fn a_damaged_cluster_can_be_removed() {
    let kept = Kept::saved();
    fs::write(kept.file("cluster.yaml"), "").unwrap();
    assert_eq!(kept.store.remove(kept.cluster.name()).unwrap(), Changed::Yes);
    assert_eq!(kept.load().unwrap(), None);
}

#[test]
fn a_second_command_waits_for_the_first_and_knows_whom_for() {
    let kept = Kept::saved();
    let first = kept.lock("flotilla start", WhenBusy::Wait, nobody_waits).unwrap();
    thread::scope(|scope| {
        let (sender, told) = mpsc::channel();
        let second =
            scope.spawn(|| kept.lock("flotilla stop", WhenBusy::Wait, move |who| sender.send(who).unwrap()));
        let holder = told.recv().unwrap().unwrap();
        assert_eq!((holder.pid, holder.what.as_str()), (std::process::id(), "flotilla start"));
        assert!(!second.is_finished());
        drop(first);
        second.join().unwrap().unwrap();
    });
}

#[test]
fn a_second_command_that_will_not_wait_is_told_who_holds_the_lock() {
    let kept = Kept::saved();
    let first = kept.lock("flotilla start", WhenBusy::Wait, nobody_waits).unwrap();
    let error = kept.lock("flotilla stop", WhenBusy::Fail, nobody_waits).unwrap_err();
    let EngineError::Busy { holder: Some(holder), .. } = &error else { panic!("{error:?}") };
    assert_eq!(
        error.to_string(),
        format!(
            "another command changes cluster demo: process {}, `flotilla start`, since {}",
            holder.pid, holder.since
        )
    );
    drop(first);
    kept.lock("flotilla stop", WhenBusy::Fail, nobody_waits).unwrap();
}

#[test]
fn clusters_have_locks_of_their_own() {
    let kept = Kept::saved();
    let _first = kept.lock("flotilla start", WhenBusy::Wait, nobody_waits).unwrap();
    let other = "other".parse().unwrap();
    kept.store.lock(&other, "flotilla start", WhenBusy::Fail, &Cancel::new(), nobody_waits).unwrap();
}

#[test]
fn waiting_for_a_lock_ends_with_a_cancel() {
    let kept = Kept::saved();
    let _first = kept.lock("flotilla start", WhenBusy::Wait, nobody_waits).unwrap();
    let cancel = Cancel::new();
    let waited =
        kept.store.lock(kept.cluster.name(), "flotilla stop", WhenBusy::Wait, &cancel, |_| cancel.cancel());
    let error = waited.unwrap_err();
    assert!(matches!(error, EngineError::Lock(_)), "{error:?}");
}

#[test]
fn who_waited_for_a_cluster_that_was_deleted_can_make_it_anew() {
    let kept = Kept::saved();
    let first = kept.lock("flotilla delete", WhenBusy::Wait, nobody_waits).unwrap();
    thread::scope(|scope| {
        let (sender, told) = mpsc::channel();
        let second =
            scope.spawn(|| kept.lock("flotilla start", WhenBusy::Wait, move |who| sender.send(who).unwrap()));
        told.recv().unwrap();
        kept.store.remove(kept.cluster.name()).unwrap();
        drop(first);
        let _second = second.join().unwrap().unwrap();
        assert_eq!(kept.load().unwrap(), None);
        kept.store.save(&kept.cluster).unwrap();
        let third = kept.lock("flotilla stop", WhenBusy::Fail, nobody_waits);
        assert!(matches!(third, Err(EngineError::Busy { .. })), "{third:?}");
    });
}

#[test]
fn commands_that_make_and_delete_a_cluster_at_the_same_time_do_not_meet() {
    const COMMANDS: usize = 4;
    const ROUNDS: usize = 100;
    let kept = Kept::new();
    // So that the folder of all clusters stays.
    let other = "other".parse().unwrap();
    let _other = kept.store.lock(&other, "a test", WhenBusy::Wait, &Cancel::new(), nobody_waits).unwrap();
    let inside = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..COMMANDS {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let _lock = match kept.lock("a test", WhenBusy::Fail, nobody_waits) {
                        Err(EngineError::Busy { .. }) => continue,
                        lock => lock.unwrap(),
                    };
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    kept.store.save(&kept.cluster).unwrap();
                    assert_eq!(kept.load().unwrap().as_ref(), Some(&kept.cluster));
                    assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                    kept.store.remove(kept.cluster.name()).unwrap();
                }
            });
        }
    });
}
