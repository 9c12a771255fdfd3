//! A cluster's file: what it would make and change, and everything that is wrong with it. Nothing here is made.

use std::fs;
use std::net::TcpListener;

use flotilla_testkit::{Home, Ran, own_network};
use insta::assert_snapshot;

use super::{home, may_be_root};

const HEAD: &str = "apiVersion: flotilla.dev/v1\nkind: Cluster\nname: demo\n";

/// As `start --nodes 2` keeps it, stopped.
const KNOWN: &str = "\
apiVersion: flotilla.dev/v1
kind: Cluster
name: demo
kubernetesVersion: v1.37.1
nodes:
- {name: demo, role: control-plane, power: stopped}
- {name: demo-m02, role: worker, memory: 1g, power: stopped}
";
const STATE: &str = r#"{
    "subnet": "10.213.77.0/24",
    "podSubnet": "10.254.0.0/16",
    "nodes": {"demo": 1, "demo-m02": 2},
    "bundle": "deef2ae31254f1becf5f184baaebb37bfde5a02e07a78a7ca7450d5ae24cf740"
}"#;

/// A home with this in `cluster.yaml`, below the lines that every file has.
fn home_with(rest: &str) -> Home {
    let home = home();
    write(&home, rest);
    home
}

fn write(home: &Home, rest: &str) {
    fs::write(home.path().join("cluster.yaml"), format!("{HEAD}{rest}")).expect("a file in the home");
}

/// The same for a cluster that exists and is stopped; none if this user may not read it.
fn home_with_cluster(rest: &str) -> Option<Home> {
    home_with_known(KNOWN, rest)
}

fn home_with_known(known: &str, rest: &str) -> Option<Home> {
    if !may_be_root() {
        return None;
    }
    let home = home_with(rest);
    let directory = home.state().join("clusters/demo");
    fs::create_dir_all(&directory).expect("a directory in the home");
    fs::write(directory.join("cluster.yaml"), known).expect("a file in the home");
    fs::write(directory.join("state.json"), STATE).expect("a file in the home");
    Some(home)
}

#[test]
fn everything_wrong_is_told_by_every_command_that_reads_a_file() {
    let home = home_with("nodes:\n- memroy: 2g\n- name: My_Node\n");
    let ran = home.run(["diff", "-f", "cluster.yaml"]);
    assert_snapshot!(ran, @r#"
    status: 18
    ----- stdout -----
    ----- stderr -----
    error[MK_CONFIG]: 2 errors in the request
        cluster.yaml:5:3 (`- memroy: 2g`): unknown key "memroy": expected one of name, count, role, state, driver, isolation, cpus, memory, disk, labels, taints, kubernetesVersion, bundle, kubelet, extraConfig, featureGates, mounts, ports; did you mean `memory`?
        cluster.yaml:6:9 (`- name: My_Node`): node name "My_Node" contains 'M': only a-z, 0-9 and '-' are allowed; try `my-node`
    "#);
    for command in ["start", "apply"] {
        let other = home.run([command, "-f", "cluster.yaml"]);
        assert_eq!(other.to_string(), ran.to_string(), "{command}");
    }
    write(&home, "nodes: [{memory: 100m}]");
    assert_snapshot!(home.run(["start", "-f", "cluster.yaml"]), @"
    status: 23
    ----- stdout -----
    ----- stderr -----
    error[RSRC_INSUFFICIENT_REQ_MEMORY]: cluster.yaml:4:18 (`nodes: [{memory: 100m}]`): node demo has 100 MiB of memory, but a control plane needs 1 GiB; use memory: 1Gi or more
    ");
    assert_eq!(home.files(), ["cluster.yaml"]);
}

#[test]
fn a_file_that_cannot_be_read_is_told() {
    let home = home();
    assert_snapshot!(home.run(["apply", "-f", "nope.yaml"]), @"
    status: 18
    ----- stdout -----
    ----- stderr -----
    error[MK_CONFIG]: cannot read nope.yaml
      caused by: No such file or directory (os error 2)
    ");
    fs::write(home.path().join("long.yaml"), "#".repeat((1 << 20) + 1)).unwrap();
    assert_snapshot!(home.run(["diff", "-f", "long.yaml"]), @"
    status: 18
    ----- stdout -----
    ----- stderr -----
    error[MK_CONFIG]: long.yaml is longer than 1 MiB
    ");
    // Standard input is empty here.
    let ran = home.run(["diff", "-f", "-"]);
    assert_eq!(ran.status, 18);
    assert!(ran.stderr.contains("standard input:1:1"), "{ran}");
}

#[test]
fn the_name_is_in_the_file() {
    let home = home_with("");
    for command in ["start", "apply", "diff"] {
        let ran = home.run([command, "-f", "cluster.yaml", "-p", "other"]);
        assert_eq!(
            (ran.status, ran.stderr.as_str()),
            (
                14,
                "error[MK_USAGE]: the file describes cluster demo, but -p names other\n\
                 hint: leave out -p: the name is in the file\n"
            ),
            "{command}"
        );
    }
    let ran = home.run(["start", "-f", "cluster.yaml", "--nodes", "3"]);
    assert_eq!(ran.status, 14, "{ran}");
}

#[test]
fn a_new_cluster_is_all_additions() {
    if !may_be_root() {
        return;
    }
    let home = home_with("nodes: [{count: 2}, {name: big, memory: 1g}]");
    assert_snapshot!(home.run(["diff", "-f", "cluster.yaml", "-p", "demo"]), @"
    status: 1
    ----- stdout -----
    + node demo: control plane
    + node demo-m02: worker
    + node big: worker, memory 1Gi
    ----- stderr -----
    ");
    let (dry, ran) =
        (home.run(["apply", "-f", "cluster.yaml", "--dry-run"]), home.run(["apply", "-f", "cluster.yaml"]));
    assert_eq!(dry.status, 0, "{dry}");
    assert_eq!(ran.stdout, dry.stdout);
    assert_eq!(
        (ran.status, ran.stderr.as_str()),
        (
            14,
            "error[MK_USAGE]: cannot prompt: no terminal\n\
             hint: use --yes to continue without a prompt, or --dry-run to see the changes\n"
        )
    );
    let steps = home.run(["start", "-f", "cluster.yaml", "--dry-run", "--force"]).success();
    for step in ["booting node demo\n", "joining node demo-m02\n", "joining node big\n"] {
        assert!(steps.stdout.contains(step), "{steps}");
    }
    write(&home, "nodes: [{state: stopped}]");
    assert_eq!(home.run(["start", "-f", "cluster.yaml", "--force"]).status, 14);
    assert_eq!(home.files(), ["cluster.yaml"]);
}

#[test]
fn changes_are_shown_and_nothing_is_touched() {
    let rest = "nodes: [{cpus: 1}, {name: demo-m02, memory: 1g}, {name: new}]";
    let Some(home) = home_with_cluster(rest) else { return };
    let before = home.files();
    assert_snapshot!(home.run(["diff", "-f", "cluster.yaml"]), @"
    status: 1
    ----- stdout -----
    ~ node demo: cpus no-limit -> 1
    ~ node demo: start
    ~ node demo-m02: start
    + node new: worker
    ----- stderr -----
    ");
    assert_snapshot!(home.run(["diff", "-f", "cluster.yaml", "-o", "json"]), @r#"
    status: 1
    ----- stdout -----
    {
      "changes": [
        {
          "action": "update",
          "field": "cpus",
          "from": "no-limit",
          "node": "demo",
          "possible": true,
          "restart": false,
          "text": "~ node demo: cpus no-limit -> 1",
          "to": "1"
        },
        {
          "action": "start",
          "node": "demo",
          "possible": true,
          "text": "~ node demo: start"
        },
        {
          "action": "start",
          "node": "demo-m02",
          "possible": true,
          "text": "~ node demo-m02: start"
        },
        {
          "action": "add",
          "node": "new",
          "possible": true,
          "role": "worker",
          "settings": {},
          "text": "+ node new: worker"
        }
      ],
      "cluster": "demo"
    }
    ----- stderr -----
    "#);
    let dry = home.run(["apply", "-f", "cluster.yaml", "--dry-run"]).success();
    assert_eq!(dry.stdout, home.run(["diff", "-f", "cluster.yaml"]).stdout);
    assert_snapshot!(home.run(["start", "-f", "cluster.yaml", "--force"]), @"
    status: 11
    ----- stdout -----
    ----- stderr -----
    error[MK_CONFLICT]: cluster demo already exists and differs from the file
        ~ node demo: cpus no-limit -> 1
        + node new: worker
    hint: change it with `flotilla apply -f FILE`
    ");
    assert_eq!(home.files(), before);
}

#[test]
fn what_cannot_change_is_refused_before_anything_is_touched() {
    let rest = "kubernetesVersion: v1.36.4\nnetwork: {subnet: 10.213.78.0/24}\nnodes: [{name: other}]";
    let Some(home) = home_with_cluster(rest) else { return };
    assert_snapshot!(home.run(["apply", "-f", "cluster.yaml", "--yes"]), @"
    status: 11
    ----- stdout -----
    ----- stderr -----
    error[MK_CONFLICT]: cannot apply these changes to cluster demo (nothing was changed)
        ~ kubernetesVersion v1.37.1 -> v1.36.4 (fixed for the lifetime of the cluster)
        ~ network.subnet 10.213.77.0/24 -> 10.213.78.0/24 (fixed for the lifetime of the cluster)
    hint: delete it first with `flotilla delete -p demo`, or change `name` in the file
    ");
    let kept = fs::read_to_string(home.state().join("clusters/demo/cluster.yaml")).unwrap();
    assert_eq!(kept, KNOWN);
}

#[test]
fn what_a_change_needs_of_the_host_is_settled_before_a_node_is_touched() {
    // They should run, so a new size would restart one after the other.
    let known = KNOWN.replace(", power: stopped", "").replace("role: worker", "role: control-plane");
    let rest = "nodes: [{cpus: 1}, {role: control-plane, memory: 1g}, {name: new, bundle: '0123456789ab'}]";
    let Some(home) = home_with_known(&known, rest) else { return };
    for flag in ["--dry-run", "--yes"] {
        let ran = home.run(["apply", "-f", "cluster.yaml", flag]);
        assert_eq!((ran.status, ran.stdout.as_str()), (15, ""), "{ran}");
        assert!(ran.stderr.contains("no bundle for"), "{ran}");
    }
    assert_eq!(fs::read_to_string(home.state().join("clusters/demo/cluster.yaml")).unwrap(), known);
}

#[test]
fn who_restarts_one_of_two_control_planes_is_told_what_that_means() {
    let known = KNOWN.replace(", power: stopped", "").replace("role: worker", "role: control-plane");
    let Some(home) = home_with_known(&known, "nodes: [{}, {role: control-plane, memory: 2g}]") else {
        return;
    };
    assert_snapshot!(home.run(["apply", "-f", "cluster.yaml", "--dry-run"]), @"
    status: 0
    ----- stdout -----
    ~ node demo-m02: memory 1Gi -> 2Gi (restarts the node)
    ----- stderr -----
    the API does not answer while node demo-m02 restarts: one of two control planes has no quorum
    ");
}

#[test]
fn a_control_plane_that_nobody_can_let_go_stays_also_in_a_dry_run() {
    let known = KNOWN.replace("role: worker", "role: control-plane");
    let Some(home) = home_with_known(&known, "nodes: [{state: stopped}]") else { return };
    for flag in ["--dry-run", "--yes"] {
        let ran = home.run(["apply", "-f", "cluster.yaml", flag]);
        assert_eq!((ran.status, ran.stdout.as_str()), (83, ""), "{ran}");
    }
    assert_eq!(fs::read_to_string(home.state().join("clusters/demo/cluster.yaml")).unwrap(), known);
}

#[test]
fn an_exported_cluster_is_as_its_file_says() {
    // The ranges that were chosen may be named.
    let chosen = "network: {subnet: 10.213.77.0/24, podSubnet: 10.254.0.0/16}";
    let nodes = "nodes: [{state: stopped}, {memory: 1g, state: stopped}]";
    let Some(home) = home_with_cluster(&format!("{chosen}\n{nodes}")) else { return };
    drop(home.run(["diff", "-f", "cluster.yaml"]).success());
    let exported = home.run(["export", "-p", "demo"]).success();
    assert_snapshot!(exported, @"
    status: 0
    ----- stdout -----
    apiVersion: flotilla.dev/v1
    kind: Cluster
    name: demo
    kubernetesVersion: v1.37.1
    network:
      nodePodPrefix: 24
      serviceSubnet: 10.96.0.0/12
      dnsDomain: cluster.local
      cni: flotilla
    nodes:
    - name: demo
      role: control-plane
      cpus: no-limit
      memory: no-limit
      state: stopped
    - name: demo-m02
      role: worker
      cpus: no-limit
      memory: 1Gi
      state: stopped
    ----- stderr -----
    ");
    fs::write(home.path().join("exported.yaml"), &exported.stdout).unwrap();
    assert_eq!(home.run(["diff", "-f", "exported.yaml"]).success().stdout, "");
    assert_snapshot!(home.run(["apply", "-f", "exported.yaml"]), @"
    status: 0
    ----- stdout -----
    cluster demo matches exported.yaml: nothing to do
    ----- stderr -----
    ");
}

#[test]
fn a_cluster_without_its_control_plane_is_exported_as_one_that_can_be() {
    let known = KNOWN.replace("memory: 1g, power: stopped", "memory: 1g");
    let Some(home) = home_with_known(&known, "") else { return };
    let exported = home.run(["export", "-p", "demo"]).success();
    assert_snapshot!(exported.stderr, @"
    no control plane is to run, but other nodes are: the file lets the control planes run
    hint: `flotilla start -p demo` brings them back
    ");
    fs::write(home.path().join("exported.yaml"), &exported.stdout).unwrap();
    assert_eq!(home.run(["diff", "-f", "exported.yaml"]).stdout, "~ node demo: start\n");
}

#[test]
fn what_later_nodes_begin_with_is_exported() {
    let defaults = "nodeDefaults: {memory: 1g, labels: {a: b}}\nnodes:";
    let known = KNOWN.replace("nodes:", defaults);
    let Some(home) = home_with_known(&known, "") else { return };
    let exported = home.run(["export", "-p", "demo"]).success();
    // Not what a node that exists has not.
    assert!(exported.stdout.contains("\nnodeDefaults:\n  memory: 1Gi\nnodes:\n"), "{exported}");
    fs::write(home.path().join("exported.yaml"), &exported.stdout).unwrap();
    assert_eq!(home.run(["diff", "-f", "exported.yaml"]).success().stdout, "");
}

#[test]
fn what_a_new_cluster_cannot_have_of_the_host_is_told_before_anything_is_built() {
    let Some(home) = home_with_known(&KNOWN.replace("demo", "other"), "") else { return };
    let clusters = home.state().join("clusters");
    fs::rename(clusters.join("demo"), clusters.join("other")).unwrap();
    let state = STATE.replace("demo", "other");
    fs::write(clusters.join("other/state.json"), state).unwrap();
    let before = home.files();
    let commands: [&[&str]; 4] = [
        &["diff", "-f", "cluster.yaml"],
        &["apply", "-f", "cluster.yaml", "--dry-run"],
        &["start", "-f", "cluster.yaml", "--force"],
        &["start", "-f", "cluster.yaml", "--force", "--dry-run"],
    ];
    let refused = |rest: &str, status: u8, reported: &str| {
        write(&home, rest);
        for command in commands {
            let ran = home.run(command);
            assert_eq!(ran.status, i32::from(status), "{command:?} {ran}");
            assert!(ran.stderr.contains(reported), "{command:?} {ran}");
        }
    };
    let place = "cluster.yaml:4:20 (`nodes: [{}, {name: other}]`)";
    refused("nodes: [{}, {name: other}]", 18, &format!("{place}: node name other is used by cluster other"));
    let place = "cluster.yaml:4:19 (`network: {subnet: 10.213.77.0/24}`)";
    refused(
        "network: {subnet: 10.213.77.0/24}",
        18,
        &format!("{place}: the node subnet 10.213.77.0/24 overlaps"),
    );
    refused("nodes: [{mounts: ['/nowhere/at/all:/data']}]", 35, "/nowhere/at/all");
    refused("nodes: [{}, {bundle: '0123456789ab'}]", 15, "no bundle for");
    refused("nodes: [{}, {kubernetesVersion: v1.36.3}]", 14, "cluster.yaml:4:33 (`nodes");
    refused("kubernetesVersion: v1.36.3", 14, "cluster.yaml:4:20 (`kuber");
    refused("nodes:\n- count: 300", 18, "cluster.yaml:5:3 (`- count: 300`): 300 nodes are too many");
    assert_eq!(home.files(), before);
}

#[test]
fn what_the_host_has_against_a_file_is_told_all_at_once() {
    if !may_be_root() {
        return;
    }
    own_network();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let rest = format!(
        "\
nodes:
- mounts:
  - /usr:/a
  - /nowhere/at/all:/b
  ports: ['{port}:80']
- {{count: 2, kubernetesVersion: v1.36.3}}
- {{name: own, bundle: beef}}
"
    );
    let home = home_with(&rest);
    let reported = |ran: Ran| ran.to_string().replace(&port.to_string(), "[PORT]");
    let ran = reported(home.run(["diff", "-f", "cluster.yaml"]));
    assert_snapshot!(ran, @"
    status: 35
    ----- stdout -----
    ----- stderr -----
    error[HOST_NO_MOUNT]: 4 errors in the request
        cluster.yaml:7:5 (`- /nowhere/at/all:/b`): cannot mount /nowhere/at/all into node demo: No such file or directory (os error 2); create /nowhere/at/all, or mount something else
        cluster.yaml:8:11 (`ports: ['[PORT]:80']`): cannot publish port [PORT]/tcp of 127.0.0.1 for node demo: another program listens on it; choose another port, or see which program it is with `ss -lnp 'sport = :[PORT]'`
        cluster.yaml:9:33 (`- {count: 2, kubernetesVersion: v1.36.3}`): Kubernetes v1.36.3 is not available: choose v1.37.1, v1.36.4 or v1.35.8; build another version from its source: `flotilla bundle build --kubernetes-source PATH`
        cluster.yaml:10:23 (`- {name: own, bundle: beef}`): no bundle for beef; list the bundles with: flotilla bundle list
    ");
    // After what it says of the host in general.
    let start = reported(home.run(["start", "-f", "cluster.yaml", "--force", "--dry-run"]));
    let (_, errors) = ran.split_once("error[").unwrap();
    assert!(start.ends_with(errors), "{start}");
    assert_eq!(home.files(), ["cluster.yaml"]);
}

#[test]
fn new_nodes_of_a_cluster_that_is_there_are_looked_at_as_well() {
    let rest = "\
nodes:
- {}
- {name: demo-m02, memory: 1g}
- {name: old, kubernetesVersion: v1.36.3}
- {name: own, bundle: beef}
";
    let Some(home) = home_with_cluster(rest) else { return };
    let ran = home.run(["diff", "-f", "cluster.yaml"]);
    assert_snapshot!(ran, @"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[BUNDLE_UNKNOWN_VERSION]: 2 errors in the request
        cluster.yaml:7:34 (`- {name: old, kubernetesVersion: v1.36.3}`): Kubernetes v1.36.3 is not available: choose v1.37.1, v1.36.4 or v1.35.8; build another version from its source: `flotilla bundle build --kubernetes-source PATH`
        cluster.yaml:8:23 (`- {name: own, bundle: beef}`): no bundle for beef; list the bundles with: flotilla bundle list
    ");
    for command in
        [&["apply", "-f", "cluster.yaml", "--yes"] as &[&str], &["apply", "-f", "cluster.yaml", "--dry-run"]]
    {
        assert_eq!(home.run(command).to_string(), ran.to_string(), "{command:?}");
    }
    let kept = fs::read_to_string(home.state().join("clusters/demo/cluster.yaml")).unwrap();
    assert_eq!(kept, KNOWN);
}

#[test]
fn a_short_name_in_a_file_is_the_node_that_answers_to_it() {
    let rest = "nodes: [{state: stopped}, {name: m02, memory: 1g, state: stopped}]";
    let Some(home) = home_with_cluster(rest) else { return };
    assert_eq!(home.run(["diff", "-f", "cluster.yaml"]).success().stdout, "");
}

#[test]
fn what_a_node_has_of_its_own_is_exported_and_only_some_of_it_can_change() {
    let own = "\
kubernetesVersion: v1.36.4, extraConfig: [kubelet.v=4], featureGates: {A: true}, kubelet: {maxPods: 50}, \
mounts: ['/usr/share:/mnt:ro'], ports: ['8080:80'], labels: {a: b}, taints: ['c:NoSchedule'], power: stopped";
    let known = KNOWN.replace("memory: 1g, power: stopped", own);
    let nodes = "\
kubernetesVersion: v1.35.0, featureGates: {A: false}, kubelet: {maxPods: 51}, mounts: ['/usr/share:/mnt'], \
ports: ['8080:80', '8081:80'], labels: {a: c}, state: stopped";
    let rest = format!("nodes: [{{state: stopped}}, {{{nodes}}}]");
    let Some(home) = home_with_known(&known, &rest) else { return };
    let exported = home.run(["export", "-p", "demo"]).success();
    fs::write(home.path().join("exported.yaml"), &exported.stdout).unwrap();
    assert_eq!(home.run(["diff", "-f", "exported.yaml"]).success().stdout, "");
    assert_snapshot!(home.run(["diff", "-f", "cluster.yaml"]), @"
    status: 1
    ----- stdout -----
    ~ node demo-m02: labels a=b -> a=c
    ~ node demo-m02: taints c:NoSchedule -> (none)
    ~ node demo-m02: kubernetesVersion v1.36.4 -> v1.35.0 (fixed for the lifetime of a node: delete it and add it again)
    ~ node demo-m02: extraConfig kubelet.v=4 -> (none) (fixed for the lifetime of a node: delete it and add it again)
    ~ node demo-m02: featureGates A=true -> A=false (fixed for the lifetime of a node: delete it and add it again)
    ~ node demo-m02: kubelet maxPods=50 -> maxPods=51 (fixed for the lifetime of a node: delete it and add it again)
    ~ node demo-m02: mounts /usr/share:/mnt:ro -> /usr/share:/mnt
    ~ node demo-m02: ports 8080:80 -> 8080:80,8081:80
    ----- stderr -----
    ");
    let refused = home.run(["apply", "-f", "cluster.yaml", "--yes"]);
    assert_eq!((refused.status, refused.stderr.matches("delete it and add it again").count()), (11, 4));
    assert!(
        refused
            .stderr
            .ends_with("with `flotilla node delete demo-m02 -p demo`, then run the command again to add them with the new settings\n"),
        "{refused}"
    );
}

#[test]
fn a_cluster_that_is_not_there_cannot_be_exported() {
    if may_be_root() {
        assert_eq!(home().run(["export", "-p", "demo"]).status, 85);
    }
}

#[test]
fn the_schema_is_json() {
    let schema = home().run(["schema"]).success().json();
    assert_eq!(schema["properties"]["kind"]["const"], "Cluster");
}
