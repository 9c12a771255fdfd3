//! What `node add` refuses: all problems together, before the cluster is changed.

use std::fs;
use std::net::TcpListener;

use flotilla_testkit::{Ran, own_network};
use insta::assert_snapshot;

use super::home;
use super::stopped::home_with;

/// As it is after a crash of the host: all are to run, and none does.
const NODES: &str = "
- name: demo
  role: control-plane
- name: demo-m02
  role: worker
  ports: ['8080:30080']
";

/// A cluster beside it.
const OTHER: &str = "
apiVersion: flotilla.dev/v1
kind: Cluster
name: other
kubernetesVersion: v1.37.1
nodes:
- name: other
  role: control-plane
- name: theirs
  role: worker
  ports: ['9090:90']
";

/// Adds a node that cannot be, and sees to it that the cluster is as before.
fn refused(args: &[&str]) -> Option<Ran> {
    let home = home_with(NODES, &["demo", "demo-m02"])?;
    let (ours, theirs) = (home.state().join("clusters/demo"), home.state().join("clusters/other"));
    fs::create_dir(&theirs).expect("a directory in the home");
    fs::write(theirs.join("cluster.yaml"), OTHER).expect("a file");
    fs::copy(ours.join("state.json"), theirs.join("state.json")).expect("a file");
    let file = |name: &str| fs::read_to_string(ours.join(name)).expect("a file of the cluster");
    let before = [file("cluster.yaml"), file("state.json")];
    let ran = home.run(["-p", "demo", "node", "add"].iter().chain(args));
    assert_eq!([file("cluster.yaml"), file("state.json")], before, "{args:?}");
    assert_ne!(ran.status, 0, "{args:?}");
    Some(ran)
}

#[test]
fn everything_that_cannot_be_read_is_told_at_once() {
    // Before the cluster is looked for.
    let home = home();
    let bad = [
        "node",
        "add",
        "Big",
        "--cpus=two",
        "--memory=lots",
        "--disk-size=x",
        "--labels=a",
        "--taints=b",
        "--mount=relative:/b",
        "--port=0:1",
        "--kubernetes-version=new",
        "--extra-config=kubelet",
        "--feature-gates=A",
        "--container-runtime=docker",
    ];
    assert_snapshot!(home.run(bad), @r#"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: 12 errors in the request
        node name "Big" contains 'B': only a-z, 0-9 and '-' are allowed; try `big`
        "two" is not a number of CPUs; write a whole number, `max` or `no-limit`
        "lots" is not a size; write a number of megabytes (`3072`) or a number with a unit (`512m`, `1.5g`)
        "x" is not a size; write a number of megabytes (`3072`) or a number with a unit (`512m`, `1.5g`)
        "a" is not a label; write `key=value`, separated by commas
        "b" is not a taint; write `key=value:NoSchedule`, PreferNoSchedule or NoExecute
        "relative:/b" is not a mount; write `/path/on/the/host:/path/in/the/node`, with `:ro` at the end for read-only
        "0:1" is not a port to publish; write `8080:30080`, `0.0.0.0:8080:30080` or `5353:30053/udp`: the host's port first
        "new" is not a Kubernetes version; write a full version, for example `v1.37.1`
        option "kubelet" has no `=` and value; write `component.key=value`, for example `kubelet.max-pods=50`
        "A" is not a feature gate; write `Name=true` or `Name=false`, separated by commas
        container runtime "docker" is not supported; leave it out: every node has containerd
    "#);
    assert!(home.files().is_empty());
}

#[test]
fn everything_that_does_not_fit_the_cluster_is_told_at_once() {
    let bad = [
        "m02",
        "--memory=10",
        "--disk-size=10m",
        "--mount=/usr:/a",
        "--mount=/srv:/a",
        "--port=8080:80",
        "--kubernetes-version=v1.30.0",
        "--extra-opts=apiserver.v=4",
    ];
    let Some(ran) = refused(&bad) else { return };
    assert_snapshot!(ran, @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: 7 errors in the request
        the cluster already has a node demo-m02; give the new node another name, or none for a default
        node demo-m02 has 10 MiB of memory, but a worker needs 256 MiB; use --memory 256Mi or more
        node demo-m02 has a disk of 10 MiB, but needs 2 GiB; use --disk-size 2Gi or more
        kubelet v1.30.0 of node demo-m02 is too old for Kubernetes v1.37.1; choose a version from v1.34 to v1.37
        apiserver.v=4 cannot be set for node demo-m02: only kubelet options can be set for one node; set it for the cluster: `extraConfig` next to `nodes`, or `start --extra-config`
        node demo-m02 has two mounts on /a
        port 8080:80 of node demo-m02 conflicts with 8080:30080 of node demo-m02; publish another port of the host
    ");
}

#[test]
fn the_same_container_runtime_as_always_is_fine_and_a_count_is_not_nothing() {
    assert_snapshot!(home().run(["node", "add", "--container-runtime", "cri-o"]), @r#"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: container runtime "cri-o" is not supported
    hint: leave it out: every node has containerd
    "#);
    for runtime in ["", "containerd"] {
        let Some(home) = home_with("- {name: demo, role: control-plane, state: stopped}\n", &["demo"]) else {
            return;
        };
        let ran = home.run(["-p", "demo", "node", "add", "--container-runtime", runtime]);
        assert_eq!(ran.status, 83, "{ran}");
    }
    assert_eq!(home().run(["node", "add", "--count", "0"]).status, 14);
}

#[test]
fn the_flags_have_the_names_of_both_proposals_and_of_minikube() {
    let Some(home) = home_with("- {name: demo, role: control-plane, state: stopped}\n", &["demo"]) else {
        return;
    };
    let aliases: [&[&str]; 6] = [
        &["--name", "x"],
        &["--extra-opts", "kubelet.max-pods=50"],
        &["--image", "v1.36.4"],
        &["--iso-url", "v1.36.4"],
        &["--ports", "8080:80,8081:81"],
        &["--publish", "8080:80"],
    ];
    for alias in aliases {
        // It got as far as the cluster, which is stopped.
        let ran = home.run(["-p", "demo", "worker", "create"].iter().chain(alias));
        assert_eq!(ran.status, 83, "{alias:?} {ran}");
    }
}

#[test]
fn what_another_cluster_has_is_taken() {
    let Some(ran) = refused(&["theirs", "--port", "0.0.0.0:9090:80"]) else { return };
    assert_snapshot!(ran, @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: 2 errors in the request
        node name theirs is used by cluster other; give the node another name
        host port 0.0.0.0:9090:80 is in use: cluster other; publish another port of the host
    ");
}

#[test]
fn a_port_that_somebody_listens_on_is_taken() {
    own_network();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let Some(ran) = refused(&["--port", &format!("{port}:80")]) else { return };
    assert_eq!(ran.status, 71, "{ran}");
    assert!(ran.stderr.starts_with("error[IF_PORT_IN_USE]: "), "{ran}");
}

#[test]
fn a_directory_that_does_not_exist_cannot_be_mounted() {
    let Some(ran) = refused(&["--mount", "/nowhere/at/all:/data"]) else { return };
    assert_eq!(ran.status, 35, "{ran}");
    assert!(ran.stderr.contains("hint: create /nowhere/at/all"), "{ran}");
}

#[test]
fn a_bundle_that_is_not_there_cannot_be_used() {
    let Some(ran) = refused(&["--bundle", "0123456789ab"]) else { return };
    assert_snapshot!(ran, @"
    status: 15
    ----- stdout -----
    ----- stderr -----
    error[BUNDLE_NOT_FOUND]: no bundle for [DIGEST]
    hint: list the bundles with: flotilla bundle list
    ");
}

#[test]
fn all_that_cannot_be_had_of_the_host_is_told_at_once() {
    let wishes = ["--kubernetes-version=v1.36.3", "--mount=/nowhere/at/all:/data", "--port=9090:80"];
    let Some(ran) = refused(&wishes) else { return };
    assert_snapshot!(ran, @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[BUNDLE_UNKNOWN_VERSION]: 3 errors in the request
        Kubernetes v1.36.3 is not available: choose v1.37.1, v1.36.4 or v1.35.8; build another version from its source: `flotilla bundle build --kubernetes-source PATH`
        host port 9090:80 is in use: cluster other; publish another port of the host
        cannot mount /nowhere/at/all into node demo-m03: No such file or directory (os error 2); create /nowhere/at/all, or mount something else
    ");
}

#[test]
fn the_name_is_that_of_the_node_however_it_is_given() {
    for name in [&["demo-m02"] as &[&str], &["m02"], &["--name", "m02"], &["--name=demo-m02"]] {
        let Some(ran) = refused(name) else { return };
        assert_eq!(ran.status, 14, "{ran}");
        assert!(ran.stderr.contains("the cluster already has a node demo-m02"), "{name:?} {ran}");
    }
    // Those of several are numbered.
    let Some(ran) = refused(&["theirs", "--count=2", "--memory=10"]) else { return };
    assert_snapshot!(ran, @"
    status: 23
    ----- stdout -----
    ----- stderr -----
    error[RSRC_INSUFFICIENT_REQ_MEMORY]: 2 errors in the request
        node theirs-1 has 10 MiB of memory, but a worker needs 256 MiB; use --memory 256Mi or more
        node theirs-2 has 10 MiB of memory, but a worker needs 256 MiB; use --memory 256Mi or more
    ");
}

#[test]
fn the_node_to_start_can_be_named_by_a_flag() {
    let Some(home) = home_with(NODES, &["demo", "demo-m02"]) else { return };
    for name in [&["nope"] as &[&str], &["--name", "nope"], &["m02", "--name", "nope"]] {
        let ran = home.run(["-p", "demo", "node", "start"].iter().chain(name));
        assert_eq!(ran.status, 85, "{ran}");
        assert!(ran.stderr.contains("cluster demo has no node nope"), "{name:?} {ran}");
    }
}
