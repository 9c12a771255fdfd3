use std::sync::Arc;

use super::*;
use crate::fake_api::FakeApi;
use crate::files::ADMIN_CONF;
use flotilla_testkit::fake::{self, FakeMachine};

const ONE: &str = r#"{"members":[{"ID":1,"name":"demo","peerURLs":["https://10.213.0.2:2380"]}]}"#;
const WITH_LEARNER: &str = r#"{"members":[{"ID":1,"name":"demo","peerURLs":["https://10.213.0.2:2380"]},{"ID":2,"peerURLs":["https://10.213.0.3:2380"],"isLearner":true}]}"#;

fn three() -> Cluster {
    fake::cluster_of_roles(&["control-plane"; 3])
}

fn with_keys(script: &[(&'static str, fake::Answer)]) -> FakeMachine {
    let paths = SHARED.map(|file| format!("/etc/kubernetes/{file}"));
    FakeMachine::new(&paths.each_ref().map(|path| (path.as_str(), path.as_bytes())), script)
}

async fn join_on(machine: &FakeMachine, via: &FakeMachine) -> Result<(), BootstrapError> {
    join_as("demo-m02", machine, via, &FakeApi::default(), &Mutex::default()).await
}

async fn join_as(
    name: &str,
    machine: &FakeMachine,
    via: &FakeMachine,
    api: &FakeApi,
    membership: &Mutex<()>,
) -> Result<(), BootstrapError> {
    let cluster = three();
    let (node, client) = (cluster.node(&name.parse().unwrap()).unwrap(), api.client());
    let (authority, certificate, key) = ("Q0E=".to_owned(), "Q0VSVA==".to_owned(), "S0VZ".to_owned());
    let credentials = Credentials { path: ADMIN_CONF, authority, certificate, key };
    let never = Cancelled::new(Arc::new(|| false));
    join(&Joining {
        cluster: &cluster,
        node: &node,
        machine,
        via,
        client: &client,
        credentials: &credentials,
        membership,
        cancelled: &never,
    })
    .await
}

fn programs(machine: &FakeMachine) -> Vec<String> {
    machine.log().into_iter().filter(|line| line.starts_with("kubeadm")).collect()
}

#[tokio::test]
async fn a_control_plane_joins_with_the_keys_of_another() {
    let (machine, via) = (FakeMachine::new(&[], &[]), with_keys(&[("member list", Ok(ONE))]));
    join_on(&machine, &via).await.unwrap();
    assert_eq!(machine.file("/etc/kubernetes/pki/etcd/ca.key").unwrap(), "/etc/kubernetes/pki/etcd/ca.key");
    assert!(machine.file(ADMIN_CONF).is_some(), "there is one administrator");
    assert!(machine.log().contains(&"put /etc/kubernetes/pki/ca.key 600".to_owned()));
    assert!(machine.file(JOIN_CONFIG).unwrap().contains("advertiseAddress: \"10.213.0.3\""));
    assert!(machine.file(CONFIG).unwrap().contains("kind: InitConfiguration"));
    insta::assert_snapshot!(programs(&machine).join("\n"), @r"
    kubeadm init phase kubeconfig kubelet --config /etc/flotilla/kubeadm.yaml
    kubeadm join --config /etc/flotilla/kubeadm-join.yaml --skip-phases=preflight,check-etcd,etcd-join,kubelet-wait-bootstrap,control-plane-join,wait-control-plane
    kubeadm join --config /etc/flotilla/kubeadm-join.yaml --skip-phases=preflight,control-plane-prepare,kubelet-start,kubelet-wait-bootstrap,control-plane-join,wait-control-plane
    kubeadm join --config /etc/flotilla/kubeadm-join.yaml --skip-phases=preflight,control-plane-prepare,check-etcd,kubelet-start,etcd-join
    ");
}

#[tokio::test]
async fn what_a_killed_join_left_is_cleared_away_here_and_in_etcd() {
    let machine = FakeMachine::new(&[], &[("ls -d", Ok("/etc/kubernetes/admin.conf"))]);
    let via = with_keys(&[("member list", Ok(WITH_LEARNER)), ("member list", Ok(ONE))]);
    join_on(&machine, &via).await.unwrap();
    assert!(via.log().iter().any(|line| line.ends_with("member remove 2")), "{:#?}", via.log());
    assert!(programs(&machine)[0].starts_with("kubeadm reset --force"), "{:#?}", programs(&machine));
}

#[tokio::test]
async fn a_control_plane_without_keys_can_take_nobody_in() {
    let (machine, via) = (FakeMachine::new(&[], &[]), FakeMachine::new(&[], &[("member list", Ok(ONE))]));
    let error = join_on(&machine, &via).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot hand over the authorities' keys of node demo");
    assert_eq!(programs(&machine), [] as [String; 0]);
}

/// In one process: announces the member, starts it, and gives it a vote.
const ETCD_JOIN: &str = "kubeadm join --config /etc/flotilla/kubeadm-join.yaml --skip-phases=preflight,control-plane-prepare,kubelet-start,kubelet-wait-bootstrap,control-plane-join,wait-control-plane";
const PREPARE: &str = "kubeadm join --config /etc/flotilla/kubeadm-join.yaml --skip-phases=preflight,check-etcd,etcd-join,kubelet-wait-bootstrap,control-plane-join,wait-control-plane";

/// Long enough for everybody to come as far as he can.
async fn a_while() {
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn etcd_takes_in_one_of_two_that_join_side_by_side_after_the_other() {
    let (first, second) = (FakeMachine::new(&[], &[]), FakeMachine::new(&[], &[]));
    let via = with_keys(&[("member list", Ok(ONE)), ("member list", Ok(ONE))]);
    let (api, membership) = (FakeApi::default(), Mutex::default());
    first.calls().hold(ETCD_JOIN, "go on");
    let watch = async {
        a_while().await;
        assert_eq!(programs(&first).last().unwrap(), ETCD_JOIN);
        assert_eq!(programs(&second).last().unwrap(), PREPARE, "the rest is side by side");
        first.guest().run(Cmd::new(["go", "on"])).await.unwrap();
    };
    let (one, other, ()) = tokio::join!(
        join_as("demo-m02", &first, &via, &api, &membership),
        join_as("demo-m03", &second, &via, &api, &membership),
        watch,
    );
    one.and(other).unwrap();
    assert!(programs(&second).contains(&ETCD_JOIN.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn nobody_is_taken_out_of_etcd_while_another_is_taken_in() {
    let (first, second) = (FakeMachine::new(&[], &[]), FakeMachine::new(&[], &[]));
    let via = with_keys(&[("member list", Ok(ONE))]);
    let others = with_keys(&[("member list", Ok(ONE))]);
    let (api, membership) = (FakeApi::default(), Mutex::default());
    first.calls().hold(ETCD_JOIN, "go on");
    let later = async {
        a_while().await;
        join_as("demo-m03", &second, &others, &api, &membership).await
    };
    let watch = async {
        a_while().await;
        a_while().await;
        assert_eq!(others.log(), [] as [String; 0]);
        first.guest().run(Cmd::new(["go", "on"])).await.unwrap();
    };
    let (one, other, ()) = tokio::join!(join_as("demo-m02", &first, &via, &api, &membership), later, watch);
    one.and(other).unwrap();
    assert!(others.log()[0].contains("member list"), "{:#?}", others.log());
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_lets_the_next_one_in_and_leaves_no_token() {
    let (api, membership) = (FakeApi::default(), Mutex::default());
    let via = with_keys(&[("member list", Ok(ONE)), ("member list", Ok(ONE))]);
    let machine = FakeMachine::new(&[], &[(ETCD_JOIN, Err("no"))]);
    assert!(join_as("demo-m02", &machine, &via, &api, &membership).await.is_err());
    assert!(api.log().iter().any(|line| line.starts_with("POST") && line.ends_with("/secrets")));
    assert_eq!(api.paths("/api/v1/namespaces/kube-system/secrets"), [] as [&str; 0]);
    join_as("demo-m03", &FakeMachine::new(&[], &[]), &via, &api, &membership).await.unwrap();
}
