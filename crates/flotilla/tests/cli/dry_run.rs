use flotilla_testkit::Ran;
use insta::assert_snapshot;

use super::{home, may_be_root};

/// The plan alone: which subnet is free, and what the host is warned of, differs from host to host.
fn plan(ran: &Ran) -> String {
    const BEFORE: &str = "creating the network ";
    let (before, after) = ran.stdout.split_once(BEFORE).unwrap_or_else(|| panic!("no network in {ran}"));
    let (subnet, after) = after.split_once('\n').expect("the line ends");
    assert!(subnet.starts_with("10.213.") && subnet.ends_with(".0/24"), "{subnet}");
    format!("{before}{BEFORE}[SUBNET]\n{after}")
}

#[test]
fn it_tells_the_plan_and_makes_nothing() {
    if !may_be_root() {
        return;
    }
    let home = home();
    let ran = home.run(["start", "--dry-run", "--force"]).success();
    assert_snapshot!(plan(&ran), @"
    steps to start cluster flotilla (Kubernetes v1.37.1):
      creating the network [SUBNET]
      booting node flotilla
      starting etcd and the API server
      setting up the cluster: DNS, proxy, controllers, scheduler
      adding cluster flotilla to your kubeconfig
      waiting for the API server, the nodes, the default service account, controllers and scheduler, kube-proxy, DNS
    ");
    assert!(home.files().is_empty(), "{:?}", home.files());
}

#[test]
fn the_cluster_is_named_before_or_after_the_command() {
    if !may_be_root() {
        return;
    }
    let home = home();
    let forms: [&[&str]; 5] = [
        &["start", "-p", "demo", "--dry-run", "--force"],
        &["-p", "demo", "start", "--dry-run", "--force"],
        &["--profile", "demo", "start", "--dry-run", "--force"],
        &["start", "--dry-run", "--force", "--profile=demo"],
        // As minikube's scripts have it.
        &["start", "-p", "demo", "--dry-run", "--force", "--alsologtostderr", "-v=5"],
    ];
    let plans = forms.map(|form| plan(&home.run(form).success()));
    assert_snapshot!(plans[0], @"
    steps to start cluster demo (Kubernetes v1.37.1):
      creating the network [SUBNET]
      booting node demo
      starting etcd and the API server
      setting up the cluster: DNS, proxy, controllers, scheduler
      adding cluster demo to your kubeconfig
      waiting for the API server, the nodes, the default service account, controllers and scheduler, kube-proxy, DNS
    ");
    for (form, other) in forms.iter().zip(&plans) {
        assert_eq!(other, &plans[0], "{form:?}");
    }
}

#[test]
fn it_follows_what_was_asked_for() {
    if !may_be_root() {
        return;
    }
    let home = home();
    let asked = [
        "start",
        "--dry-run",
        "--force",
        "--kubernetes-version=1.36.4",
        "--memory=3g",
        "--cpus=max",
        "--extra-config=kubelet.max-pods=50",
        "--feature-gates=SomeGate=true,Other=false",
        "--apiserver-names=example.org",
        "--apiserver-ips=192.168.1.7",
        "--wait=none",
    ];
    assert_snapshot!(plan(&home.run(asked).success()), @"
    steps to start cluster flotilla (Kubernetes v1.36.4):
      creating the network [SUBNET]
      booting node flotilla
      starting etcd and the API server
      setting up the cluster: DNS, proxy, controllers, scheduler
      adding cluster flotilla to your kubeconfig
    ");
}

#[test]
fn scripts_get_the_steps() {
    if !may_be_root() {
        return;
    }
    let ran = home().run(["start", "--dry-run", "--force", "-o", "json"]).success();
    let events = ran.events();
    let result = events.last().unwrap();
    assert_eq!(result["type"], "dev.flotilla.result");
    assert_eq!(result["data"]["cluster"], "flotilla");
    let steps: Vec<serde_json::Value> =
        serde_json::from_str(result["data"]["steps"].as_str().unwrap()).unwrap();
    let names: Vec<_> = steps.iter().map(|step| step["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["network", "machine/flotilla", "api/flotilla", "complete", "kubeconfig", "wait"]);
}

#[test]
fn fewer_nodes_than_control_planes_are_raised_and_that_is_told() {
    if !may_be_root() {
        return;
    }
    let home = home();
    let ran = home.run(["start", "--dry-run", "--force", "--nodes", "2", "--control-planes", "3"]).success();
    assert!(ran.stderr.contains("3 control planes need 3 nodes: --nodes 2 is raised to 3"), "{ran}");
    assert!(ran.stdout.contains("booting node flotilla-m03"), "{ran}");
}
