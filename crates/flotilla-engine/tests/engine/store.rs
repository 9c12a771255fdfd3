//! What is kept of clusters on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use flotilla_core::Cancel;
use flotilla_core::Changed;
use flotilla_core::{Allocations, Authorities, Cluster, Explain, IdRange};
use flotilla_engine::EngineError;
use flotilla_engine::store::{ClusterStore, Locked, Ranges, Recovery, WhenBusy};
use flotilla_files::Holder;
use flotilla_spec::{NodeSpec, Role, WantedPower};
use flotilla_testkit::fake;
use tempfile::TempDir;

/// A state directory that does not exist yet, and a cluster for it.
struct Kept {
    root: TempDir,
    store: ClusterStore,
    cluster: Cluster,
}

impl Kept {
    fn new() -> Self {
        let root = flotilla_testkit::directory();
        let store = ClusterStore::new(&root.path().join("home"));
        Self { root, store, cluster: fake::cluster("10.213.0.0/24") }
    }

    fn saved() -> Self {
        let kept = Self::new();
        kept.save(&kept.cluster).unwrap();
        kept
    }

    fn save(&self, cluster: &Cluster) -> Result<(), EngineError> {
        let cancel = Cancel::new();
        self.store.lock(cluster.name(), "a test", WhenBusy::Fail, &cancel, nobody_waits)?.save(cluster)
    }

    fn remove(&self) -> Changed {
        self.lock("a test", WhenBusy::Fail, nobody_waits).unwrap().remove().unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.store.folder(self.cluster.name()).join(name)
    }

    fn files(&self) -> Vec<String> {
        let files = fs::read_dir(self.file("")).unwrap().map(|file| file.unwrap().file_name());
        files.map(|name| name.into_string().unwrap()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn ranges(&self) -> Ranges {
        let Allocations { subnet, pod_subnet, .. } = self.cluster.allocations;
        let taken = [subnet, pod_subnet].map(|range| (range, format!("the cluster {}", self.cluster.name())));
        Ranges { taken: taken.into(), unknown: Vec::new() }
    }

    /// So that there is a state before the last change.
    fn cluster_changes(&self) {
        let mut changed = self.cluster.clone();
        "example.test".clone_into(&mut changed.spec.network.dns_domain);
        self.save(&changed).unwrap();
    }

    /// With what the first version wrote in the place of what this one writes.
    fn of_version_1(spec: &str, state: &str) -> Self {
        let kept = Self::saved();
        fs::write(kept.file("cluster.yaml"), spec).unwrap();
        fs::write(kept.file("state.json"), state).unwrap();
        kept
    }

    fn load(&self) -> Result<Option<Cluster>, EngineError> {
        self.store.load(self.cluster.name())
    }

    fn lock(
        &self,
        what: &str,
        busy: WhenBusy,
        on_wait: impl FnOnce(Option<Holder>),
    ) -> Result<Locked, EngineError> {
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
    let kept = Kept::of_version_1(OLD_SPEC, OLD_STATE);
    let mut cluster = kept.load().unwrap().unwrap();
    let before: Vec<_> = cluster.nodes().collect();
    assert!(before.iter().all(|node| node.spec.power == WantedPower::Stopped), "{before:?}");
    cluster.spec.nodes.push(NodeSpec::plain("demo-m03".parse().unwrap(), Role::ControlPlane));
    cluster.allocate().unwrap();
    let after: Vec<_> = cluster.nodes().collect();
    assert_eq!(after[..2], before);
    assert_eq!(after[2].address.to_string(), "10.213.0.4");
    kept.save(&cluster).unwrap();
    assert_eq!(kept.load().unwrap().as_ref(), Some(&cluster));
    assert_eq!(kept.files(), ["lock", "state.json", "state.json.bak"], "one file is the cluster");
    // Cut off before the old file was removed.
    fs::write(kept.file("cluster.yaml"), OLD_SPEC).unwrap();
    assert_eq!(kept.load().unwrap(), Some(cluster));
}

#[test]
fn a_node_whose_number_a_killed_command_of_the_first_version_did_not_save_has_one() {
    let without_a_number = OLD_STATE.replace(",\n    \"demo-m02\": 2", "");
    assert_ne!(without_a_number, OLD_STATE);
    let kept = Kept::of_version_1(OLD_SPEC, &without_a_number);
    let cluster = kept.load().unwrap().unwrap();
    let numbers: Vec<_> = cluster.nodes().map(|node| (node.spec.name.to_string(), node.number)).collect();
    assert_eq!(numbers, [("demo".into(), 1), ("demo-m02".into(), 3)]);
    assert_eq!(kept.load().unwrap(), Some(cluster), "and the same one every time");
}

/// The spec was in another file, which goes with the first save.
#[test]
fn the_backup_of_a_cluster_of_the_first_version_is_whole() {
    let kept = Kept::of_version_1(OLD_SPEC, OLD_STATE);
    let old = kept.load().unwrap().unwrap();
    let mut new = old.clone();
    new.spec.nodes[1].power = flotilla_spec::WantedPower::Stopped;
    kept.save(&new).unwrap();
    // As the hint about a damaged state says.
    fs::copy(kept.file("state.json.bak"), kept.file("state.json")).unwrap();
    assert_eq!(kept.load().unwrap(), Some(old));
}

#[test]
fn a_recovery_that_changed_nothing_is_forgotten() {
    let kept = Kept::of_version_1(OLD_SPEC, OLD_STATE);
    let name = "demo".parse().unwrap();
    let recovery = Recovery { node: "demo".parse().unwrap(), data: "7".into(), finished: false };
    let locked = kept.lock("a test", WhenBusy::Fail, nobody_waits).unwrap();
    locked.save_recovery(&recovery).unwrap();
    assert_eq!(kept.store.recovery(&name).unwrap(), Some(recovery));
    for _ in 0..2 {
        locked.remove_recovery().unwrap();
        assert_eq!(kept.store.recovery(&name).unwrap(), None);
    }
}

/// Whatever was written of a save, the cluster is the one before or the one after, and every node has a number.
#[test]
fn a_save_that_is_cut_off_anywhere_leaves_the_old_cluster_or_the_new_one() {
    let kept = Kept::of_version_1(OLD_SPEC, OLD_STATE);
    let files = |kept: &Kept| {
        kept.files().into_iter().map(|file| (kept.file(&file), fs::read(kept.file(&file)).unwrap())).collect()
    };
    let before: BTreeMap<_, _> = files(&kept);
    let old = kept.load().unwrap().unwrap();
    let mut new = old.clone();
    new.spec.nodes.push(NodeSpec::plain("demo-m03".parse().unwrap(), Role::Worker));
    new.allocate().unwrap();
    kept.save(&new).unwrap();
    let after: BTreeMap<_, _> = files(&kept);
    let paths: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let changed: Vec<_> = paths.into_iter().filter(|path| before.get(*path) != after.get(*path)).collect();
    assert_eq!(changed.len(), 3, "the backup, the state, and the old spec that goes");
    // In any order, as a disk may have it.
    for some in 0..1_u8 << changed.len() {
        for (bit, path) in changed.iter().enumerate() {
            match if some & 1 << bit == 0 { before.get(*path) } else { after.get(*path) } {
                Some(bytes) => fs::write(path, bytes).unwrap(),
                None => drop(fs::remove_file(path)),
            }
        }
        let spec_is_gone_alone = !kept.file("cluster.yaml").exists()
            && fs::read(kept.file("state.json")).unwrap() == before[&kept.file("state.json")];
        if spec_is_gone_alone {
            // The state is on the disk before the spec is removed.
            continue;
        }
        let found = kept.load().unwrap().unwrap();
        assert!(found == old || found == new, "{found:?}");
        assert_eq!(found.nodes().count(), found.spec.nodes.len());
    }
}

#[test]
fn a_state_of_a_newer_flotilla_is_told_as_that_and_left_alone() {
    let kept = Kept::saved();
    let newer = fs::read_to_string(kept.file("state.json"))
        .unwrap()
        .replace("\"schemaVersion\": 7", "\"schemaVersion\": 8,\n  \"more\": {\"than\": \"we know\"}");
    fs::write(kept.file("state.json"), &newer).unwrap();
    let error = kept.load().unwrap_err();
    assert!(matches!(error, EngineError::Newer { version: 8, newest: 7, .. }), "{error:?}");
    assert_eq!(error.code().name, "HOST_STATE_NEWER");
    assert!(error.to_string().contains(&kept.file("state.json").display().to_string()), "{error}");
    assert_eq!(error.hints(), ["upgrade flotilla; cluster demo was not changed"]);
    assert_eq!(fs::read_to_string(kept.file("state.json")).unwrap(), newer);
    fs::write(kept.file("renewal.json"), r#"{"schemaVersion": 8}"#).unwrap();
    let error = kept.store.recovery(kept.cluster.name()).unwrap_err();
    assert!(matches!(error, EngineError::Newer { version: 8, .. }), "{error:?}");
    // Others must not get its ranges.
    let ranges = kept.store.ranges(&"other".parse().unwrap()).unwrap();
    assert_eq!(ranges, kept.ranges());
}

#[test]
fn the_ranges_of_a_cluster_that_cannot_be_read_stay_reserved_as_long_as_anything_names_them() {
    let other = "other".parse().unwrap();
    let kept = Kept::saved();
    kept.cluster_changes();
    assert_eq!(kept.store.ranges(&other).unwrap(), kept.ranges());
    assert_eq!(kept.store.ranges(kept.cluster.name()).unwrap(), Ranges::default());
    let state = fs::read(kept.file("state.json")).unwrap();
    // Cut off, but behind the ranges; then all of it is gone, and the state before the last change has them.
    for left in [&state[..state.len() / 2], b""] {
        fs::write(kept.file("state.json"), left).unwrap();
        assert!(kept.load().is_err());
        assert_eq!(kept.store.ranges(&other).unwrap(), kept.ranges());
    }
    fs::remove_file(kept.file("state.json.bak")).unwrap();
    let unknown = Ranges { taken: Vec::new(), unknown: vec![kept.cluster.name().clone()] };
    assert_eq!(kept.store.ranges(&other).unwrap(), unknown);
    fs::write(kept.file("cluster.yaml"), "network:\n  subnet: 10.213.0.0/24\n  podSubnet: 10.244.0.0/16\n")
        .unwrap();
    assert_eq!(kept.store.ranges(&other).unwrap(), kept.ranges());
}

#[test]
fn a_saved_cluster_is_loaded_as_it_was() {
    let mut kept = Kept::saved();
    assert_eq!(kept.load().unwrap().as_ref(), Some(&kept.cluster));
    assert_eq!(kept.store.get(kept.cluster.name()).unwrap(), kept.cluster);
    let state = fs::read_to_string(kept.file("state.json")).unwrap();
    assert!(!state.contains("adding"), "as earlier versions wrote it: {state}");
    kept.cluster.spec.network.dns_domain = "example.test".to_owned();
    kept.cluster.allocations.adding.insert("demo".parse().unwrap());
    kept.save(&kept.cluster).unwrap();
    assert_eq!(kept.load().unwrap().as_ref(), Some(&kept.cluster));
    assert_eq!(kept.files(), ["lock", "state.json", "state.json.bak"], "nothing unfinished");
}

#[test]
fn what_is_kept_is_for_its_owner_only() {
    let kept = Kept::saved();
    for folder in ["home", "home/clusters", "home/clusters/demo"] {
        let mode = fs::metadata(kept.root.path().join(folder)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{folder}");
    }
    kept.cluster_changes();
    for file in ["state.json", "state.json.bak"] {
        assert_eq!(fs::metadata(kept.file(file)).unwrap().permissions().mode() & 0o777, 0o600, "{file}");
    }
}

#[test]
fn a_cluster_that_was_never_saved_is_none() {
    let kept = Kept::new();
    assert_eq!(kept.load().unwrap(), None);
    assert_eq!(kept.store.names().unwrap(), []);
    let error = kept.store.get(kept.cluster.name()).unwrap_err();
    assert!(matches!(error, EngineError::NoCluster { .. }), "{error:?}");
    assert!(!kept.root.path().join("home").exists(), "looking makes nothing");
}

#[test]
fn a_cluster_half_of_which_was_saved_is_none_unless_it_has_nodes() {
    for lost in ["cluster.yaml", "state.json"] {
        let kept = Kept::of_version_1(OLD_SPEC, OLD_STATE);
        fs::remove_file(kept.file(lost)).unwrap();
        assert_eq!(kept.load().unwrap(), None, "without {lost}");
        fs::create_dir_all(kept.file("nodes")).unwrap();
        assert_eq!(kept.load().unwrap(), None, "without {lost}");
        fs::create_dir_all(kept.file("nodes/demo")).unwrap();
        let error = kept.load().unwrap_err();
        assert!(matches!(error, EngineError::Damaged { .. }), "without {lost}: {error:?}");
        assert!(error.to_string().contains(&kept.file(lost).display().to_string()), "{error}");
    }
}

#[test]
fn keys_of_the_users_authorities_are_kept_until_the_cluster_has_run() {
    let mut kept = Kept::new();
    let keys = [("ca.crt", "CERTIFICATE"), ("ca.key", "SECRET")];
    let keys = keys.map(|(name, text)| (name.to_owned(), text.to_owned()));
    kept.cluster.allocations.authorities = Some(Authorities(keys.into()));
    let locked = kept.lock("a test", WhenBusy::Fail, nobody_waits).unwrap();
    locked.save(&kept.cluster).unwrap();
    assert_eq!(kept.load().unwrap(), Some(kept.cluster.clone()));
    let mut changed = kept.cluster.clone();
    changed.allocations.highest = 7;
    locked.save(&changed).unwrap();
    locked.set_founded().unwrap();
    // Also by a command that still has what it read before.
    locked.save(&changed).unwrap();
    assert_eq!(kept.load().unwrap().unwrap().allocations.authorities, None);
    for file in kept.files() {
        let text = fs::read_to_string(kept.file(&file)).unwrap();
        assert!(!text.contains("SECRET"), "{file}: {text}");
    }
}

#[test]
fn a_folder_that_only_has_a_lock_is_no_cluster() {
    let kept = Kept::new();
    let _lock = kept.lock("a test", WhenBusy::Wait, nobody_waits).unwrap();
    assert_eq!(kept.load().unwrap(), None);
}

#[test]
fn a_damaged_state_is_told_with_what_is_wrong_and_nothing_proposes_to_delete_it() {
    let state = "{\"subnet\": \"10.213.0.0/24\", \"podSubnet\": \"10.244.0.0/16\", \"nodes\": {}, \
                 \"bundle\": \"\", \"more\": 1}";
    let name =
        "apiVersion: flotilla.dev/v1\nkind: Cluster\nname: other\nkubernetesVersion: v1.37.1\nnodes: []\n";
    let version = r#"{"schemaVersion": "two"}"#;
    let reported = [
        ("", OLD_STATE),
        (name, OLD_STATE),
        (OLD_SPEC, "{\"sub"),
        (OLD_SPEC, state),
        (OLD_SPEC, version),
        (OLD_SPEC, r#"{"schemaVersion": 2}"#),
    ]
    .map(|(spec, state)| {
        let kept = Kept::of_version_1(spec, state);
        let error = kept.load().unwrap_err();
        assert!(matches!(error, EngineError::Damaged { .. }), "{error:?}");
        let path = kept.file("state.json").display().to_string();
        assert_eq!(error.to_string(), format!("cannot read the state of cluster demo: {path} is damaged"));
        let hints = error.hints().join("; ");
        assert!(!hints.contains("delete") && hints.contains(&path), "{hints}");
        std::error::Error::source(&error).unwrap().to_string()
    });
    insta::assert_snapshot!(reported.join("\n"), @r#"
    cluster.yaml: line 1, column 1 (``): unexpected end of file
    it is the state of cluster other
    EOF while parsing a string at line 1 column 5
    unknown field `more`, expected one of `subnet`, `podSubnet`, `nodes`, `highest`, `adding`, `leaving`, `ghosts`, `relabelling`, `founded`, `bundle`, `bundles`, `ids`, `cni`, `authorities`
    `schemaVersion` is "two"
    it has no `spec`
    "#);
}

#[test]
fn the_hint_for_a_damaged_state_brings_the_state_before_the_last_change_back() {
    let kept = Kept::saved();
    kept.cluster_changes();
    // What is the same is no change.
    kept.save(&kept.store.get(kept.cluster.name()).unwrap()).unwrap();
    fs::write(kept.file("state.json"), "").unwrap();
    let hint = kept.load().unwrap_err().hints().pop().unwrap();
    let command = hint.split('`').nth(1).unwrap();
    let [_, from, to] = command.split(' ').collect::<Vec<_>>()[..] else { panic!("{command}") };
    fs::copy(from, to).unwrap();
    assert_eq!(kept.load().unwrap().as_ref(), Some(&kept.cluster));
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
    assert_eq!(kept.remove(), Changed::Yes);
    assert_eq!(kept.load().unwrap(), None);
    assert_eq!(fs::read_dir(kept.root.path()).unwrap().count(), 0, "nor an empty state directory");
    assert_eq!(kept.remove(), Changed::No);
}

#[test]
fn a_recovery_is_remembered_for_as_long_as_the_cluster_is() {
    let kept = Kept::saved();
    let name = kept.cluster.name();
    assert_eq!(kept.store.recovery(name).unwrap(), None);
    let mut recovery = Recovery { node: "demo".parse().unwrap(), data: "4711".to_owned(), finished: false };
    for finished in [false, true] {
        recovery.finished = finished;
        kept.lock("a test", WhenBusy::Fail, nobody_waits).unwrap().save_recovery(&recovery).unwrap();
        assert_eq!(kept.store.recovery(name).unwrap().as_ref(), Some(&recovery));
    }
    // As the first version wrote it.
    fs::write(kept.file("renewal.json"), r#"{"node": "demo", "data": "4711", "finished": true}"#).unwrap();
    assert_eq!(kept.store.recovery(name).unwrap().as_ref(), Some(&recovery));
    assert_eq!(kept.load().unwrap().as_ref(), Some(&kept.cluster));
    fs::write(kept.file("renewal.json"), "{}").unwrap();
    assert!(matches!(kept.store.recovery(name), Err(EngineError::Damaged { .. })));
    kept.remove();
    assert_eq!(kept.store.recovery(name).unwrap(), None);
}

#[test]
fn a_removed_cluster_leaves_others_alone() {
    let kept = Kept::saved();
    let mut other = kept.cluster.clone();
    other.spec.name = "other".parse().unwrap();
    kept.save(&other).unwrap();
    kept.remove();
    assert_eq!(kept.store.names().unwrap(), [other.spec.name]);
}

#[test]
fn a_damaged_cluster_can_be_removed() {
    let kept = Kept::saved();
    fs::write(kept.file("state.json"), "").unwrap();
    assert_eq!(kept.remove(), Changed::Yes);
    assert_eq!(kept.load().unwrap(), None);
}

#[test]
fn a_second_command_waits_for_the_first_and_knows_which_it_is() {
    let kept = Kept::saved();
    let first = kept.lock("flotilla start", WhenBusy::Wait, nobody_waits).unwrap();
    thread::scope(|scope| {
        let (sender, reported) = mpsc::channel();
        let second =
            scope.spawn(|| kept.lock("flotilla stop", WhenBusy::Wait, move |who| sender.send(who).unwrap()));
        let holder = reported.recv().unwrap().unwrap();
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
            "another command is changing cluster demo: process {}, `flotilla start`, since {}",
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
fn a_command_that_waited_while_the_cluster_was_deleted_can_create_it_again() {
    let kept = Kept::saved();
    let first = kept.lock("flotilla delete", WhenBusy::Wait, nobody_waits).unwrap();
    thread::scope(|scope| {
        let (sender, reported) = mpsc::channel();
        let second =
            scope.spawn(|| kept.lock("flotilla start", WhenBusy::Wait, move |who| sender.send(who).unwrap()));
        reported.recv().unwrap();
        first.remove().unwrap();
        drop(first);
        let second = second.join().unwrap().unwrap();
        assert_eq!(kept.load().unwrap(), None);
        second.save(&kept.cluster).unwrap();
        let third = kept.lock("flotilla stop", WhenBusy::Fail, nobody_waits);
        assert!(matches!(third, Err(EngineError::Busy { .. })), "{third:?}");
    });
}

#[test]
fn commands_that_make_and_delete_a_cluster_at_the_same_time_do_not_meet() {
    const COMMANDS: usize = 4;
    const ROUNDS: usize = 100;
    let kept = Kept::new();
    // So that the directory of all clusters stays.
    let other = "other".parse().unwrap();
    let _other = kept.store.lock(&other, "a test", WhenBusy::Wait, &Cancel::new(), nobody_waits).unwrap();
    let inside = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..COMMANDS {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let locked = match kept.lock("a test", WhenBusy::Fail, nobody_waits) {
                        Err(EngineError::Busy { .. }) => continue,
                        lock => lock.unwrap(),
                    };
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    locked.save(&kept.cluster).unwrap();
                    assert_eq!(kept.load().unwrap().as_ref(), Some(&kept.cluster));
                    assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                    locked.remove().unwrap();
                }
            });
        }
    });
}

#[test]
fn what_was_peeked_at_is_read_again_only_if_another_command_changed_it() {
    let kept = Kept::saved();
    let peeked = || kept.store.peek_existing(kept.cluster.name()).unwrap();
    let (before, nobody_else) = (peeked(), peeked());
    kept.cluster_changes();
    let locked = kept.lock("a test", WhenBusy::Fail, nobody_waits).unwrap();
    assert_eq!(before.cluster, kept.cluster);
    let changed = locked.refresh(Some(before)).unwrap().unwrap();
    assert_eq!(changed.spec.network.dns_domain, "example.test");
    assert_eq!(locked.refresh(None).unwrap(), Some(changed));
    locked.remove().unwrap();
    assert_eq!(locked.refresh(Some(nobody_else.clone())).unwrap(), None);
    drop(locked);
    let locked = kept.lock("a test", WhenBusy::Fail, nobody_waits).unwrap();
    let error = locked.refresh_existing(nobody_else).unwrap_err();
    assert!(matches!(error, EngineError::DeletedMeanwhile { .. }), "{error:?}");
    assert_eq!(kept.store.names().unwrap(), [], "the lock is not left behind");
}

#[test]
fn a_state_that_no_cluster_can_have_is_damaged() {
    let kept = Kept::saved();
    let text = fs::read_to_string(kept.file("state.json")).unwrap();
    let worker = text.replace("control-plane", "worker").into_bytes();
    for (state, why) in [(worker, "it has no control plane"), (vec![0xff, b'{'], "stream did not contain")] {
        fs::write(kept.file("state.json"), state).unwrap();
        let error = kept.load().unwrap_err();
        assert_eq!(error.code().name, "HOST_STATE_DAMAGED");
        assert!(flotilla_core::explain::one_line(&error).contains(why), "{error:?}");
        assert!(!error.hints().is_empty());
    }
}

#[test]
fn the_driver_of_a_node_is_kept_and_that_of_a_cluster_is_read() {
    let mut kept = Kept::saved();
    let plain = fs::read_to_string(kept.file("state.json")).unwrap();
    let old = plain.replace("\"spec\": {", "\"spec\": {\n    \"driver\": \"native\",");
    fs::write(kept.file("state.json"), old).unwrap();
    assert_eq!(kept.load().unwrap().unwrap(), kept.cluster, "the driver of the whole cluster is read");

    let named = plain.replace("\"role\":", "\"driver\": \"native\",\n        \"role\":");
    assert_ne!(named, plain);
    fs::write(kept.file("state.json"), named).unwrap();
    kept.save(&kept.load().unwrap().unwrap()).unwrap();
    assert_eq!(fs::read_to_string(kept.file("state.json")).unwrap(), plain, "the default needs no name");

    kept.cluster.spec.nodes[0].driver = Some(flotilla_spec::DriverName::new("vm"));
    kept.save(&kept.cluster).unwrap();
    assert_eq!(kept.load().unwrap().unwrap(), kept.cluster);
}

/// A state as earlier versions wrote it: nodes have numbers only.
fn with_numbers_only(state: &str, version: u64) -> String {
    let mut state: serde_json::Value = serde_json::from_str(state).unwrap();
    state["schemaVersion"] = version.into();
    for allocated in state["nodes"].as_object_mut().unwrap().values_mut() {
        *allocated = allocated["number"].take();
    }
    state.to_string()
}

#[test]
fn nodes_of_earlier_versions_have_the_addresses_that_followed_from_their_numbers() {
    let kept = Kept::of_version_1(OLD_SPEC, OLD_STATE);
    let of_version_1 = kept.load().unwrap().unwrap();
    let addresses = |cluster: &Cluster| -> Vec<String> {
        cluster.nodes().map(|node| format!("{} {} {}", node.number, node.address, node.pod_range)).collect()
    };
    assert_eq!(addresses(&of_version_1), ["1 10.213.0.2 10.244.0.0/24", "2 10.213.0.3 10.244.1.0/24"]);
    kept.save(&of_version_1).unwrap();
    let newest = fs::read_to_string(kept.file("state.json")).unwrap();
    for version in [2, 3] {
        fs::write(kept.file("state.json"), with_numbers_only(&newest, version)).unwrap();
        assert_eq!(kept.load().unwrap().as_ref(), Some(&of_version_1), "version {version}");
    }
    fs::write(kept.file("state.json"), with_numbers_only(&newest, 4)).unwrap();
    assert!(matches!(kept.load(), Err(EngineError::Damaged { .. })), "the newest version has addresses");
}

#[test]
fn a_node_keeps_its_address_whatever_the_ranges_are_later() {
    let mut kept = Kept::saved();
    kept.cluster.spec.network.node_pod_prefix = 26;
    let before: Vec<_> = kept.cluster.nodes().collect();
    kept.save(&kept.cluster).unwrap();
    assert_eq!(kept.load().unwrap().unwrap().nodes().collect::<Vec<_>>(), before);
}

#[test]
fn a_number_that_the_ranges_have_no_addresses_for_is_damage() {
    let kept = Kept::of_version_1(OLD_SPEC, &OLD_STATE.replace("\"demo-m02\": 2", "\"demo-m02\": 999"));
    let error = kept.load().unwrap_err();
    assert!(matches!(error, EngineError::Damaged { .. }), "{error:?}");
    let text = flotilla_core::explain::one_line(&error);
    assert!(text.contains("node demo-m02: its number is 999"), "{text}");
}

fn ids(first_id: u32) -> IdRange {
    IdRange { first_id, count: IdRange::SIZE }
}

#[test]
fn ids_of_other_clusters_are_known_also_from_a_damaged_state() {
    let mut kept = Kept::new();
    let node = kept.cluster.spec.nodes[0].name.clone();
    kept.cluster.allocations.ids.insert(node, ids(1_879_048_192));
    kept.save(&kept.cluster).unwrap();
    assert_eq!(kept.load().unwrap().unwrap().allocations.ids, kept.cluster.allocations.ids);
    let other = "other".parse().unwrap();
    assert_eq!(kept.store.taken_ids(&other).unwrap(), [ids(1_879_048_192)]);
    assert_eq!(kept.store.taken_ids(kept.cluster.name()).unwrap(), [], "its own are not another's");
    let whole = fs::read_to_string(kept.file("state.json")).unwrap();
    fs::write(kept.file("state.json"), &whole[..whole.len() / 2]).unwrap();
    fs::write(kept.file("state.json.bak"), &whole[..whole.len() - 3]).unwrap();
    assert!(kept.store.taken_ids(&other).unwrap().contains(&ids(1_879_048_192)));
}

#[test]
fn a_state_without_isolation_is_read_and_has_none() {
    let kept = Kept::saved();
    let text = fs::read_to_string(kept.file("state.json")).unwrap();
    assert!(
        text.contains("\"schemaVersion\": 7") && !text.contains("isolation") && !text.contains("\"ids\"")
    );
    fs::write(kept.file("state.json"), text.replace("\"schemaVersion\": 7", "\"schemaVersion\": 4")).unwrap();
    assert_eq!(kept.load().unwrap().unwrap(), kept.cluster);
}

#[test]
fn the_port_of_the_api_is_kept_and_a_state_of_version_5_has_none() {
    let mut kept = Kept::saved();
    let path = kept.file("state.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"schemaVersion\": 7", "\"schemaVersion\": 5")).unwrap();
    assert_eq!(kept.load().unwrap().unwrap().api_port(), 6443);
    kept.cluster.spec.api_server.port = Some(8443);
    kept.save(&kept.cluster).unwrap();
    assert_eq!(kept.load().unwrap().unwrap().api_port(), 8443);
}

#[test]
fn what_nodes_are_being_given_is_kept_and_a_state_of_version_6_has_none() {
    let mut kept = Kept::saved();
    let path = kept.file("state.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"schemaVersion\": 7", "\"schemaVersion\": 6")).unwrap();
    assert_eq!(kept.load().unwrap().unwrap(), kept.cluster);
    let node = kept.cluster.spec.nodes[0].name.clone();
    let left = kept.cluster.allocations.relabelling.entry(node).or_default();
    left.add(&"disk=ssd".parse().unwrap(), &["gpu:NoSchedule".parse().unwrap()]);
    kept.save(&kept.cluster).unwrap();
    assert_eq!(kept.load().unwrap().unwrap(), kept.cluster);
}
