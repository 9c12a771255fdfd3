use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::fake_api::FakeApi;
use crate::files::JOINED;
use flotilla_testkit::fake::{self, FakeMachine};

const TWO: &str = "\
apiVersion: flotilla.dev/v1
kind: Cluster
name: demo
kubernetesVersion: v1.37.1
nodes:
- {name: demo, role: control-plane}
- {name: demo-m02, role: control-plane}
";
const BOTH: &str = r#"{"members":[{"ID":1,"name":"demo","peerURLs":["https://10.213.0.2:2380"]},{"ID":2,"name":"demo-m02","peerURLs":["https://10.213.0.3:2380"]}]}"#;
const ONE: &str = r#"{"members":[{"ID":1,"name":"demo","peerURLs":["https://10.213.0.2:2380"]}]}"#;

const NAMESPACE: &str = "/api/v1/namespaces/kube-system";
const NODE: &str = "/api/v1/nodes/demo-m02";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

fn never() -> Cancelled {
    Arc::new(|| false)
}

fn m02() -> Node {
    fake::cluster_of(TWO, "10.213.0.0/24").node(&"demo-m02".parse().unwrap()).unwrap()
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
    let (api, machine) = (api(), FakeMachine::new(&[(JOINED, b"")], &[]));
    let via = FakeMachine::new(&[], &[("member list", Ok(BOTH)), ("member list", Ok(ONE))]);
    leave_by(&api.client(), &m02(), Some(&machine), &via, &never()).await.unwrap();
    let log = machine.log();
    assert!(log[0].contains(JOINED), "its marks go first: {log:#?}");
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
