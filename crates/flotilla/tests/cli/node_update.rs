//! `node update` of a cluster that does not run.

use flotilla_testkit::Home;
use insta::assert_snapshot;

use super::stopped::home_with;

const NODES: &str = "
- name: demo
  role: control-plane
  state: stopped
- name: demo-m02
  role: worker
  labels: {disk: ssd}
  ports: ['8080:30080']
  state: stopped
";

fn fleet() -> Option<Home> {
    home_with(NODES, &["demo", "demo-m02"])
}

/// The cluster as it is kept.
fn file(home: &Home) -> String {
    home.run(["export", "-p", "demo"]).success().stdout
}

fn update(home: &Home, args: &[&str]) -> flotilla_testkit::Ran {
    home.run(["-p", "demo", "node", "update", "m02"].iter().chain(args))
}

#[test]
fn what_needs_no_cluster_changes_without_a_question() {
    let Some(home) = fleet() else { return };
    let asked = ["--memory", "1g", "--cpus", "1", "--mount", "/usr/share:/share:ro"];
    assert_snapshot!(update(&home, &asked), @"
    status: 0
    ----- stdout -----
    ~ node demo-m02: cpus no-limit -> 1
    ~ node demo-m02: memory no-limit -> 1Gi
    ~ node demo-m02: mounts (none) -> /usr/share:/share:ro
    updated node demo-m02
    ----- stderr -----
    ");
    assert!(file(&home).contains("1Gi"), "{}", file(&home));
    assert_snapshot!(update(&home, &asked), @"
    status: 0
    ----- stdout -----
    node demo-m02 already has these settings: nothing to do
    ----- stderr -----
    ");
}

#[test]
fn scripts_get_what_changed() {
    let Some(home) = fleet() else { return };
    let ran = update(&home, &["--memory", "1g", "-o", "json"]).success();
    let events = ran.events();
    let data = &events.last().unwrap()["data"];
    assert_eq!((&data["node"], &data["changed"]), (&"demo-m02".into(), &"true".into()), "{ran}");
    assert_snapshot!(data["changes"].as_str().unwrap(), @r#"[{"action":"update","field":"memory","from":"no-limit","node":"demo-m02","possible":true,"restart":false,"text":"~ node demo-m02: memory no-limit -> 1Gi","to":"1Gi"}]"#);
}

#[test]
fn labels_and_taints_are_the_running_clusters() {
    let Some(home) = fleet() else { return };
    let before = file(&home);
    assert_snapshot!(update(&home, &["--labels", "disk-,zone=a"]), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: cannot change labels or taints: cluster demo is stopped
    hint: start it first with `flotilla start -p demo`
    ");
    assert_eq!(update(&home, &["--taints", "gpu=yes:NoSchedule"]).status, 14);
    assert_eq!(file(&home), before);
}

#[test]
fn a_dry_run_tells_what_would_change() {
    let Some(home) = fleet() else { return };
    let before = file(&home);
    assert_snapshot!(update(&home, &["--port", "8080-", "--port", "9090:30080", "--dry-run"]), @"
    status: 0
    ----- stdout -----
    ~ node demo-m02: ports 8080:30080 -> 9090:30080
    ----- stderr -----
    ");
    // It refuses what the same without it would.
    assert_eq!(update(&home, &["--labels", "zone=a", "--dry-run"]).status, 14);
    assert_eq!(file(&home), before);
}

#[test]
fn what_cannot_be_is_refused() {
    let Some(home) = fleet() else { return };
    let before = file(&home);
    assert_snapshot!(update(&home, &["--memory", "10", "--cpus", "no", "--labels", "a b-"]), @r#"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: 2 errors in the request
        "no" is not a number of CPUs; write a whole number, `max` or `no-limit`
        "a b-" is not a label; write `key=value`, separated by commas
    "#);
    assert_snapshot!(update(&home, &["--memory", "10"]), @"
    status: 23
    ----- stdout -----
    ----- stderr -----
    error[RSRC_INSUFFICIENT_REQ_MEMORY]: node demo-m02 has 10 MiB of memory, but a worker needs 256 MiB
    hint: use --memory 256Mi or more
    ");
    assert_snapshot!(update(&home, &["--kubernetes-version", "v1.36.4"]), @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error: unexpected argument '--kubernetes-version' found

    Usage: flotilla node update <NAME>

    For more information, try '--help'.
    ");
    assert_eq!(file(&home), before);
    assert_eq!(home.run(["-p", "demo", "node", "update", "m07", "--cpus", "1"]).status, 85);
}
