//! Commands about clusters that do not exist, or whose state cannot be read.

use std::fs;

use flotilla_testkit::Home;
use insta::assert_snapshot;

use super::{home, may_be_root};

#[test]
fn a_cluster_that_is_not_there_is_an_error_with_a_way_out() {
    if !may_be_root() {
        return;
    }
    let home = home();
    let commands: [&[&str]; 28] = [
        &["status"],
        &["stop"],
        &["pause"],
        &["unpause"],
        &["kubectl", "--", "get", "nodes"],
        &["ssh"],
        &["ssh", "--", "true"],
        &["logs"],
        &["ip"],
        &["update-context"],
        &["cp", "file", "/tmp/file"],
        &["node", "add"],
        &["node", "start", "m02"],
        &["node", "stop", "m02"],
        &["node", "delete", "m02"],
        &["node", "update", "m02", "--labels", "a=b"],
        &["node", "list"],
        &["node", "status", "m02"],
        &["node", "ip", "m02"],
        &["node", "ssh", "m02", "--", "true"],
        &["node", "logs", "m02"],
        &["node", "cp", "m02", "file", "/tmp/file"],
        &["node", "pause", "m02"],
        &["node", "unpause", "m02"],
        &["etcd", "status"],
        &["etcd", "snapshot", "save", "file"],
        &["etcd", "snapshot", "restore", "file"],
        &["recover"],
    ];
    let reported = "\
status: 85
----- stdout -----
----- stderr -----
error[GUEST_NO_CLUSTER]: cluster nowhere does not exist
hint: create it with `flotilla start -p nowhere`
";
    for command in commands {
        assert_eq!(home.run(["-p", "nowhere"].iter().chain(command)).to_string(), reported, "{command:?}");
    }
    assert!(home.files().is_empty(), "{:?}", home.files());
}

#[test]
fn the_default_cluster_needs_no_flag() {
    if !may_be_root() {
        return;
    }
    assert_snapshot!(home().run(["ip"]), @"
    status: 85
    ----- stdout -----
    ----- stderr -----
    error[GUEST_NO_CLUSTER]: cluster flotilla does not exist
    hint: create it with `flotilla start`
    ");
    assert_snapshot!(home().run(["status", "-o", "json"]), @r#"
    status: 85
    ----- stdout -----
    {"data":{"advice":"create it with `flotilla start`","exitcode":"85","issues":"","message":"cluster flotilla does not exist","name":"GUEST_NO_CLUSTER","url":""},"datacontenttype":"application/json","id":"[ID]","source":"https://flotilla.dev/","specversion":"1.0","time":"[TIME]","type":"io.k8s.sigs.minikube.error"}
    ----- stderr -----
    "#);
}

#[test]
fn deleting_what_is_not_there_goes_well_and_leaves_nothing() {
    if !may_be_root() {
        return;
    }
    let home = home();
    assert_snapshot!(home.run(["delete", "-p", "nowhere"]), @"
    status: 0
    ----- stdout -----
    cluster nowhere does not exist: nothing was deleted
    ----- stderr -----
    3 steps, about 1 s
    [1/3] removing cluster nowhere from your kubeconfig: nothing to do
    [2/3] removing the machines and the network of cluster nowhere: nothing to do
    [3/3] removing the state of cluster nowhere: nothing to do
    ");
    assert_eq!(home.run(["delete", "-p", "nowhere", "-o", "json"]).success().events().len(), 8);
    assert_snapshot!(home.run(["delete", "--all"]), @"
    status: 0
    ----- stdout -----
    no cluster to delete
    ----- stderr -----
    ");
    assert_snapshot!(home.run(["stop", "--all"]), @"
    status: 0
    ----- stdout -----
    no cluster to stop
    ----- stderr -----
    ");
    assert!(home.files().is_empty(), "{:?}", home.files());
}

/// A home with a cluster whose file has been cut off.
fn damaged_home() -> Home {
    home_with_state("{")
}

/// A home with a cluster `broken` that has this state.
fn home_with_state(state: &str) -> Home {
    let home = home();
    let directory = home.state().join("clusters/broken");
    fs::create_dir_all(&directory).expect("a directory in the home");
    fs::write(directory.join("state.json"), state).expect("a file");
    home
}

#[test]
fn a_cluster_of_a_newer_flotilla_is_told_as_that_and_left_alone() {
    if !may_be_root() {
        return;
    }
    let state =
        r#"{"schemaVersion": 1000, "subnet": "10.213.0.0/24", "podSubnet": "10.244.0.0/16", "new": {}}"#;
    let home = home_with_state(state);
    let before = home.files();
    assert_snapshot!(home.run(["status", "-p", "broken"]), @"
    status: 38
    ----- stdout -----
    ----- stderr -----
    error[HOST_STATE_NEWER]: [HOME]/flotilla/clusters/broken/state.json was written by a newer flotilla: schema version 1000 is not supported, the newest supported one is 7
    hint: upgrade flotilla; cluster broken was not changed
    ");
    for command in ["start", "stop", "pause", "kubectl", "ssh", "logs", "ip", "update-context"] {
        let ran = home.run([command, "-p", "broken"]);
        assert_eq!(ran.status, 38, "{command} {ran}");
    }
    assert_eq!(home.files(), before);
    // Its ranges are not handed out to others.
    let taken = ["--subnet", "10.213.0.0/24", "--pod-subnet", "10.245.0.0/16"];
    let ran = home.run(["start", "--dry-run", "--force", "-p", "new"].iter().chain(&taken));
    assert!(ran.stderr.contains("10.213.0.0/24 overlaps the cluster broken"), "{ran}");
}

#[test]
fn ranges_that_nobody_knows_are_not_handed_out_a_second_time() {
    if !may_be_root() {
        return;
    }
    let home = damaged_home();
    let start = ["start", "--dry-run", "--force", "-p", "new"];
    let ran = home.run(start);
    let reported = "error[HOST_STATE_DAMAGED]: the address ranges of cluster broken are unknown: its state cannot be read\n\
        hint: repair cluster broken (see `flotilla status -p broken`), or choose ranges that it does not use with --subnet \
        and --pod-subnet\n";
    assert!(ran.status == 38 && ran.stderr.ends_with(reported), "{ran}");
    let chosen = ["--subnet", "10.213.99.0/24", "--pod-subnet", "10.253.0.0/16"];
    assert_eq!(home.run(start.iter().chain(&chosen)).status, 0);
}

#[test]
fn a_damaged_cluster_is_told_and_left_alone() {
    if !may_be_root() {
        return;
    }
    let home = damaged_home();
    let before = home.files();
    assert_snapshot!(home.run(["status", "-p", "broken"]), @"
    status: 38
    ----- stdout -----
    ----- stderr -----
    error[HOST_STATE_DAMAGED]: cannot read the state of cluster broken: [HOME]/flotilla/clusters/broken/state.json is damaged
      caused by: EOF while parsing an object at line 1 column 1
    hint: running nodes keep running, and the nodes' data is still in [HOME]/flotilla/clusters/broken/nodes
    hint: repair [HOME]/flotilla/clusters/broken/state.json by hand, or restore it from a backup
    ");
    for command in ["start", "stop", "pause", "kubectl", "ssh", "logs", "ip", "update-context"] {
        let ran = home.run([command, "-p", "broken"]);
        assert_eq!(ran.status, 38, "{command} {ran}");
    }
    assert_eq!(home.files(), before);
}

#[test]
fn a_damaged_cluster_can_be_deleted() {
    if !may_be_root() {
        return;
    }
    for which in [["-p", "broken"].as_slice(), &["--all"]] {
        let home = damaged_home();
        let ran = home.run(["delete"].iter().chain(which)).success();
        assert_eq!(ran.stdout, "deleted cluster broken\n");
        assert!(home.files().is_empty(), "{:?}", home.files());
    }
}
