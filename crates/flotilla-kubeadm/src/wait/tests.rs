use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;

use super::nodes::{NOT_READY, is_marked, problem};
use super::workloads::{SYSTEM_PODS, deployment_problem, pod_problems};
use super::*;
use crate::fake_api::{FakeApi, Fault};
use flotilla_node_api::State;
use flotilla_testkit::fake::{self, FakeMachine};

const NODE: &str = "/api/v1/nodes/demo";

fn node(ready: &str, more: &Value) -> Value {
    let mut node = json!({
        "metadata": {"name": "demo", "resourceVersion": "7"},
        "spec": {"unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    });
    for (part, fields) in more.as_object().unwrap() {
        node[part].as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    }
    node
}

/// What is said of the nodes of a cluster with one node, which has these taints and annotations.
async fn nodes_seen(ready: &str, taints: &Value, annotations: &Value) -> (Vec<String>, Value) {
    let more = json!({"metadata": {"annotations": annotations}, "spec": {"taints": taints}});
    let api = FakeApi::new(&[(NODE, node(ready, &more))]);
    let cluster = fake::cluster("10.213.0.0/24");
    let mut nodes = [("demo".to_owned(), object(node(ready, &more)))].into();
    let problems = nodes::problems(&api.client(), &cluster, &BTreeMap::new(), &mut nodes).await.unwrap();
    (problems, api.object(NODE).unwrap()["spec"].clone())
}

fn never() -> Cancelled {
    Cancelled::new(Arc::new(|| false))
}

fn patience() -> Patience {
    Patience::new("the end of a test", &never())
}

async fn wait_for_nodes(api: &FakeApi, boot: &str) -> Result<(), BootstrapError> {
    let boots = [("demo".to_owned(), boot.to_owned())].into();
    nodes::wait(&api.client(), &fake::cluster("10.213.0.0/24"), &boots, &patience()).await
}

const NODES: [&str; 2] = ["LIST /api/v1/nodes", "WATCH /api/v1/nodes"];

#[tokio::test(start_paused = true)]
async fn nodes_are_listed_once_and_then_followed() {
    let info = json!({"status": {"nodeInfo": {"bootID": "now"}}});
    let api = FakeApi::new(&[(NODE, node("False", &info))]);
    let ready = json!([{"type": "Ready", "status": "True"}]);
    api.change_when_watched(NODE, json!({"status": {"conditions": ready}}));
    wait_for_nodes(&api, "now").await.unwrap();
    assert_eq!(api.reads(), NODES, "not a list for every look");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_is_asked_for_again_and_a_watch_that_ends_is_taken_up_where_it_ended() {
    let info = json!({"status": {"nodeInfo": {"bootID": "now"}}});
    let api = FakeApi::new(&[(NODE, node("False", &info))]);
    api.fail("GET /api/v1/nodes", 1, Fault::Refused(503, "etcdserver: no leader"));
    api.fail("GET /api/v1/nodes", 1, Fault::Unanswered);
    for ready in ["Unknown", "True"] {
        let ready = json!([{"type": "Ready", "status": ready}]);
        api.change_when_watched(NODE, json!({"status": {"conditions": ready}}));
    }
    wait_for_nodes(&api, "now").await.unwrap();
    let [list, watch] = NODES;
    assert_eq!(api.reads(), [list, list, list, watch, watch]);
}

#[tokio::test(start_paused = true)]
async fn a_wait_without_time_looks_once() {
    let api = FakeApi::new(&[(NODE, node("False", &json!({})))]);
    let patience = Patience::within("nothing", Duration::ZERO, &never());
    let cluster = fake::cluster("10.213.0.0/24");
    let waited = nodes::wait(&api.client(), &cluster, &BTreeMap::new(), &patience).await;
    assert!(matches!(waited, Err(BootstrapError::TimedOut { .. })), "{waited:?}");
    assert_eq!(api.reads(), NODES[..1]);
}

#[tokio::test(start_paused = true)]
async fn a_boot_is_told_from_the_one_before_it_whatever_the_clock_says() {
    let heartbeat = |time: &str| json!([{"type": "Ready", "status": "True", "lastHeartbeatTime": time}]);
    let (past, future) = (heartbeat("1970-01-02T00:00:00Z"), heartbeat("2099-01-01T00:00:00Z"));
    let before = json!({"status": {"nodeInfo": {"bootID": "before"}, "conditions": future}});
    let api = FakeApi::new(&[(NODE, node("True", &before))]);
    // The clock was set back since, and the node reports with it.
    api.change_when_watched(NODE, json!({"status": {"nodeInfo": {"bootID": "now"}, "conditions": past}}));
    wait_for_nodes(&api, "now").await.unwrap();
    assert_eq!(api.reads(), NODES, "what it said before does not count, what it says now does");
}

#[tokio::test]
async fn the_boot_of_a_machine_is_read_in_it() {
    let boot = "/proc/sys/kernel/random/boot_id";
    let machine: Arc<dyn Machine> = Arc::new(FakeMachine::new(&[(boot, b"now\n")], &[]));
    let boots = nodes::boots(&[machine, Arc::new(FakeMachine::new(&[], &[]))]).await;
    assert_eq!(boots, [("demo".to_owned(), "now".to_owned())].into());
}

#[tokio::test(start_paused = true)]
async fn pods_are_listed_once_and_then_followed() {
    const PODS: &str = "/api/v1/namespaces/kube-system/pods";
    let path = |name: &str| format!("{PODS}/{name}");
    let api = FakeApi::default();
    for (label, value) in SYSTEM_PODS {
        api.put(&path(value), pod_json(value, label, value, "Running", "True"));
    }
    let late = pod_json("coredns-1", "k8s-app", "kube-dns", "Pending", "False");
    api.put(&path("coredns-1"), late);
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    api.change_when_watched(&path("coredns-1"), ready);
    let pods = Api::<Pod>::namespaced(api.client(), SYSTEM);
    until_right(Followed::new(pods), &patience(), pod_problems).await.unwrap();
    assert_eq!(api.reads(), [format!("LIST {PODS}"), format!("WATCH {PODS}")]);
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_was_seen_to_run_is_not_asked_again() {
    let runs = Arc::new(FakeMachine::new(&[], &[]));
    let late = Arc::new(FakeMachine::new(&[], &[]));
    let states = [State::Activating, State::Activating, State::Inactive, State::Active];
    late.set_statuses(&states, |status, state| status.units[1].state = *state);
    let machines: [Arc<dyn Machine>; 2] = [Arc::clone(&runs) as _, Arc::clone(&late) as _];
    wait_for_kubelets(&machines, &patience()).await.unwrap();
    assert_eq!((runs.log().len(), late.log().len()), (1, 4));
}

#[tokio::test]
async fn pods_may_come_to_a_node_as_soon_as_it_is_ready() {
    let own = json!({"key": "gpu", "effect": "NoSchedule"});
    let taints = json!([{"key": NOT_READY, "effect": "NoSchedule"}, own]);
    let (problems, spec) = nodes_seen("False", &taints, &json!({})).await;
    assert_eq!((problems.len(), &spec["taints"]), (1, &taints));
    let (problems, spec) = nodes_seen("True", &taints, &json!({})).await;
    assert_eq!(problems, [] as [String; 0]);
    assert_eq!(spec, json!({"taints": [own], "unschedulable": true}), "what a person closed stays closed");
}

#[tokio::test]
async fn a_node_that_a_killed_drain_has_left_closed_is_opened() {
    let (_, spec) = nodes_seen("True", &json!([]), &json!({"flotilla.dev/drained": ""})).await;
    assert_eq!(spec, json!({"taints": []}));
}

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn pod_json(name: &str, label: &str, value: &str, phase: &str, ready: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {label: value}},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]},
    })
}

fn pod(name: &str, label: &str, value: &str, phase: &str, ready: &str) -> Pod {
    object(pod_json(name, label, value, phase, ready))
}

fn pod_problems_of(pods: &[Pod]) -> Vec<String> {
    let named = pods.iter().map(|pod| (pod.metadata.name.clone().unwrap(), pod.clone()));
    pod_problems(&named.collect())
}

fn system_pods() -> Vec<Pod> {
    SYSTEM_PODS.iter().map(|(label, value)| pod(value, label, value, "Running", "True")).collect()
}

#[test]
fn a_system_whose_pods_are_ready_is_ready() {
    assert_eq!(pod_problems_of(&system_pods()), [] as [String; 0]);
}

#[test]
fn a_pod_that_is_not_ready_is_named() {
    let mut pods = system_pods();
    pods[4] = pod("coredns-1", "k8s-app", "kube-dns", "Pending", "False");
    assert_eq!(pod_problems_of(&pods), ["pod coredns-1 is Pending, not Ready"]);
}

#[test]
fn a_pod_that_nobody_has_made_yet_is_waited_for() {
    let pods = system_pods().split_off(1);
    assert_eq!(pod_problems_of(&pods), ["no pod has the label component=kube-apiserver"]);
}

#[test]
fn pods_that_have_ended_are_no_problem_and_no_help() {
    let mut pods = system_pods();
    pods.push(pod("job-1", "job-name", "job", "Succeeded", "False"));
    pods.push(pod("coredns-evicted", "k8s-app", "kube-dns", "Failed", "False"));
    assert_eq!(pod_problems_of(&pods), [] as [String; 0]);
    pods.remove(4);
    assert_eq!(pod_problems_of(&pods), ["no pod has the label k8s-app=kube-dns"]);
}

#[test]
fn a_node_is_ready_when_it_says_so() {
    let node = |conditions: Value| -> Node {
        object(json!({"metadata": {"name": "demo"}, "status": {"conditions": conditions}}))
    };
    let ready = node(json!([{"type": "Ready", "status": "True"}]));
    assert_eq!(problem("demo", None, Some(&ready)), None);
    let not = node(json!([{"type": "Ready", "status": "False", "message": "cni plugin not initialized"}]));
    assert_eq!(
        problem("demo", None, Some(&not)).unwrap(),
        "node demo is not Ready: cni plugin not initialized"
    );
    assert_eq!(problem("demo", None, Some(&node(json!([])))).unwrap(), "node demo has not reported yet");
    assert_eq!(problem("demo", None, None).unwrap(), "node demo is not registered");
}

#[test]
fn a_node_that_pods_are_kept_off_is_known_by_its_mark() {
    let node = |key: &str| -> Node {
        let taint = json!({"key": key, "effect": "NoSchedule"});
        object(json!({"metadata": {"name": "demo"}, "spec": {"taints": [taint]}}))
    };
    assert!(is_marked(&node("node.kubernetes.io/not-ready")));
    assert!(!is_marked(&node("dedicated")));
    assert!(!is_marked(&object(json!({"metadata": {"name": "demo"}}))));
}

#[test]
fn what_a_node_said_in_an_earlier_life_does_not_count() {
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let node: Node = object(json!({
        "metadata": {"name": "demo"},
        "status": {"conditions": ready, "nodeInfo": {"bootID": "now"}},
    }));
    assert_eq!(problem("demo", Some("now"), Some(&node)), None);
    assert!(problem("demo", Some("another"), Some(&node)).is_some());
}

#[test]
fn a_deployment_is_rolled_out_when_its_new_replicas_are_available() {
    let deployment = |generation: i64, available: i32| -> Deployment {
        object(json!({
            "metadata": {"name": "coredns", "generation": generation},
            "spec": {"replicas": 1, "selector": {}, "template": {}},
            "status": {"observedGeneration": 1, "availableReplicas": available, "updatedReplicas": 1},
        }))
    };
    assert_eq!(deployment_problem(&deployment(1, 1)), None);
    assert_eq!(deployment_problem(&deployment(1, 0)).unwrap(), "deployment coredns: 0 of 1 available");
    assert!(deployment_problem(&deployment(2, 1)).is_some(), "what is available is of the old generation");
}
