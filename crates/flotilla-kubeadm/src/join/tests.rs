use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::fake_api::{FakeApi, Fault};
use flotilla_testkit::fake::{self, FakeMachine};

const NODE: &str = "/api/v1/nodes/demo-m02";
const POD: &str = "/api/v1/namespaces/default/pods/web";

/// The worker has a label and a taint.
fn with_worker() -> Cluster {
    let mut cluster = fake::cluster_of_roles(&["control-plane", "worker"]);
    let worker = &mut cluster.spec.nodes[1];
    (worker.labels, worker.taints) = ("disk=ssd".parse().unwrap(), vec!["gpu:NoSchedule".parse().unwrap()]);
    cluster
}

fn never() -> Cancelled {
    Cancelled::new(Arc::new(|| false))
}

fn m02() -> Node {
    with_worker().node(&"demo-m02".parse().unwrap()).unwrap()
}

/// One that has the node and a pod.
fn api(range: &str) -> FakeApi {
    FakeApi::new(&[
        (NODE, json!({"metadata": {"name": "demo-m02"}, "spec": {"podCIDR": range}})),
        (
            POD,
            json!({"metadata": {"name": "web", "namespace": "default", "uid": "1"}, "spec": {"nodeName": "demo-m02"}}),
        ),
    ])
}

async fn join_worker_on(machine: &FakeMachine, api: &FakeApi) -> Result<(), BootstrapError> {
    let cluster = with_worker();
    let (authority, certificate, key) = ("Q0E=".to_owned(), "Q0VSVA==".to_owned(), "S0VZ".to_owned());
    let credentials = Credentials { path: "", authority, certificate, key };
    join_worker(&cluster, &m02(), machine, &api.client(), &credentials, &never()).await
}

#[tokio::test]
async fn the_node_that_had_the_name_before_is_forgotten_before_a_new_one_joins() {
    let (api, machine) = (api("10.244.9.0/24"), FakeMachine::new(&[], &[]));
    join_worker_on(&machine, &api).await.unwrap();
    assert_eq!((api.object(NODE), api.object(POD)), (None, None));
    assert_eq!(api.log()[0], format!("DELETE {NODE}"));
    assert!(machine.log().iter().any(|call| call.contains("kubeadm join")), "{:?}", machine.log());
}

#[tokio::test]
async fn one_that_has_its_credentials_is_not_forgotten_and_its_kubelet_goes_on() {
    let api = api("10.244.1.0/24");
    let machine = FakeMachine::new(&[(KUBELET_CONF, b"")], &[]);
    join_worker_on(&machine, &api).await.unwrap();
    // A join that was given up has stopped it.
    assert_eq!((api.log(), machine.log()), (Vec::new(), vec!["systemctl start kubelet".to_owned()]));
}

#[tokio::test]
async fn a_control_plane_with_its_old_range_was_only_stopped() {
    let node = m02();
    for (range, is_kept) in [(node.pod_range.to_string().as_str(), true), ("10.244.9.0/24", false)] {
        let api = api(range);
        forget_predecessor(&api.client(), &node, &never()).await.unwrap();
        assert_eq!(api.object(NODE).is_some(), is_kept, "{range}");
    }
    forget_predecessor(&FakeApi::default().client(), &node, &never()).await.unwrap();
}

#[tokio::test]
async fn a_kubelet_that_registers_again_has_what_its_node_is_to_have() {
    let node = m02();
    let (api, machine) = (api(&node.pod_range.to_string()), FakeMachine::new(&[], &[]));
    register_again(&api.client(), &with_worker(), &node, &machine, &never()).await.unwrap();
    assert_eq!(machine.log()[0], "systemctl restart kubelet");
    let object = api.object(NODE).unwrap();
    assert_eq!(object["metadata"]["labels"]["disk"], "ssd");
    assert_eq!(object["metadata"]["labels"]["minikube.k8s.io/primary"], "false");
    assert_eq!(object["spec"]["taints"][0]["key"], "gpu");
}

#[tokio::test(start_paused = true)]
async fn a_registration_is_waited_for_while_the_address_moves() {
    let (api, machine) = (api("10.244.1.0/24"), FakeMachine::new(&[], &[]));
    api.fail(&format!("GET {NODE}"), 20, Fault::Unheard);
    api.fail(&format!("GET {NODE}"), 20, Fault::Refused(500, "etcdserver: leader changed"));
    api.fail(&format!("PATCH {NODE}"), 20, Fault::Refused(503, "etcdserver: no leader"));
    finish(&api.client(), &with_worker(), &m02(), &machine, &never()).await.unwrap();
    assert_eq!(api.object(NODE).unwrap()["metadata"]["labels"]["disk"], "ssd");
}

#[tokio::test(start_paused = true)]
async fn one_that_does_not_come_tells_what_was_seen_last() {
    let (api, machine) = (FakeApi::default(), FakeMachine::new(&[], &[]));
    api.fail(&format!("GET {NODE}"), usize::MAX, Fault::Unheard);
    let error = finish(&api.client(), &with_worker(), &m02(), &machine, &never()).await.unwrap_err();
    let BootstrapError::TimedOut { seen, .. } = error else { panic!("{error:?}") };
    assert!(seen[0].contains("connection refused"), "{seen:?}");
}

const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";

#[tokio::test(start_paused = true)]
async fn a_token_is_made_and_removed_although_answers_are_lost() {
    let (api, machine) = (api("10.244.1.0/24"), FakeMachine::new(&[], &[]));
    for request in [format!("POST {SECRETS}"), format!("DELETE {SECRETS}"), format!("DELETE {NODE}")] {
        api.fail(&request, 1, Fault::Unanswered);
    }
    join_worker_on(&machine, &api).await.unwrap();
    let names: BTreeSet<_> = api
        .log()
        .into_iter()
        .filter(|line| line.starts_with("DELETE /api/v1/namespaces/kube-system"))
        .collect();
    assert_eq!(names.len(), 1, "there was one token: {names:?}");
    assert_eq!(api.paths(SECRETS), [] as [&str; 0]);
}

#[tokio::test]
async fn the_token_of_a_join_that_failed_is_removed() {
    let (api, machine) = (api("10.244.1.0/24"), FakeMachine::new(&[], &[("kubeadm join", Err("no"))]));
    let error = join_worker_on(&machine, &api).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot join the cluster on node demo");
    assert!(api.log().contains(&format!("POST {SECRETS}")), "{:#?}", api.log());
    assert_eq!(api.paths(SECRETS), [] as [&str; 0]);
}

#[tokio::test]
async fn what_killed_joins_of_a_node_have_left_is_removed_and_others_may_go_on() {
    let tokens =
        ["demo-m02", "demo-m02", "demo-m03"].map(|node| Token::random(node, Duration::ZERO).unwrap());
    let paths = tokens.each_ref().map(|token| format!("{SECRETS}/{}", token.secret_name()));
    let api = FakeApi::default();
    for (path, token) in paths.iter().zip(&tokens) {
        api.put(path, token.secret());
    }
    Token::forget(&api.client(), &m02(), &never()).await.unwrap();
    assert_eq!(api.paths(SECRETS), paths[2..]);
}

#[tokio::test]
async fn a_node_that_joins_is_told_whom_to_trust_and_nothing_by_which_to_be_trusted() {
    let (api, machine) = (api("10.244.1.0/24"), FakeMachine::new(&[], &[]));
    join_worker_on(&machine, &api).await.unwrap();
    insta::assert_snapshot!(machine.file(DISCOVERY).unwrap(), @r#"
    apiVersion: v1
    clusters:
    - cluster:
        certificate-authority-data: Q0E=
        server: https://control-plane.flotilla.internal:6443
      name: ""
    kind: Config
    "#);
    assert!(machine.log().contains(&format!("put {DISCOVERY} 600")), "{:#?}", machine.log());
}
