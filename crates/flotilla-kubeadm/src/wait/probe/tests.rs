use flotilla_core::cluster::Cluster;
use flotilla_testkit::fake::{self, FakeMachine};
use serde_json::{Value, json};

use super::*;
use crate::fake_api::FakeApi;
use crate::patience::Cancelled;
use crate::wait::{dns, proxy};

const APPS: &str = "/apis/apps/v1/namespaces/kube-system";
const PODS: &str = "/api/v1/namespaces/kube-system/pods";
const SERVICE: &str = "/api/v1/namespaces/kube-system/services/kube-dns";
const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices/kube-dns-x";

/// As kube-proxy v1.37 says it. The families of addresses are written one by one.
const SYNCED: &str = "kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"} 1
kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family=\"IPv6\"} 1";
const NOT_SYNCED: &str = "kubeproxy_sync_proxy_rules_duration_seconds_sum{ip_family=\"IPv6\"} 0.1
kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family=\"IPv6\"} 1";

/// As kube-proxy of an older version says it.
const WITHOUT_FAMILIES: &str = "kubeproxy_sync_proxy_rules_duration_seconds_count 2";
const WITHOUT_FAMILIES_YET: &str = "kubeproxy_sync_proxy_rules_duration_seconds_count 0";

fn patience() -> Patience {
    Patience::new("the end of a test", &Cancelled::new(Arc::new(|| false)))
}

fn cluster(extra: &[&str]) -> Cluster {
    let mut cluster = fake::cluster("10.213.0.0/24");
    cluster.spec.extra_config = extra.iter().map(|option| option.parse().unwrap()).collect();
    cluster
}

/// Machines with these names, and what was asked in them afterwards.
fn machine(name: &str, script: &[(&'static str, fake::Answer)]) -> FakeMachine {
    FakeMachine::named(name.parse().unwrap(), script)
}

fn all(machines: &[FakeMachine]) -> Vec<Arc<dyn Machine>> {
    machines.iter().map(|machine| Arc::new(machine.clone()) as Arc<dyn Machine>).collect()
}

#[tokio::test(start_paused = true)]
async fn each_node_is_asked_until_it_has_answered_and_not_again() {
    let machines = [
        machine("demo", &[("curl", Ok("okok"))]),
        machine("demo-m02", &[("curl", Err("refused")), ("curl", Ok("ok")), ("curl", Ok("okok"))]),
    ];
    let probe = Probe::of_controllers(&cluster(&[]).spec);
    probe.answers_in_all(&all(&machines), &patience()).await.unwrap();
    assert_eq!(machines.each_ref().map(|machine| machine.log().len()), [1, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_never_answers_is_named_with_its_last_words() {
    let refused = vec![("curl", Err("curl: (7) Failed to connect")); 2000];
    let machines = all(&[machine("demo", &refused)]);
    let error = Probe::of_kube_proxy().answers_in_all(&machines, &patience()).await.unwrap_err();
    let BootstrapError::TimedOut { seen, .. } = error else { panic!("{error}") };
    assert_eq!(seen, ["kube-proxy on node demo: curl: (7) Failed to connect"]);
}

#[test]
fn controllers_are_asked_where_their_flags_let_them_listen() {
    let urls = |extra: &[&str]| {
        let words = Probe::of_controllers(&cluster(extra).spec).cmd.argv;
        words.into_iter().filter(|word| word.starts_with("https")).collect::<Vec<_>>()
    };
    assert_eq!(urls(&[]), ["https://127.0.0.1:10257/healthz", "https://127.0.0.1:10259/healthz"]);
    let extra = [
        "controller-manager.bind-address=0.0.0.0",
        "scheduler.bind-address=10.213.0.2",
        "scheduler.secure-port=1",
        "scheduler.secure-port=2",
    ];
    assert_eq!(urls(&extra), ["https://127.0.0.1:10257/healthz", "https://10.213.0.2:2/healthz"]);
}

fn kube_proxy(selector: &Value) -> Value {
    json!({
        "metadata": {"name": "kube-proxy"},
        "spec": {"selector": {}, "template": {"spec": {"containers": [], "nodeSelector": selector}}},
    })
}

fn pod_on(node: &str, phase: &str) -> Value {
    json!({
        "metadata": {"name": format!("kube-proxy-{node}"), "labels": {"k8s-app": "kube-proxy"}},
        "spec": {"nodeName": node, "containers": []},
        "status": {"phase": phase},
    })
}

#[test]
fn a_slow_node_is_asked_less_often() {
    assert_eq!(pause_after(Duration::from_millis(20)), PAUSE);
    assert_eq!(pause_after(Duration::from_secs(4)), Duration::from_secs(12));
}

#[test]
fn kube_proxy_has_rules_once_it_has_written_those_that_services_need() {
    let said = [SYNCED, NOT_SYNCED, WITHOUT_FAMILIES, WITHOUT_FAMILIES_YET, ""];
    assert_eq!(said.map(has_rules), [true, false, true, false, false]);
}

#[tokio::test(start_paused = true)]
async fn kube_proxy_has_written_its_rules_on_every_node() {
    let api = FakeApi::new(&[
        (&format!("{APPS}/daemonsets/kube-proxy"), kube_proxy(&json!({"kubernetes.io/os": "linux"}))),
        (&format!("{PODS}/kube-proxy-demo"), pod_on("demo", "Running")),
        (&format!("{PODS}/kube-proxy-demo-m02"), pod_on("demo-m02", "Pending")),
    ]);
    let running = json!({"status": {"phase": "Running"}});
    api.change_when_watched(&format!("{PODS}/kube-proxy-demo-m02"), running);
    let machines = [
        machine("demo", &[("curl", Ok(SYNCED))]),
        machine("demo-m02", &[("curl", Ok(NOT_SYNCED)), ("curl", Ok(SYNCED))]),
    ];
    proxy::wait(&api.client(), &cluster(&[]), &all(&machines), &patience()).await.unwrap();
    assert_eq!(machines.each_ref().map(|machine| machine.log().len()), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_kube_proxy_that_the_user_has_replaced_is_not_waited_for() {
    let set = format!("{APPS}/daemonsets/kube-proxy");
    let nowhere = FakeApi::new(&[(&set, kube_proxy(&json!({"non-calico": "true"})))]);
    for api in [FakeApi::default(), nowhere] {
        let machine = machine("demo", &[]);
        let machines = all(std::slice::from_ref(&machine));
        proxy::wait(&api.client(), &cluster(&[]), &machines, &patience()).await.unwrap();
        assert!(machine.log().is_empty());
    }
}

fn with_dns(replicas: i32, ready: bool) -> FakeApi {
    let spec = json!({"replicas": replicas, "selector": {}, "template": {}});
    FakeApi::new(&[
        (SERVICE, json!({"metadata": {"name": "kube-dns"}, "spec": {"clusterIP": "10.96.0.10"}})),
        (&format!("{APPS}/deployments/coredns"), json!({"metadata": {"name": "coredns"}, "spec": spec})),
        (SLICE, slice(ready)),
    ])
}

fn slice(ready: bool) -> Value {
    json!({
        "metadata": {"name": "kube-dns-x", "labels": {"kubernetes.io/service-name": "kube-dns"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.244.0.2"], "conditions": {"ready": ready}}],
    })
}

#[tokio::test(start_paused = true)]
async fn dns_answers_by_its_pods_and_then_by_the_service_on_every_node() {
    let api = with_dns(1, true);
    let machines = [machine("demo", &[("nslookup", Err("connection refused"))]), machine("demo-m02", &[])];
    dns::wait(&api.client(), &cluster(&[]), &all(&machines), &patience()).await.unwrap();
    let asked = machines.each_ref().map(|machine| {
        let servers = machine.log().into_iter().map(|asked| asked.rsplit(' ').next().unwrap().to_owned());
        servers.collect::<Vec<_>>().join(" ")
    });
    assert_eq!(asked, ["10.244.0.2 10.244.0.2 10.96.0.10", "10.96.0.10"]);
    assert!(machines[1].log()[0].contains(" kubernetes.default.svc.cluster.local "));
}

#[tokio::test(start_paused = true)]
async fn a_kube_proxy_that_does_not_lead_to_dns_holds_nobody_up_for_long() {
    let refused = vec![("10.96.0.10", Err("Operation not permitted")); 2000];
    let machines = all(&[machine("demo", &refused)]);
    let start = tokio::time::Instant::now();
    dns::wait(&with_dns(1, true).client(), &cluster(&[]), &machines, &patience()).await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn dns_without_a_ready_pod_is_waited_for() {
    let machines = all(&[machine("demo", &[])]);
    let waited = dns::wait(&with_dns(1, false).client(), &cluster(&[]), &machines, &patience()).await;
    let BootstrapError::TimedOut { seen, .. } = waited.unwrap_err() else { panic!("of another kind") };
    assert_eq!(seen, ["no pod of CoreDNS is ready"]);
}

#[tokio::test(start_paused = true)]
async fn dns_that_the_user_has_removed_is_not_waited_for() {
    for api in [FakeApi::default(), with_dns(0, false)] {
        let machines = all(&[machine("demo", &[])]);
        dns::wait(&api.client(), &cluster(&[]), &machines, &patience()).await.unwrap();
    }
}

#[test]
fn a_name_that_does_not_exist_is_an_answer_and_a_failure_is_none() {
    let root = tempfile::tempdir().unwrap();
    let path = format!("{}:/usr/bin:/bin", root.path().display());
    let script = Probe::of_dns(&["10.96.0.10".to_owned()], "cluster.local").cmd.argv[2].clone();
    for (says, status, is_answer) in
        [("Address: 10.96.0.1", 0, true), ("can't find x: NXDOMAIN", 1, true), ("SERVFAIL", 1, false)]
    {
        let busybox = root.path().join("busybox");
        let text = format!("#!/bin/sh\necho \"{says}\"\nexit {status}\n");
        flotilla_testkit::write_program(&busybox, &text);
        let words = ["-c", script.as_str(), "name", "server"];
        let ran = flotilla_linux::host::Command::new("sh").args(words).env("PATH", &path).run();
        assert_eq!(ran.is_ok(), is_answer, "{says}");
    }
}
