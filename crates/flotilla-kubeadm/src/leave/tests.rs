use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::fake_api::FakeApi;
use flotilla_testkit::fake::{self, FakeMachine, When, until_killed_async};

const BOTH: &str = r#"{"members":[{"ID":1,"name":"demo","peerURLs":["https://10.213.0.2:2380"]},{"ID":2,"name":"demo-m02","peerURLs":["https://10.213.0.3:2380"]}]}"#;
const ONE: &str = r#"{"members":[{"ID":1,"name":"demo","peerURLs":["https://10.213.0.2:2380"]}]}"#;

const NAMESPACE: &str = "/api/v1/namespaces/kube-system";
const NODE: &str = "/api/v1/nodes/demo-m02";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

fn two() -> Cluster {
    fake::cluster_of_roles(&["control-plane"; 2])
}

fn never() -> Cancelled {
    Cancelled::new(Arc::new(|| false))
}

fn m02() -> Node {
    two().node(&"demo-m02".parse().unwrap()).unwrap()
}

/// A cluster whose leaders are in both nodes.
fn api() -> FakeApi {
    let lease = |holder: &str| json!({"metadata": {}, "spec": {"holderIdentity": format!("{holder}_4a1")}});
    FakeApi::new(&[
        (NAMESPACE, json!({"metadata": {"name": "kube-system"}})),
        (NODE, json!({"metadata": {"name": "demo-m02"}})),
        (&format!("{NAMESPACE}/pods/etcd-demo-m02"), json!({"metadata": {"name": "etcd-demo-m02"}})),
        (&format!("{LEASES}/kube-controller-manager"), lease("demo-m02")),
        (&format!("{LEASES}/kube-scheduler"), lease("demo")),
    ])
}

#[tokio::test]
async fn a_control_plane_that_leaves_is_nowhere_in_the_cluster_any_more() {
    let (api, machine) = (api(), FakeMachine::new(&[], &[]).with_membership(Membership::Member));
    let via = FakeMachine::new(&[], &[("member list", Ok(BOTH)), ("member list", Ok(ONE))]);
    leave_by(&api.client(), &m02(), Some(&machine), &via, &never()).await.unwrap();
    let log = machine.log();
    assert_eq!(log[0], "record None", "its membership ends first: {log:#?}");
    assert!(log[1].contains("systemctl stop keepalived"), "the address is given up first: {log:#?}");
    assert!(log[2..].contains(&"systemctl stop kubelet".to_owned()), "{log:#?}");
    assert!(
        log.iter().any(|line| line.starts_with("kubeadm reset --force")),
        "no shell outlives us: {log:#?}"
    );
    assert!(via.log().iter().any(|line| line.ends_with("member remove 2")), "{:#?}", via.log());
    let ready = &api.object(NODE).unwrap()["status"]["conditions"][0];
    assert_eq!(ready["status"], "False");
    assert!(api.object(&format!("{NAMESPACE}/pods/etcd-demo-m02")).is_none());
    assert!(api.object(&format!("{LEASES}/kube-controller-manager")).is_none(), "its leader is gone");
    assert!(api.object(&format!("{LEASES}/kube-scheduler")).is_some(), "another's goes on");
}

#[tokio::test]
async fn one_that_keeps_the_address_or_the_api_server_stays_a_member() {
    for service in ["stop keepalived", "stop kubelet"] {
        let (api, machine) = (api(), FakeMachine::new(&[], &[(service, Err("it goes on"))]));
        let via = FakeMachine::new(&[], &[("member list", Ok(BOTH)), ("member list", Ok(ONE))]);
        assert!(leave_by(&api.client(), &m02(), Some(&machine), &via, &never()).await.is_err());
        assert_eq!(via.log(), [] as [String; 0], "{service}");
    }
}

#[tokio::test]
async fn the_address_is_given_up_when_no_process_of_keepalived_has_it() {
    let machine = FakeMachine::new(&[], &[]);
    machine.set_statuses(&[true, false], |status, holds| status.holds_virtual_ip = *holds);
    let error = stop_keepalived(&machine).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot release the virtual IP of node demo");
    stop_keepalived(&machine).await.unwrap();
    let deaf = FakeMachine::new(&[], &[("stop keepalived", Err("PID 1 does not answer"))]);
    assert!(stop_keepalived(&deaf).await.is_err());
}

#[tokio::test]
async fn a_control_plane_without_a_machine_can_leave_and_do_so_again() {
    let (api, via) = (api(), FakeMachine::new(&[], &[("member list", Ok(BOTH)), ("member list", Ok(ONE))]));
    leave_by(&api.client(), &m02(), None, &via, &never()).await.unwrap();
    let via = FakeMachine::new(&[], &[("member list", Ok(ONE))]);
    leave_by(&api.client(), &m02(), None, &via, &never()).await.unwrap();
    assert!(!via.log().iter().any(|line| line.contains("remove")), "{:#?}", via.log());
}

#[tokio::test]
async fn a_machine_is_reset_when_nobody_counts_on_it_any_more() {
    let (api, machine) = (api(), FakeMachine::new(&[], &[("kubeadm reset", Err("no"))]));
    let via = FakeMachine::new(&[], &[("member list", Ok(BOTH)), ("member list", Ok(ONE))]);
    assert!(leave_by(&api.client(), &m02(), Some(&machine), &via, &never()).await.is_err());
    assert_eq!(api.object(NODE).unwrap()["status"]["conditions"][0]["status"], "False");
}

#[tokio::test]
async fn nothing_is_reset_while_it_is_a_member() {
    let (api, machine) = (api(), FakeMachine::new(&[], &[]));
    let via = FakeMachine::new(&[], &[("member list", Err("etcd is down"))]);
    assert!(leave_by(&api.client(), &m02(), Some(&machine), &via, &never()).await.is_err());
    assert!(!machine.log().iter().any(|line| line.contains("reset")), "{:#?}", machine.log());
}

const DATA: &str = "/var/lib/etcd/member";

/// Kills a reset at each of its calls, and then lets it run to its end. Gives what each kill left.
async fn resets_killed(membership: Membership) -> Vec<(Membership, bool)> {
    let begin = || FakeMachine::new(&[(DATA, b"")], &[]).with_membership(membership);
    let whole = begin();
    clear(&whole).await.unwrap();
    let mut left = Vec::new();
    for nth in 1..=whole.log().len() {
        for when in [When::Before, When::After] {
            let machine = begin();
            machine.calls().kill_nth(nth, when);
            assert!(until_killed_async(clear(&machine)).await.is_none(), "call {nth} is the end");
            left.push((membership::of(&machine).await.unwrap(), machine.file(DATA).is_some()));
            clear(&machine).await.unwrap();
            assert_eq!(membership::of(&machine).await.unwrap(), Membership::None);
            assert!(machine.file(DATA).is_none());
        }
    }
    left
}

#[tokio::test]
async fn a_founding_stays_recorded_until_its_data_is_gone() {
    let left = resets_killed(Membership::Founding).await;
    assert!(!left.contains(&(Membership::None, true)), "that data could belong to anybody: {left:?}");
    assert!(left.contains(&(Membership::Founding, false)) && left.contains(&(Membership::None, false)));
}

#[tokio::test]
async fn a_member_that_is_reset_is_none_before_anything_of_it_is_deleted() {
    let left = resets_killed(Membership::Member).await;
    assert!(left.contains(&(Membership::Member, true)) && left.contains(&(Membership::None, true)));
    assert!(!left.contains(&(Membership::Member, false)), "{left:?}");
}

#[tokio::test]
async fn one_that_is_off_leaves_as_well() {
    let machine = FakeMachine::new(&[], &[]).with_membership(Membership::Member).off();
    let via = FakeMachine::new(&[], &[("member list", Ok(BOTH)), ("member list", Ok(ONE))]);
    leave_by(&api().client(), &m02(), Some(&machine), &via, &never()).await.unwrap();
    assert_eq!(membership::of(&machine).await.unwrap(), Membership::None);
    assert_eq!(machine.log(), ["record None"]);
}
