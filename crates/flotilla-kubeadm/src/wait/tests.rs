use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::fake_api::FakeApi;
use flotilla_testkit::fake;

const NODE: &str = "/api/v1/nodes/demo";

/// What is said of the nodes of a cluster with one node, which has these taints and annotations.
async fn nodes_seen(ready: &str, taints: &Value, annotations: &Value) -> (Vec<String>, Value) {
    let node = json!({
        "metadata": {"name": "demo", "resourceVersion": "7", "annotations": annotations},
        "spec": {"taints": taints, "unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    });
    let api = FakeApi::new(&[(NODE, node)]);
    let cluster = fake::cluster("10.213.0.0/24");
    let problems = nodes_problems(&api.client(), &cluster, &BTreeMap::new()).await.unwrap();
    (problems, api.object(NODE).unwrap()["spec"].clone())
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

fn pod(name: &str, label: &str, value: &str, phase: &str, ready: &str) -> Pod {
    object(json!({
        "metadata": {"name": name, "labels": {label: value}},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]},
    }))
}

fn system_pods() -> Vec<Pod> {
    SYSTEM_PODS.iter().map(|(label, value)| pod(value, label, value, "Running", "True")).collect()
}

#[test]
fn a_system_whose_pods_are_ready_is_ready() {
    assert_eq!(pod_problems(&system_pods()), [] as [String; 0]);
}

#[test]
fn a_pod_that_is_not_ready_is_named() {
    let mut pods = system_pods();
    pods[4] = pod("coredns-1", "k8s-app", "kube-dns", "Pending", "False");
    assert_eq!(pod_problems(&pods), ["pod coredns-1 is Pending, not Ready"]);
}

#[test]
fn a_pod_that_nobody_has_made_yet_is_waited_for() {
    let pods = system_pods().split_off(1);
    assert_eq!(pod_problems(&pods), ["there is no pod with component=kube-apiserver"]);
}

#[test]
fn pods_that_have_ended_are_no_problem_and_no_help() {
    let mut pods = system_pods();
    pods.push(pod("job-1", "job-name", "job", "Succeeded", "False"));
    pods.push(pod("coredns-evicted", "k8s-app", "kube-dns", "Failed", "False"));
    assert_eq!(pod_problems(&pods), [] as [String; 0]);
    pods.remove(4);
    assert_eq!(pod_problems(&pods), ["there is no pod with k8s-app=kube-dns"]);
}

#[test]
fn a_node_is_ready_when_it_says_so() {
    let node = |conditions: Value| -> Node {
        object(json!({"metadata": {"name": "demo"}, "status": {"conditions": conditions}}))
    };
    let ready = node(json!([{"type": "Ready", "status": "True"}]));
    assert_eq!(node_problem("demo", None, &[ready]), None);
    let not = node(json!([{"type": "Ready", "status": "False", "message": "cni plugin not initialized"}]));
    assert_eq!(
        node_problem("demo", None, &[not]).unwrap(),
        "node demo is not Ready: cni plugin not initialized"
    );
    assert_eq!(node_problem("demo", None, &[node(json!([]))]).unwrap(), "node demo has not reported yet");
    assert_eq!(node_problem("demo", None, &[]).unwrap(), "node demo is not registered");
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
    let beat = "2026-11-16T22:00:00Z";
    let ready = json!([{"type": "Ready", "status": "True", "lastHeartbeatTime": beat}]);
    let nodes: [Node; 1] = [object(json!({"metadata": {"name": "demo"}, "status": {"conditions": ready}}))];
    let heartbeat = 1_794_866_400;
    assert_eq!(node_problem("demo", Some(heartbeat), &nodes), None);
    assert!(node_problem("demo", Some(heartbeat + 1), &nodes).is_some());
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
