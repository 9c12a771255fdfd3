//! Which clusters there are, in flotilla's, minikube's and kind's words; and `--all`.

use std::fs;

use flotilla_testkit::Home;
use insta::assert_snapshot;

use super::stopped::home_with;
use super::{home, may_be_root};

/// A home with the stopped cluster demo and one whose state is cut off.
fn two_clusters() -> Option<Home> {
    let nodes = "- {name: demo, role: control-plane, power: stopped}\n- {name: demo-m02, role: worker, power: stopped}\n";
    let home = home_with(nodes, &["demo", "demo-m02"])?;
    let directory = home.state().join("clusters/broken");
    fs::create_dir_all(&directory).expect("a directory in the home");
    fs::write(directory.join("state.json"), "{").expect("a file in the home");
    Some(home)
}

#[test]
fn no_clusters_is_an_empty_list() {
    let home = home();
    assert_snapshot!(home.run(["list"]), @"
    status: 0
    ----- stdout -----
    ----- stderr -----
    no clusters
    hint: create one with `flotilla start`
    ");
    assert_eq!(home.run(["ls", "-o", "json"]).success().json(), serde_json::json!([]));
    assert_eq!(home.run(["get", "clusters"]).success().stdout, "");
    let profiles = home.run(["profile", "list", "-o", "json"]).success();
    assert_eq!(profiles.json(), serde_json::json!({"invalid": [], "valid": []}));
    assert_eq!(home.run(["profile", "list"]).success().stdout, "");
    assert!(home.files().is_empty(), "{:?}", home.files());
}

#[test]
fn all_are_listed_and_damaged_ones_are_named() {
    let Some(home) = two_clusters() else { return };
    assert_snapshot!(home.run(["list"]), @"
    status: 0
    ----- stdout -----
    NAME     STATUS    NODES   VERSION   SERVER                       CURRENT
    broken   Invalid
    demo     Stopped   0/2     v1.37.1   https://10.213.77.254:6443
    ----- stderr -----
    warning: cannot read the state of cluster broken: [HOME]/flotilla/clusters/broken/state.json is damaged: EOF while parsing an object at line 1 column 1
    hint: running nodes keep running, and the nodes' data is still in [HOME]/flotilla/clusters/broken/nodes; repair [HOME]/flotilla/clusters/broken/state.json by hand, or restore it from a backup
    ");
    let json = home.run(["list", "-o", "json"]).success().json();
    assert!(
        json[0]["error"].as_str().unwrap().starts_with("cannot read the state of cluster broken: "),
        "{json}"
    );
    assert_eq!((&json[0]["name"], &json[0]["status"]), (&"broken".into(), &"Invalid".into()));
    assert_snapshot!(json[1], @r#"{"current":false,"kubernetesVersion":"v1.37.1","name":"demo","nodes":2,"nodesRunning":0,"server":"https://10.213.77.254:6443","status":"Stopped"}"#);
    assert_eq!(home.run(["get", "clusters"]).success().stdout, "broken\ndemo\n");
}

#[test]
fn minikubes_scripts_find_what_they_look_for() {
    let Some(home) = two_clusters() else { return };
    assert_snapshot!(home.run(["profile", "list"]).stdout, @"
    |---------|--------|------------|---------------|---------|---------|-------|----------------|--------------------|
    | Profile | Driver | Runtime    | IP            | Version | Status  | Nodes | Active Profile | Active Kubecontext |
    |---------|--------|------------|---------------|---------|---------|-------|----------------|--------------------|
    | demo    | native | containerd | 10.213.77.254 | v1.37.1 | Stopped | 2     |                |                    |
    |---------|--------|------------|---------------|---------|---------|-------|----------------|--------------------|
    ");
    assert_snapshot!(home.run(["-p", "demo", "profile", "list", "--detailed", "-o", "table"]).stdout, @"
    |---------|--------|------------|---------------|------|---------|---------|-------|----------------|--------------------|
    | Profile | Driver | Runtime    | IP            | Port | Version | Status  | Nodes | Active Profile | Active Kubecontext |
    |---------|--------|------------|---------------|------|---------|---------|-------|----------------|--------------------|
    | demo    | native | containerd | 10.213.77.254 | 6443 | v1.37.1 | Stopped | 2     | *              |                    |
    |---------|--------|------------|---------------|------|---------|---------|-------|----------------|--------------------|
    ");
    let json = home.run(["profile", "list", "-o", "json", "-l"]).success().json();
    assert_snapshot!(serde_json::to_string_pretty(&json["valid"]).unwrap(), @r#"
    [
      {
        "Active": false,
        "ActiveKubeContext": false,
        "Config": {
          "APIServerPort": 6443,
          "Driver": "native",
          "KubernetesConfig": {
            "APIServerHAVIP": "10.213.77.254",
            "ClusterName": "demo",
            "ContainerRuntime": "containerd",
            "DNSDomain": "cluster.local",
            "ExtraOptions": [],
            "KubernetesVersion": "v1.37.1",
            "NetworkPlugin": "cni",
            "ServiceCIDR": "10.96.0.0/12"
          },
          "Name": "demo",
          "Nodes": [
            {
              "ContainerRuntime": "containerd",
              "ControlPlane": true,
              "IP": "10.213.77.2",
              "KubernetesVersion": "v1.37.1",
              "Name": "demo",
              "Port": 6443,
              "Worker": true
            },
            {
              "ContainerRuntime": "containerd",
              "ControlPlane": false,
              "IP": "10.213.77.3",
              "KubernetesVersion": "v1.37.1",
              "Name": "demo-m02",
              "Port": 0,
              "Worker": true
            }
          ]
        },
        "Name": "demo",
        "Status": "Skipped"
      }
    ]
    "#);
    assert_eq!(
        (&json["invalid"][0]["Name"], &json["invalid"][0]["Status"]),
        (&"broken".into(), &"Invalid".into())
    );
}

#[test]
fn a_name_that_is_not_there_is_answered_with_those_that_are() {
    let Some(home) = two_clusters() else { return };
    assert_snapshot!(home.run(["stop", "-p", "dmo"]), @"
    status: 85
    ----- stdout -----
    ----- stderr -----
    error[GUEST_NO_CLUSTER]: cluster dmo does not exist
    hint: did you mean demo? existing clusters: broken, demo; choose one with -p
    ");
    assert_snapshot!(home.run(["status"]), @"
    status: 85
    ----- stdout -----
    ----- stderr -----
    error[GUEST_NO_CLUSTER]: cluster flotilla does not exist
    hint: existing clusters: broken, demo; choose one with -p
    ");
    assert_snapshot!(home.run(["ip", "-p", "demo", "--node", "m03"]), @"
    status: 85
    ----- stdout -----
    ----- stderr -----
    error[GUEST_NODE_NOT_FOUND]: cluster demo has no node m03
    hint: existing nodes: demo, demo-m02
    ");
    let ran = home.run(["delete", "-p", "dmo"]).success();
    assert_eq!(ran.stdout, "cluster dmo does not exist: nothing was deleted\n");
    assert!(
        ran.stderr
            .ends_with("hint: did you mean demo? existing clusters: broken, demo; choose one with -p\n"),
        "{ran}"
    );
}

#[test]
fn all_that_can_be_stopped_are_and_failures_are_told_at_the_end() {
    let Some(home) = two_clusters() else { return };
    assert_snapshot!(home.run(["stop", "--all"]), @"
    status: 38
    ----- stdout -----
    cluster demo is already stopped
    ----- stderr -----
    error[HOST_STATE_DAMAGED]: 1 of 2 clusters could not be stopped
        broken: cannot read the state of cluster broken: [HOME]/flotilla/clusters/broken/state.json is damaged: EOF while parsing an object at line 1 column 1
    hint: running nodes keep running, and the nodes' data is still in [HOME]/flotilla/clusters/broken/nodes
    hint: repair [HOME]/flotilla/clusters/broken/state.json by hand, or restore it from a backup
    ");
}

/// Deletes with something mounted in the directory of a node, which therefore cannot be removed.
fn delete_with_a_mount(home: &Home, node: &str, args: &[&str]) -> flotilla_testkit::Ran {
    let directory = home.state().join("clusters/demo/nodes").join(node);
    fs::create_dir_all(directory.join("mounted")).expect("a directory in the home");
    let program = Home::new("unshare").with_env("HOME", home.path()).with_env("FLOTILLA_HOME", home.state());
    let mounted = directory.join("mounted").display().to_string();
    let script = "mount -t tmpfs none \"$0\" && exec \"$@\"";
    let command = ["--mount", "sh", "-c", script, &mounted, env!("CARGO_BIN_EXE_flotilla"), "delete"];
    program.run(command.iter().chain(args))
}

#[test]
fn a_node_that_cannot_be_removed_does_not_keep_the_others() {
    let Some(home) = two_clusters() else { return };
    for name in ["demo-m02", "demo-m03"] {
        fs::create_dir_all(home.state().join("clusters/demo/nodes").join(name)).unwrap();
    }
    let ran = delete_with_a_mount(&home, "demo", &["--all"]);
    assert_eq!(ran.status, 30, "{ran}");
    assert!(ran.stdout.contains("deleted cluster broken\n"), "{ran}");
    assert!(
        ran.stderr.contains("error[HOST_IO]: 1 of 2 clusters could not be deleted\n    demo: cannot remove"),
        "{ran}"
    );
    let nodes = home.state().join("clusters/demo/nodes");
    let left: Vec<_> = fs::read_dir(&nodes).unwrap().map(|node| node.unwrap().file_name()).collect();
    assert_eq!(left, [".removed-demo"], "what is left of it is no node");
    assert!(home.state().join("clusters/demo/state.json").exists(), "what is left is still known");
    drop(home.run(["delete", "-p", "demo"]).success());
    // The audit log stays.
    assert!(may_be_root() && home.files() == ["flotilla/"], "{:?}", home.files());
}
