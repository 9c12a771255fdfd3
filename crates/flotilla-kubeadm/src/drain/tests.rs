use std::sync::Arc;

use super::*;
use crate::fake_api::{FakeApi, Fault};

const NODE: &str = "/api/v1/nodes/demo";

const WEB: &str = "/api/v1/namespaces/default/pods/web";
const EVICTION: &str = "POST /api/v1/namespaces/default/pods/web/eviction";
const LIMIT: Duration = Duration::from_mins(1);

fn never() -> Cancelled {
    Cancelled::new(Arc::new(|| false))
}

fn with_node(spec: &Value) -> FakeApi {
    FakeApi::new(&[(NODE, json!({"metadata": {"name": "demo"}, "spec": spec}))])
}

#[tokio::test]
async fn a_node_that_we_closed_is_opened_again() {
    let api = with_node(&json!({}));
    assert!(cordon(&api.client(), "demo").await.unwrap().is_some());
    assert_eq!(api.object(NODE).unwrap()["spec"]["unschedulable"], true);
    uncordon(&api.client(), "demo", &never()).await.unwrap();
    let node = api.object(NODE).unwrap();
    assert_eq!((&node["spec"], &node["metadata"]["annotations"]), (&json!({}), &json!({})));
}

#[tokio::test]
async fn a_node_that_a_person_closed_stays_closed() {
    let api = with_node(&json!({"unschedulable": true}));
    assert!(cordon(&api.client(), "demo").await.unwrap().is_some());
    uncordon(&api.client(), "demo", &never()).await.unwrap();
    assert_eq!(api.log(), [] as [String; 0]);
}

#[tokio::test]
async fn a_node_that_the_api_does_not_know_is_empty_and_open() {
    let api = FakeApi::default();
    assert!(cordon(&api.client(), "demo").await.unwrap().is_none());
    uncordon(&api.client(), "demo", &never()).await.unwrap();
}

fn pod(metadata: &Value, phase: &str) -> Pod {
    serde_json::from_value(json!({"metadata": metadata, "status": {"phase": phase}})).unwrap()
}

#[test]
fn what_would_come_back_or_has_ended_may_stay() {
    assert!(has_to_go(&pod(&json!({"name": "web"}), "Running")));
    assert!(has_to_go(&pod(&json!({"name": "web"}), "Pending")));
    assert!(!has_to_go(&pod(&json!({"name": "job"}), "Succeeded")));
    let mirror = json!({"name": "etcd", "annotations": {"kubernetes.io/config.mirror": "x"}});
    assert!(!has_to_go(&pod(&mirror, "Running")));
    let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "proxy", "uid": "1"}]);
    assert!(!has_to_go(&pod(&json!({"name": "proxy", "ownerReferences": owner}), "Running")));
}

fn web(uid: &str) -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "default", "uid": uid},
        "spec": {"nodeName": "demo", "containers": []},
    })
}

/// A node with a pod on it, beside one of another node.
fn with_pod() -> FakeApi {
    let mut elsewhere = web("2");
    elsewhere["spec"]["nodeName"] = json!("demo-m02");
    FakeApi::new(&[
        (NODE, json!({"metadata": {"name": "demo"}})),
        (WEB, web("1")),
        ("/api/v1/namespaces/other/pods/web", elsewhere),
    ])
}

async fn drained(api: &FakeApi, force: bool) -> Result<(), BootstrapError> {
    drain_by(&api.client(), "demo", Drain { limit: LIMIT, force }, &never()).await
}

#[tokio::test(start_paused = true)]
async fn a_drained_node_is_closed_and_its_pods_are_evicted() {
    let api = with_pod();
    drained(&api, false).await.unwrap();
    assert_eq!(api.log(), [format!("PATCH {NODE}"), EVICTION.to_owned()]);
    assert_eq!(api.object(WEB), None);
    assert!(api.object("/api/v1/namespaces/other/pods/web").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_drain_outlives_a_moving_address_and_a_budget_that_changes() {
    let api = with_pod();
    for request in [format!("GET {NODE}"), format!("PATCH {NODE}"), "GET /api/v1/pods".to_owned()] {
        api.fail(&request, 3, Fault::Unheard);
    }
    api.fail(EVICTION, 3, Fault::Refused(429, "the budget is used up"));
    api.fail(EVICTION, 3, Fault::Unheard);
    api.fail(EVICTION, 1, Fault::Unanswered);
    drained(&api, false).await.unwrap();
    assert_eq!(api.object(WEB), None);
}

/// What the API server says of a pod that two budgets select.
const TWO_BUDGETS: Fault = Fault::Refused(500, "This pod has more than one PodDisruptionBudget");

#[tokio::test(start_paused = true)]
async fn what_keeps_a_pod_to_the_end_is_told() {
    let api = with_pod();
    api.fail(EVICTION, usize::MAX, TWO_BUDGETS);
    let error = drained(&api, false).await.unwrap_err();
    let BootstrapError::Undrained { node, limit, seen } = error else { panic!("{error:?}") };
    assert_eq!((node.as_str(), limit), ("demo", LIMIT));
    assert_eq!(seen, ["pod default/web stays: This pod has more than one PodDisruptionBudget"]);
    assert!(api.object(WEB).is_some());
}

#[tokio::test(start_paused = true)]
async fn with_force_no_budget_keeps_a_pod_for_longer_than_the_limit() {
    let api = with_pod();
    api.fail(EVICTION, usize::MAX, TWO_BUDGETS);
    api.fail("DELETE", 3, Fault::Unheard);
    let started = tokio::time::Instant::now();
    drained(&api, true).await.unwrap();
    assert!(started.elapsed() >= LIMIT);
    assert_eq!(api.object(WEB), None);
}

#[tokio::test(start_paused = true)]
async fn who_may_not_list_pods_does_not_wait_for_it() {
    let api = with_pod();
    api.fail("GET /api/v1/pods", usize::MAX, Fault::Refused(403, "forbidden"));
    let started = tokio::time::Instant::now();
    let error = drained(&api, true).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot evict the pods of node demo");
    assert!(started.elapsed() < LIMIT);
}

#[tokio::test(start_paused = true)]
async fn nobody_evicts_the_pods_of_a_node_that_is_off() {
    let api = with_pod();
    crate::stopped::mark(&api.client(), "demo", &never()).await.unwrap();
    drained(&api, false).await.unwrap();
    assert_eq!(api.log()[2..], [format!("DELETE {WEB}")]);
}

#[tokio::test]
async fn a_pod_that_has_its_name_from_another_is_spared() {
    let api = with_pod();
    let old: Pod = serde_json::from_value(web("0")).unwrap();
    assert_eq!(evict(&api.client(), &old).await.unwrap(), "pod default/web was replaced");
    delete(&api.client(), &[old], &never()).await.unwrap();
    assert_eq!(api.log(), [EVICTION.to_owned(), format!("DELETE {WEB}")]);
    assert!(api.object(WEB).is_some());
}

#[tokio::test]
async fn a_pod_that_is_ending_is_not_asked_again() {
    let mut ending = web("1");
    ending["metadata"]["deletionTimestamp"] = json!("2026-11-17T00:00:00Z");
    let ending: Pod = serde_json::from_value(ending).unwrap();
    let api = with_pod();
    assert_eq!(evict(&api.client(), &ending).await.unwrap(), "pod default/web is ending");
    assert_eq!(api.log(), [] as [String; 0]);
}
