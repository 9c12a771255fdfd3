use std::sync::Arc;

use flotilla_testkit::fake::{self, FakeMachine};
use serde_json::json;

use super::*;
use crate::fake_api::FakeApi;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

/// The last of them is stopped.
fn three() -> Cluster {
    let mut cluster = fake::cluster_of_roles(&["control-plane"; 3]);
    cluster.spec.nodes[2].power = WantedPower::Stopped;
    cluster
}

fn never() -> Cancelled {
    Cancelled::new(Arc::new(|| false))
}

/// When a machine was turned on that is on for 7.5 seconds, so many seconds ago by the clock.
fn on_since(seconds: i64) -> i64 {
    Timestamp::now().as_second() - seconds
}

fn lease(node: &str, seconds: i64) -> serde_json::Value {
    let time = Timestamp::now() - SignedDuration::from_secs(seconds);
    let time = time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    let spec = json!({"holderIdentity": format!("{node}_4a1"), "renewTime": time});
    json!({"metadata": {"uid": "1", "resourceVersion": "7"}, "spec": spec})
}

/// The leases that exist after a start of `demo`.
async fn left(booted_at: i64, leases: &[(&str, serde_json::Value)]) -> Vec<String> {
    let leases: Vec<_> =
        leases.iter().map(|(name, lease)| (format!("{LEASES}/{name}"), lease.clone())).collect();
    let api =
        FakeApi::new(&leases.iter().map(|(path, lease)| (path.as_str(), lease.clone())).collect::<Vec<_>>());
    let cluster = three();
    // The second time nothing is left to release, which is no failure.
    for _ in 0..2 {
        let machine = FakeMachine::new(&[], &[]);
        machine.set_statuses(&[booted_at], |status, at| (status.booted_at, status.up_for_ms) = (*at, 7500));
        let machines = [&machine as &dyn Machine].into_iter();
        release_void(&api.client(), &cluster, machines, &never()).await.unwrap();
    }
    let names = leases.into_iter().filter(|(path, _)| api.object(path).is_some());
    names.map(|(path, _)| path[LEASES.len() + 1..].to_owned()).collect()
}

#[tokio::test]
async fn nobody_waits_for_leaders_of_an_earlier_life_of_the_machine() {
    let leases = [
        ("kube-controller-manager", lease("demo", 20)),
        ("kube-scheduler", lease("demo", 3)),
        ("another", lease("demo", 20)),
    ];
    assert_eq!(left(on_since(8), &leases).await, ["kube-scheduler", "another"]);
}

/// The machine is on for 7.5 seconds. Its leaders have renewed their leases a moment ago.
#[tokio::test]
async fn a_live_leader_is_not_taken_for_dead_because_the_clock_was_changed() {
    let an_hour = 3600;
    // Set forward right now: both the boot and the renewal look old.
    let forward = [("kube-scheduler", lease("demo", an_hour + 1))];
    assert_eq!(left(on_since(an_hour + 8), &forward).await, ["kube-scheduler"]);
    // Set back since the boot: renewed before the machine was turned on, by the clock.
    let back = [("kube-scheduler", lease("demo", 1))];
    assert_eq!(left(on_since(8 - an_hour), &back).await, ["kube-scheduler"]);
    // Set back right now: renewed in the future.
    let back = [("kube-scheduler", lease("demo", 1 - an_hour))];
    assert_eq!(left(on_since(8 - an_hour), &back).await, ["kube-scheduler"]);
}

#[tokio::test]
async fn nobody_waits_for_leaders_in_machines_that_are_off() {
    let leases = [("kube-controller-manager", lease("demo-m02", 1)), ("kube-scheduler", lease("demo", 1))];
    assert_eq!(left(on_since(8), &leases).await, ["kube-scheduler"]);
}

#[tokio::test]
async fn leaders_in_machines_that_may_be_on_are_left_alone() {
    // One that is to be stopped may not be yet, and of another nothing is known.
    let leases = [("kube-controller-manager", lease("demo-m03", 90)), ("kube-scheduler", lease("own", 90))];
    assert_eq!(left(on_since(8), &leases).await, ["kube-controller-manager", "kube-scheduler"]);
    // A machine that says nonsense about when it was turned on.
    let leases = [("kube-scheduler", lease("demo", 90))];
    assert_eq!(left(i64::MAX, &leases).await, ["kube-scheduler"]);
}

#[tokio::test]
async fn a_lease_that_is_renewed_in_the_meantime_stays() {
    let path = format!("{LEASES}/kube-scheduler");
    let api = FakeApi::new(&[(&path, lease("demo", 20))]);
    let renew = api.clone();
    let is_over = |_: &Lease| {
        renew.put(&path, json!({"metadata": {"uid": "1", "resourceVersion": "8"}}));
        true
    };
    release_if(&api.client(), is_over, &never()).await.unwrap();
    assert!(api.object(&path).is_some());
}

#[tokio::test]
async fn the_leaders_of_a_node_that_is_no_more_are_released_and_others_lead_on() {
    let (gone, other) = (format!("{LEASES}/kube-scheduler"), format!("{LEASES}/kube-controller-manager"));
    let api = FakeApi::new(&[(&gone, lease("demo-m02", 1)), (&other, lease("demo", 1))]);
    release_of(&api.client(), "demo-m02", &never()).await.unwrap();
    assert_eq!([&gone, &other].map(|path| api.object(path).is_some()), [false, true]);
    release_all(&api.client(), &never()).await.unwrap();
    assert!(api.object(&other).is_none());
}
