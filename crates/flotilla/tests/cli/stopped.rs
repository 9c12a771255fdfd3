//! Commands about a cluster that is stopped: its state is all there is of it.

use std::fs;

use flotilla_files::{FileLock, Holder};
use flotilla_linux::process::host_size;
use flotilla_testkit::Home;
use insta::assert_snapshot;

use super::{home, may_be_root};

const HEAD: &str = "\
apiVersion: flotilla.dev/v1
kind: Cluster
name: demo
kubernetesVersion: v1.37.1
nodes:
";

/// A home with a stopped cluster of one node; none for who may not look at it.
fn stopped_home() -> Option<Home> {
    home_with("- name: demo\n  role: control-plane\n  power: stopped\n", &["demo"])
}

/// A home with the cluster demo that has these nodes, and no machine of any.
pub(super) fn home_with(spec: &str, nodes: &[&str]) -> Option<Home> {
    if !may_be_root() {
        return None;
    }
    let home = home();
    put_cluster(&home, spec, nodes);
    Some(home)
}

/// Puts the state of the cluster demo into a home.
pub(super) fn put_cluster(home: &Home, spec: &str, nodes: &[&str]) {
    let directory = home.state().join("clusters/demo");
    let numbers: serde_json::Map<_, _> =
        nodes.iter().map(|node| (*node).to_owned()).zip((1..).map(Into::into)).collect();
    let state = serde_json::json!({
        "subnet": "10.213.77.0/24",
        "podSubnet": "10.254.0.0/16",
        "nodes": numbers,
        "bundle": "deef2ae31254f1becf5f184baaebb37bfde5a02e07a78a7ca7450d5ae24cf740"
    });
    fs::create_dir_all(&directory).expect("a directory in the home");
    fs::write(directory.join("cluster.yaml"), format!("{HEAD}{spec}")).expect("a file");
    fs::write(directory.join("state.json"), state.to_string()).expect("a file");
}

#[test]
fn status_says_so_in_every_form() {
    let Some(home) = stopped_home() else { return };
    assert_snapshot!(home.run(["status", "-p", "demo"]), @"
    status: 7
    ----- stdout -----
    demo
    type: Control Plane
    host: Stopped
    kubelet: Stopped
    apiserver: Stopped
    kubeconfig: Stopped
    ip: 10.213.77.2
    primary: yes

    cluster: demo, Kubernetes v1.37.1, https://10.213.77.254:6443, created [AGE] ago
    ----- stderr -----
    ");
    assert_snapshot!(home.run(["status", "-p", "demo", "-o", "json"]), @r#"
    status: 7
    ----- stdout -----
    {
      "Name": "demo",
      "Host": "Stopped",
      "Kubelet": "Stopped",
      "APIServer": "Stopped",
      "Kubeconfig": "Stopped",
      "Worker": false,
      "IP": "10.213.77.2",
      "Primary": true,
      "VirtualIP": false,
      "Taints": "",
      "Isolation": "none",
      "CertificatesExpire": null,
      "AuthoritiesExpire": null,
      "PID": null
    }
    ----- stderr -----
    "#);
    let whole = home.run(["status", "-p", "demo", "-o", "json", "--layout", "cluster"]);
    assert_eq!(whole.status, 7);
    for part in [&whole.json(), &whole.json()["Nodes"][0]] {
        assert_eq!((&part["Name"], &part["StatusCode"]), (&"demo".into(), &405.into()), "{whole}");
    }
    assert_snapshot!(home.run(["status", "-p", "demo", "--format", "{{.Name}} is {{.Host}}"]), @"
    status: 7
    ----- stdout -----
    demo is Stopped
    ----- stderr -----
    ");
    assert_snapshot!(home.run(["status", "-p", "demo", "--format", "{{.Hots}}"]), @r#"
    status: 14
    ----- stdout -----
    ----- stderr -----
    error[MK_USAGE]: unknown template field ".Hots": expected one of .APIServer, .AuthoritiesExpire, .CertificatesExpire, .Host, .IP, .Isolation, .Kubeconfig, .Kubelet, .Name, .PID, .Primary, .Taints, .VirtualIP, .Worker
    "#);
}

#[test]
fn its_address_is_known() {
    let Some(home) = stopped_home() else { return };
    assert_snapshot!(home.run(["ip", "-p", "demo"]), @"
    status: 0
    ----- stdout -----
    10.213.77.2
    ----- stderr -----
    ");
    assert_snapshot!(home.run(["ip", "-p", "demo", "-o", "json"]), @r#"
    status: 0
    ----- stdout -----
    {
      "name": "demo",
      "ip": "10.213.77.2"
    }
    ----- stderr -----
    "#);
    assert_snapshot!(home.run(["ip", "-p", "demo", "--node", "m07"]), @"
    status: 85
    ----- stdout -----
    ----- stderr -----
    error[GUEST_NODE_NOT_FOUND]: cluster demo has no node m07
    hint: existing nodes: demo
    ");
}

#[test]
fn what_needs_a_running_node_says_so() {
    let Some(home) = stopped_home() else { return };
    let commands: [&[&str]; 16] = [
        &["ssh"],
        &["logs"],
        &["kubectl"],
        &["pause"],
        &["unpause"],
        &["update-context"],
        &["cp", "file", "/tmp/file"],
        &["node", "add"],
        &["node", "ssh", "demo", "--", "true"],
        &["node", "logs", "demo"],
        &["node", "cp", ":/tmp/file", "file"],
        &["node", "cp", "demo", "file", "/tmp/file"],
        &["node", "pause", "demo"],
        &["node", "unpause", "demo"],
        &["worker", "create", "m07"],
        &["worker", "ssh"],
    ];
    for command in commands {
        let ran = home.run(["-p", "demo"].iter().chain(command));
        assert_eq!((ran.status, ran.stdout.as_str()), (83, ""), "{command:?} {ran}");
        assert_eq!(
            ran.stderr,
            "error[GUEST_NOT_RUNNING]: cluster demo is stopped\nhint: start it with `flotilla start -p demo`\n",
            "{command:?}"
        );
    }
}

#[test]
fn stopping_it_again_changes_nothing() {
    let Some(home) = stopped_home() else { return };
    assert_snapshot!(home.run(["stop", "-p", "demo"]), @"
    status: 0
    ----- stdout -----
    cluster demo is already stopped
    ----- stderr -----
    ");
    assert_snapshot!(home.run(["stop", "--all", "-o", "json"]), @r#"
    status: 0
    ----- stdout -----
    {"data":{"changed":"false","cluster":"demo"},"datacontenttype":"application/json","id":"[ID]","source":"https://flotilla.dev/","specversion":"1.0","time":"[TIME]","type":"dev.flotilla.result"}
    ----- stderr -----
    "#);
}

#[test]
fn it_cannot_become_another_cluster() {
    let Some(home) = stopped_home() else { return };
    assert_snapshot!(home.run(["start", "-p", "demo", "--force", "--dns-domain", "example.org"]), @"
    status: 11
    ----- stdout -----
    ----- stderr -----
    error[MK_CONFLICT]: cluster demo already exists with another DNS domain
    hint: delete it first with `flotilla delete -p demo`, or choose another name with -p
    ");
    let ran = home.run(["start", "-p", "demo", "--force", "--kubernetes-version", "v1.36.4", "-o", "json"]);
    let event = &ran.events()[0]["data"];
    assert_eq!((ran.status, &event["exitcode"]), (11, &"11".into()), "{ran}");
    assert_eq!(event["message"], "cluster demo already exists with another Kubernetes version");
}

#[test]
fn what_is_said_counts_also_if_it_is_what_others_have_by_default() {
    let network = "
- {name: demo, role: control-plane, power: stopped}
network: {cni: none, dnsDomain: example.org, nodePodPrefix: 25, serviceSubnet: 10.64.0.0/16}
";
    let Some(home) = home_with(network, &["demo"]) else { return };
    let start = |flag: &[&str]| home.run(["start", "-p", "demo", "--dry-run", "--force"].iter().chain(flag));
    drop(start(&[]).success());
    for (flag, default, own, what) in [
        ("--cni", "flotilla", "none", "pod network"),
        ("--cni-plugin", "flotilla", "none", "pod network"),
        ("--dns-domain", "cluster.local", "example.org", "DNS domain"),
        ("--node-pod-prefix", "24", "25", "pod prefix"),
        ("--service-cluster-ip-range", "10.96.0.0/12", "10.64.0.0/16", "service range"),
    ] {
        drop(start(&[flag, own]).success());
        let ran = start(&[flag, default]);
        assert_eq!(ran.status, 11, "{flag} {ran}");
        assert!(ran.stderr.contains(&format!("with another {what}\n")), "{flag} {ran}");
    }
}

#[test]
fn a_dry_run_leaves_it_stopped() {
    let Some(home) = stopped_home() else { return };
    let before = home.files();
    assert_snapshot!(home.run(["start", "-p", "demo", "--dry-run", "--force", "--wait", "none"]), @"
    status: 0
    ----- stdout -----
    steps to start cluster demo (Kubernetes v1.37.1):
      creating the network 10.213.77.0/24
      booting node demo
      starting etcd and the API server
      setting up the cluster: DNS, proxy, controllers, scheduler
      adding cluster demo to your kubeconfig
    ----- stderr -----
    ");
    assert_eq!(home.files(), before);
    assert_eq!(home.run(["status", "-p", "demo"]).status, 7);
}

#[test]
fn a_new_size_is_for_nodes_that_have_the_clusters() {
    let nodes = "
- {name: demo, role: control-plane, memory: 2g}
- {name: demo-m02, role: worker, memory: 2g}
- {name: big, role: worker, memory: 4g, cpus: 1}
nodeDefaults: {memory: 2g}
";
    let Some(home) = home_with(nodes, &["demo", "demo-m02", "big"]) else { return };
    let start =
        |size: [&str; 2]| home.run(["start", "-p", "demo", "--dry-run", "--force"].iter().chain(&size));
    let reported = start(["--memory", "3g"]).success().stderr;
    assert_eq!(reported, "demo, demo-m02 change their size; the other nodes have their own\n");
    let reported = start(["--cpus", "1"]).success().stderr;
    assert_eq!(reported, "demo, demo-m02 change their size; the other nodes have their own\n");
    // As when a start that failed is repeated.
    let all_have_it = nodes.replace("memory: 4g, cpus: 1", "memory: 2g");
    let Some(home) = home_with(&all_have_it, &["demo", "demo-m02", "big"]) else { return };
    let reported =
        home.run(["start", "-p", "demo", "--dry-run", "--force", "--memory", "2g"]).success().stderr;
    assert_eq!(reported, "");
    let all_own = nodes.replace("nodeDefaults: {memory: 2g}", "");
    let Some(home) = home_with(&all_own, &["demo", "demo-m02", "big"]) else { return };
    let reported =
        home.run(["start", "-p", "demo", "--dry-run", "--force", "--memory", "3g"]).success().stderr;
    assert_eq!(
        reported,
        "no node changes its size: use `flotilla node update -p demo` for nodes with their own size\n"
    );
}

#[test]
fn a_new_disk_is_a_size_as_well() {
    let nodes = "
- {name: demo, role: control-plane, disk: 20g}
- {name: demo-m02, role: worker}
";
    let Some(home) = home_with(nodes, &["demo", "demo-m02"]) else { return };
    let reported =
        home.run(["start", "-p", "demo", "--dry-run", "--force", "--disk-size", "10g"]).success().stderr;
    assert_eq!(reported, "demo-m02 changes its size; the other nodes have their own\n");
}

#[test]
fn what_the_nodes_want_together_is_told_if_it_is_much() {
    let memory = host_size().memory / (1 << 20);
    let nodes = format!(
        "\n- {{name: demo, role: control-plane, memory: {memory}m, state: stopped}}\n\
         - {{name: demo-m02, role: worker, memory: 1g, state: stopped}}\n"
    );
    let Some(home) = home_with(&nodes, &["demo", "demo-m02"]) else { return };
    let wish = home.run(["-p", "demo", "node", "update", "m02", "--memory", &format!("{}m", memory + 1024)]);
    assert_eq!(wish.status, 0, "{wish}");
    let reported = wish.stderr.contains("warning: node demo-m02 has ")
        && wish.stderr.contains(" GiB of memory, more than the host's ");
    assert!(reported, "{wish}");
}

#[test]
fn while_another_command_changes_it_one_waits_or_fails() {
    let Some(home) = stopped_home() else { return };
    let holder = Holder { pid: 4711, what: "flotilla start".into(), since: "10:00:00 UTC".into() };
    let path = home.state().join("clusters/demo/lock");
    let lock = FileLock::acquire(&path, &holder, |_| panic!("no other process holds it")).unwrap();
    assert_snapshot!(home.run(["stop", "-p", "demo", "--no-wait-lock"]), @"
    status: 11
    ----- stdout -----
    ----- stderr -----
    error[CLUSTER_BUSY]: another command is changing cluster demo: process 4711, `flotilla start`, since [TIME]
    hint: without --no-wait-lock this command waits for the other one
    ");
    drop(home.run(["ip", "-p", "demo"]).success());

    let interrupted = home.start(["delete", "-p", "demo"]);
    interrupted.wait_for_stderr("waiting for process 4711");
    interrupted.interrupt();
    assert_snapshot!(interrupted.wait(), @"
    status: 130
    ----- stdout -----
    ----- stderr -----
    waiting for process 4711: flotilla start (since [TIME])
    error[INTERRUPTED]: cancelled while waiting for [HOME]/flotilla/clusters/demo/lock
    hint: run the command again to resume; `flotilla status -p demo` shows what runs
    ");

    let waiting = home.start(["stop", "-p", "demo"]);
    waiting.wait_for_stderr("waiting for process 4711");
    drop(lock);
    assert_eq!(waiting.wait().success().stdout, "cluster demo is already stopped\n");
}

#[test]
fn deleting_it_leaves_nothing() {
    let Some(home) = stopped_home() else { return };
    assert_eq!(home.run(["delete", "-p", "demo"]).success().stdout, "deleted cluster demo\n");
    assert!(home.files().is_empty(), "{:?}", home.files());
}
