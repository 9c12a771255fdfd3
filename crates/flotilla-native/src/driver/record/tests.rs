use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use flotilla_core::{BundleLayout, DriverError, Membership};
use flotilla_spec::NodeName;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

struct Home {
    dir: tempfile::TempDir,
    disk: Disk,
}

impl Home {
    /// With a disk that is new.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(BundleLayout::at(dir.path()).store()).unwrap();
        let home = Self { disk: Disk { folder: dir.path().join("node") }, dir };
        home.boot().unwrap();
        home
    }

    /// With a disk as earlier releases made it: with marks in its `/var`, and without a record.
    fn with_marks(marks: &[&str]) -> Self {
        let home = Self::new();
        fs::remove_file(home.disk.record_path()).unwrap();
        fs::create_dir(home.mark("")).unwrap();
        for mark in marks {
            fs::write(home.mark(mark), "").unwrap();
        }
        home
    }

    fn mark(&self, name: &str) -> PathBuf {
        self.disk.var().join("lib/flotilla").join(name)
    }

    fn boot(&self) -> Result<(), NativeError> {
        self.disk.ensure("abc", "abc", &BundleLayout::at(self.dir.path()))
    }

    fn set(&self, membership: Membership) {
        self.disk.set_record(&MachineRecord { membership }).unwrap();
    }

    fn membership(&self) -> Membership {
        self.disk.record().unwrap().membership
    }

    /// The name, text and hints of the error that a damaged record is.
    fn error(&self) -> (&'static str, String, Vec<String>) {
        match DriverError::from(self.disk.record().unwrap_err()) {
            DriverError::Failed { what, code, hints, .. } => (code.name, what, hints),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_new_disk_is_recorded_before_it_exists_and_its_record_outlives_boots() {
    let home = Home::new();
    assert!(home.disk.record_path().exists());
    assert_eq!(home.membership(), Membership::None);
    home.set(Membership::Member);
    home.boot().unwrap();
    assert_eq!(home.membership(), Membership::Member);
}

#[test]
fn a_disk_that_was_lost_or_replaced_has_no_part_in_the_record_that_is_left() {
    let home = Home::new();
    home.set(Membership::Member);
    fs::rename(home.disk.var(), home.dir.path().join("lost")).unwrap();
    assert_eq!(home.membership(), Membership::None);
    home.boot().unwrap();
    assert_eq!(home.membership(), Membership::None, "the new one is not taken for the old one");

    home.set(Membership::Member);
    fs::write(home.disk.folder.join("uuid"), "another\n").unwrap();
    assert_eq!(home.membership(), Membership::None);
    home.boot().unwrap();
    home.set(Membership::Member);
    assert_eq!(home.membership(), Membership::Member);

    fs::remove_file(home.disk.record_path()).unwrap();
    assert_eq!(home.membership(), Membership::None, "a disk without a record");
}

#[test]
fn a_removal_that_is_killed_leaves_no_node() {
    let home = Home::new();
    home.set(Membership::Member);
    // Files below /etc tell kubeadm and the kubelet that the node is a control plane.
    let manifest = home.disk.upper().join("etc/kubernetes/manifests/etcd.yaml");
    fs::create_dir_all(manifest.parent().unwrap()).unwrap();
    fs::write(&manifest, "etcd").unwrap();
    // What a kill after the first step leaves.
    fs::rename(&home.disk.folder, home.disk.doomed()).unwrap();
    assert!("node".parse::<NodeName>().is_ok() && home.disk.doomed().ends_with(".removed-node"));
    assert!(".removed-node".parse::<NodeName>().is_err(), "no node can have this name");
    // A node of that name is made out of nothing.
    home.boot().unwrap();
    assert!(!manifest.exists());
    home.set(Membership::Member);
    home.disk.remove().unwrap();
    home.disk.remove().unwrap();
    assert_eq!(fs::read_dir(home.dir.path()).unwrap().count(), 1, "only the store is left");
}

#[test]
fn what_a_link_leads_to_is_not_removed() {
    let home = Home::new();
    let elsewhere = home.dir.path().join("elsewhere");
    fs::rename(&home.disk.folder, &elsewhere).unwrap();
    symlink(&elsewhere, &home.disk.folder).unwrap();
    home.disk.remove().unwrap();
    assert!(home.disk.folder.symlink_metadata().is_err());
    assert!(elsewhere.join("var/lib").is_dir() && elsewhere.join("record.json").is_file());
}

#[test]
fn a_damaged_record_is_an_error_that_says_how_to_write_it_again() {
    let home = Home::new();
    home.set(Membership::Member);
    let path = home.disk.record_path();
    let whole = fs::read_to_string(&path).unwrap();
    for text in ["", "{", &whole[..whole.len() / 2], "null"] {
        fs::write(&path, text).unwrap();
        let (name, what, hints) = home.error();
        assert_eq!(name, "HOST_STATE_DAMAGED");
        assert_eq!(what, format!("cannot read the record {}: it is damaged", path.display()));
        assert!(home.boot().is_err(), "and it is not overwritten");
        // What the first hint says, done.
        let again = hints[0].split_once("echo '").unwrap().1.split_once('\'').unwrap().0;
        fs::write(&path, again).unwrap();
        assert_eq!(home.membership(), Membership::Member);
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(home.disk.record().is_err());
}

#[test]
fn a_newer_record_is_left_alone() {
    let home = Home::new();
    let newer = r#"{"version":2,"uuid":"?","membership":"observer"}"#;
    fs::write(home.disk.record_path(), newer).unwrap();
    let (name, what, hints) = home.error();
    assert_eq!(
        (name, &hints[..]),
        ("HOST_STATE_NEWER", &["upgrade flotilla; nothing was changed".to_owned()][..])
    );
    assert!(what.ends_with("record.json: it was written by a newer flotilla"), "{what}");
    assert!(home.boot().is_err());
    assert_eq!(fs::read_to_string(home.disk.record_path()).unwrap(), newer);
}

#[test]
fn of_two_who_write_at_once_one_is_recorded() {
    let home = Home::new();
    std::thread::scope(|scope| {
        for membership in [Membership::Founding, Membership::Member] {
            let disk = &home.disk;
            scope
                .spawn(move || (0..50).for_each(|_| disk.set_record(&MachineRecord { membership }).unwrap()));
        }
        for _ in 0..200 {
            home.disk.record().unwrap();
        }
    });
    assert!(matches!(home.membership(), Membership::Founding | Membership::Member));
    assert_eq!(fs::read_dir(&home.disk.folder).unwrap().count(), 5, "bundle, image store, uuid, record, var");
}

#[test]
fn the_marks_of_an_earlier_release_are_converted_at_the_next_boot() {
    for (marks, wanted) in [
        (&[][..], Membership::None),
        (&["initialised"], Membership::Member),
        (&["joined"], Membership::Member),
        (&["founding"], Membership::Founding),
        (&["founded"], Membership::InitialMember),
        // Killed between two marks.
        (&["founding", "founded"], Membership::InitialMember),
        (&["founding", "initialised"], Membership::Member),
        (&["founded", "joined"], Membership::Member),
    ] {
        let home = Home::with_marks(marks);
        assert_eq!(home.membership(), wanted, "{marks:?}");
        assert!(!home.disk.record_path().exists(), "who only looks changes nothing");
        home.boot().unwrap();
        assert_eq!(home.membership(), wanted, "{marks:?}");
        assert!(marks.iter().all(|mark| !home.mark(mark).exists()), "{marks:?} are removed");
    }
}

#[test]
fn a_kill_within_a_conversion_changes_nothing() {
    let home = Home::with_marks(&["joined"]);
    home.boot().unwrap();
    // The record is written, the marks are still there.
    fs::write(home.mark("joined"), "").unwrap();
    home.set(Membership::None);
    home.boot().unwrap();
    assert_eq!(home.membership(), Membership::None);
}

#[test]
fn one_that_leaves_before_its_next_boot_is_converted_by_that() {
    let home = Home::with_marks(&["joined"]);
    home.set(Membership::None);
    assert_eq!(home.membership(), Membership::None);
    assert!(!home.mark("joined").exists());
}

#[test]
fn once_there_is_a_record_the_node_cannot_forge_marks() {
    let home = Home::new();
    fs::create_dir(home.mark("")).unwrap();
    fs::write(home.mark("initialised"), "").unwrap();
    assert_eq!(home.membership(), Membership::None);
    home.boot().unwrap();
    assert_eq!(home.membership(), Membership::None);
}

/// What a node can put at the place of a mark, or of the directory of marks.
fn replace_mark(home: &Home, by: &str) {
    let mark = home.mark("initialised");
    match by {
        "fifo" => mknodat(CWD, &mark, FileType::Fifo, Mode::RUSR, 0).unwrap(),
        "socket" => drop(std::os::unix::net::UnixListener::bind(&mark).unwrap()),
        "directory" => fs::create_dir(&mark).unwrap(),
        "link" => symlink(home.dir.path().join("host"), &mark).unwrap(),
        "linked directory" => {
            fs::remove_dir_all(home.mark("")).unwrap();
            fs::create_dir(home.dir.path().join("marks")).unwrap();
            fs::write(home.dir.path().join("marks/initialised"), "").unwrap();
            symlink(home.dir.path().join("marks"), home.disk.var().join("lib/flotilla")).unwrap();
        }
        "file for a directory" => {
            fs::remove_dir_all(home.mark("")).unwrap();
            fs::write(home.disk.var().join("lib/flotilla"), "").unwrap();
        }
        other => panic!("{other}"),
    }
}

#[test]
fn what_a_node_puts_at_the_place_of_a_mark_is_told_at_once_and_leads_nowhere() {
    for by in ["fifo", "socket", "directory", "link", "linked directory", "file for a directory"] {
        let home = Home::with_marks(&[]);
        fs::write(home.dir.path().join("host"), "the host's").unwrap();
        replace_mark(&home, by);
        let begun = Instant::now();
        let (name, what, hints) = home.error();
        assert!(begun.elapsed() < Duration::from_mins(1), "{by}");
        assert_eq!(name, "HOST_STATE_DAMAGED", "{by}");
        assert!(what.contains("lib/flotilla/initialised is not a regular file"), "{by}: {what}");
        assert!(hints[0].contains(r#""membership":"member""#), "{hints:?}");
        // Whoever knows better says so, and what the node made is out of the way.
        home.set(Membership::Member);
        home.boot().unwrap();
        assert_eq!(home.membership(), Membership::Member, "{by}");
        assert!(home.dir.path().join("host").exists());
        assert_eq!(home.dir.path().join("marks/initialised").exists(), by == "linked directory");
    }
    let home = Home::with_marks(&[]);
    fs::File::create(home.mark("joined")).unwrap().set_len(2 << 30).unwrap();
    assert_eq!(home.membership(), Membership::Member, "nothing of it is read");
}
