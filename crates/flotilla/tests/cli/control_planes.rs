//! Several control planes, as far as they can be spoken of without running any.

use flotilla_testkit::Home;
use insta::assert_snapshot;

use super::stopped::home_with;
use super::{home, may_be_root};

/// A home with a cluster of three control planes and a worker, all stopped together.
fn stopped() -> Option<Home> {
    let nodes = ["demo-m02", "demo", "demo-m03"].map(|name| (name, "control-plane"));
    let nodes = nodes.into_iter().chain([("demo-m04", "worker")]);
    let lines = nodes.map(|(name, role)| format!("- {{name: {name}, role: {role}, state: stopped}}\n"));
    home_with(&lines.collect::<String>(), &["demo", "demo-m02", "demo-m03", "demo-m04"])
}

#[test]
fn nodes_grow_to_the_number_of_control_planes() {
    if !may_be_root() {
        return;
    }
    let steps = |args: &[&str]| {
        let ran = home().run(["start", "--dry-run", "--force"].iter().chain(args)).success();
        let lines = ran.stdout.lines().map(str::trim).filter(|line| line.starts_with("joining"));
        lines.collect::<Vec<_>>().join(", ")
    };
    let three = steps(&["--ha"]);
    assert_eq!(three, "joining node flotilla-m02, joining node flotilla-m03");
    assert_eq!(steps(&["--control-planes", "3", "--nodes", "2"]), three);
    assert_eq!(steps(&["--nodes", "3"]), three);
    assert_eq!(home().run(["start", "--ha", "--control-planes", "3"]).status, 14);
    assert_eq!(home().run(["start", "--control-planes", "0"]).status, 14);
}

#[test]
fn the_primary_is_marked_and_each_has_its_address() {
    let Some(home) = stopped() else { return };
    let ran = home.run(["status", "-p", "demo", "--format", "{{.Name}} {{.IP}} {{.Primary}} {{.Worker}}"]);
    assert_snapshot!(ran, @"
    status: 7
    ----- stdout -----
    demo-m02 10.213.77.3 true false
    demo 10.213.77.2 false false
    demo-m03 10.213.77.4 false false
    demo-m04 10.213.77.5 false true
    ----- stderr -----
    ");
    let whole = home.run(["status", "-p", "demo", "-o", "json", "--layout", "cluster"]).json();
    assert_eq!(whole["VirtualIP"], "10.213.77.254");
    assert_eq!(whole["Nodes"][0]["Primary"], true);
}

#[test]
fn those_that_were_stopped_together_start_together() {
    let Some(home) = stopped() else { return };
    let file = home.state().join("clusters/demo/cluster.yaml");
    let before = std::fs::read_to_string(&file).unwrap();
    assert_snapshot!(home.run(["node", "start", "m02", "-p", "demo"]), @"
    status: 83
    ----- stdout -----
    ----- stderr -----
    error[GUEST_NOT_RUNNING]: cluster demo is stopped
    hint: start it with `flotilla start -p demo`
    ");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
}

#[test]
fn nobody_leaves_a_control_plane_that_cannot_be_asked() {
    let Some(home) = stopped() else { return };
    assert_eq!(home.run(["node", "delete", "m02", "-p", "demo"]).status, 83);
    assert_snapshot!(home.run(["node", "delete", "demo", "m02", "m03", "--force", "-p", "demo"]), @"
    status: 81
    ----- stdout -----
    ----- stderr -----
    error[GUEST_LAST_CONTROL_PLANE]: cannot delete all 3 control planes of cluster demo
    hint: `flotilla delete -p demo` deletes the cluster
    ");
    let stopped = home.run(["node", "stop", "m02", "-p", "demo"]).success();
    assert_eq!(stopped.stdout, "node demo-m02 is already stopped\n");
    assert_eq!(home.run(["node", "list", "-p", "demo"]).success().stdout.lines().count(), 5);
}

#[test]
fn a_cluster_that_is_there_keeps_its_number_of_control_planes() {
    let Some(home) = stopped() else { return };
    for (flag, reported, hint) in [
        (
            &["--control-planes", "5"] as &[&str],
            "cluster demo has 3 control planes, not 5",
            "`flotilla node add --control-plane -p demo` and `flotilla node delete -p demo` change the number",
        ),
        (
            &["--taint-control-planes"],
            "with another taint of its control planes",
            "`flotilla apply -f FILE` changes it",
        ),
    ] {
        let ran = home.run(["start", "-p", "demo", "--force"].iter().chain(flag));
        assert_eq!(ran.status, 11, "{ran}");
        assert!(ran.stderr.ends_with(&format!("{reported}\nhint: {hint}\n")), "{ran}");
    }
}
