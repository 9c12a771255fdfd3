//! Commands about etcd and a lost majority, as far as they need no cluster.

use flotilla_testkit::{Home, etcd_snapshot};
use insta::assert_snapshot;

use super::stopped::home_with;

/// A path in the home.
fn below(home: &Home, name: &str) -> String {
    home.path().join(name).to_str().expect("a home has a path of UTF-8").to_owned()
}

const OWN: &str = "-----BEGIN CERTIFICATE-----\nb3Vycw==\n-----END CERTIFICATE-----\n";
const OTHER: &str = "-----BEGIN CERTIFICATE-----\ndGhlaXJz\n-----END CERTIFICATE-----\n";

/// Gives a node a disk with the authority of its cluster. It is off.
fn give_disk(home: &Home, node: &str) {
    let directory = home.state().join("clusters/demo/nodes").join(node).join("upper/etc/kubernetes/pki");
    std::fs::create_dir_all(&directory).expect("a directory in the home");
    std::fs::write(directory.join("ca.crt"), OWN).expect("a file");
}

#[test]
fn a_stopped_cluster_has_nobody_to_ask() {
    let Some(home) = home_with("- name: demo\n  role: control-plane\n  power: stopped\n", &["demo"]) else {
        return;
    };
    let reported = "\
status: 83
----- stdout -----
----- stderr -----
error[GUEST_NOT_RUNNING]: cluster demo is stopped
hint: start it with `flotilla start -p demo`
";
    let file = below(&home, "etcd.snapshot");
    for command in [&["etcd", "status"][..], &["etcd", "snapshot", "save", &file]] {
        assert_eq!(home.run(["-p", "demo"].iter().chain(command)).to_string(), reported, "{command:?}");
    }
}

#[test]
fn a_file_is_not_written_over_unless_forced() {
    let Some(home) = home_with("- name: demo\n  role: control-plane\n", &["demo"]) else { return };
    let file = below(&home, "etcd.snapshot");
    std::fs::write(&file, "mine").unwrap();
    assert_snapshot!(home.run(["-p", "demo", "etcd", "snapshot", "save", &file]), @"
    status: 31
    ----- stdout -----
    ----- stderr -----
    error[HOST_FILE_EXISTS]: [HOME]/etcd.snapshot already exists
    hint: use --force to overwrite it
    ");
    let forced = home.run(["-p", "demo", "etcd", "snapshot", "save", &file, "--force"]);
    assert_eq!(forced.status, 83, "there is nothing to save: {forced}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn what_cannot_be_undone_is_told_and_asked_for() {
    let spec = "- {name: demo, role: control-plane}\n- {name: m02, role: control-plane}\n";
    let Some(home) = home_with(spec, &["demo", "m02"]) else { return };
    assert_snapshot!(home.run(["-p", "demo", "recover"]), @"
    status: 14
    ----- stdout -----
    control planes of cluster demo: demo, m02
    starts those that exist; if a majority of them answer or have their data, nothing else is changed
    otherwise recreates etcd with one member from the newest data of a control plane and removes the others from it
    writes that this member has not received are lost; old data is kept on the nodes' disks
    ----- stderr -----
    error[MK_USAGE]: cannot prompt: no terminal
    hint: use --yes to continue without a prompt
    ");
    give_disk(&home, "m02");
    let file = below(&home, "etcd.snapshot");
    std::fs::write(&file, etcd_snapshot(Some(OWN))).unwrap();
    assert_snapshot!(home.run(["-p", "demo", "etcd", "snapshot", "restore", &file]), @"
    status: 14
    ----- stdout -----
    restores etcd of cluster demo from [HOME]/etcd.snapshot: everything written since is lost
    the API does not answer meanwhile, pods keep running; the old data is kept on the nodes' disks
    one control plane starts from the snapshot, the others join it again
    ----- stderr -----
    error[MK_USAGE]: cannot prompt: no terminal
    hint: use --yes to continue without a prompt
    ");
    let missing = home.run(["-p", "demo", "recover", "--from", &below(&home, "nothing")]);
    assert_eq!(missing.status, 30, "{missing}");
}

#[test]
fn where_no_control_plane_is_left_there_is_nothing_to_begin_from() {
    let spec = "- {name: demo, role: control-plane}\n- {name: m02, role: control-plane}\n";
    let Some(home) = home_with(spec, &["demo", "m02"]) else { return };
    let file = below(&home, "etcd.snapshot");
    std::fs::write(&file, etcd_snapshot(None)).unwrap();
    let reported = "\
error[GUEST_NO_SURVIVOR]: no control plane of cluster demo has its data and keys
hint: without its keys it cannot be recovered: run `flotilla delete -p demo`, then `start`
hint: that deletes the disks of all nodes, with volumes and images: copy what you need first
";
    for command in [&["recover"][..], &["recover", "--from", &file], &["etcd", "snapshot", "restore", &file]]
    {
        let ran = home.run(["-p", "demo"].iter().chain(command).chain(&["--yes"]));
        assert_eq!((ran.status, ran.stderr.as_str()), (85, reported), "{command:?} {ran}");
    }
}

/// Told before anything else is looked at: no lock is taken, no machine started, no question asked.
#[test]
fn a_file_that_is_no_whole_snapshot_is_refused_at_once_and_nothing_is_touched() {
    let spec = "- {name: demo, role: control-plane}\n- {name: m02, role: control-plane}\n";
    let Some(home) = home_with(spec, &["demo", "m02"]) else { return };
    let write = |name: &str, bytes: &[u8]| {
        let file = below(&home, name);
        std::fs::write(&file, bytes).unwrap();
        file
    };
    let whole = etcd_snapshot(Some(OWN));
    let mut damaged = whole.clone();
    damaged[5000] ^= 1;
    let damaged = write("damaged", &damaged);
    let without_checksum = write("db", &whole[..whole.len() - 32]);
    let state = home.files();
    let restore = |file: &str, flag: &[&str]| {
        let ran = home.run(["-p", "demo", "etcd", "snapshot", "restore", "--yes", file].iter().chain(flag));
        let recover = home.run(["-p", "demo", "recover", "--yes", "--from", file].iter().chain(flag));
        assert_eq!((ran.status, &ran.stderr), (recover.status, &recover.stderr));
        ran
    };
    assert_snapshot!(restore("/etc/passwd", &[]), @"
    status: 38
    ----- stdout -----
    ----- stderr -----
    error[HOST_BAD_SNAPSHOT]: cannot restore /etc/passwd
      caused by: it is not a snapshot of etcd
    hint: `flotilla etcd snapshot save FILE -p demo` writes a snapshot (nothing was changed)
    ");
    assert_snapshot!(restore(&damaged, &["--force"]), @"
    status: 38
    ----- stdout -----
    ----- stderr -----
    error[HOST_BAD_SNAPSHOT]: cannot restore [HOME]/damaged
      caused by: it is damaged: its checksum does not match
    hint: `flotilla etcd snapshot save FILE -p demo` writes a snapshot (nothing was changed)
    ");
    assert_snapshot!(restore(&without_checksum, &[]), @"
    status: 38
    ----- stdout -----
    ----- stderr -----
    error[HOST_BAD_SNAPSHOT]: [HOME]/db has no checksum, so damage cannot be detected
    hint: use --force to restore it as a copy of a member's database (nothing was changed)
    ");
    assert_eq!(home.files(), state);
    assert_eq!(restore(&without_checksum, &["--force"]).status, 85, "only then is it looked for a survivor");
}

#[test]
fn a_snapshot_that_is_not_proven_to_be_of_the_cluster_is_refused_and_nothing_is_touched() {
    let spec = "- {name: demo, role: control-plane}\n- {name: m02, role: control-plane}\n";
    let Some(home) = home_with(spec, &["demo", "m02"]) else { return };
    give_disk(&home, "m02");
    let (foreign, unknown) = (below(&home, "foreign"), below(&home, "unknown"));
    std::fs::write(&foreign, etcd_snapshot(Some(OTHER))).unwrap();
    std::fs::write(&unknown, etcd_snapshot(None)).unwrap();
    let restore = |file: &str, flag: &[&str]| {
        let typed = ["-p", "demo", "etcd", "snapshot", "restore", file];
        home.run(typed.iter().chain(flag))
    };
    assert_snapshot!(restore(&foreign, &["--yes"]), @"
    status: 81
    ----- stdout -----
    ----- stderr -----
    error[GUEST_FOREIGN_SNAPSHOT]: [HOME]/foreign is a snapshot of another cluster, not of demo
    hint: use --force to restore it; objects and nodes are then those of the other cluster
    ");
    assert_snapshot!(restore(&unknown, &["--yes"]), @"
    status: 81
    ----- stdout -----
    ----- stderr -----
    error[GUEST_FOREIGN_SNAPSHOT]: [HOME]/unknown is not proven to be a snapshot of cluster demo
    hint: use --force to restore it anyway
    ");
    let recover = home.run(["-p", "demo", "recover", "--yes", "--from", &foreign]);
    assert_eq!(recover.status, 81, "{recover}");
    // Forced, it is asked for as any other.
    let forced = restore(&foreign, &["--force"]);
    assert_eq!(forced.status, 14, "{forced}");
    assert!(forced.stderr.contains("foreign is a snapshot of another cluster, not of demo"), "{forced}");
}
