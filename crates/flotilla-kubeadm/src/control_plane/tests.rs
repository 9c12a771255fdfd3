use std::sync::Arc;

use super::*;
use crate::fake_api::FakeApi;
use crate::files::ADMIN_CONF;
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
const ONE: &str = r#"{"members":[{"ID":1,"name":"demo","peerURLs":["https://10.213.0.2:2380"]}]}"#;
const WITH_LEARNER: &str = r#"{"members":[{"ID":1,"name":"demo","peerURLs":["https://10.213.0.2:2380"]},{"ID":2,"peerURLs":["https://10.213.0.3:2380"],"isLearner":true}]}"#;

fn with_keys(script: &[(&'static str, fake::Answer)]) -> FakeMachine {
    let paths = SHARED.map(|file| format!("/etc/kubernetes/{file}"));
    FakeMachine::new(&paths.each_ref().map(|path| (path.as_str(), path.as_bytes())), script)
}

async fn join_on(machine: &FakeMachine, speaker: &FakeMachine) -> Result<(), BootstrapError> {
    let cluster = fake::cluster_of(TWO, "10.213.0.0/24");
    let (node, client) = (cluster.node(&"demo-m02".parse().unwrap()).unwrap(), FakeApi::default().client());
    let (authority, certificate, key) = ("Q0E=".to_owned(), "Q0VSVA==".to_owned(), "S0VZ".to_owned());
    let credentials = Credentials { path: ADMIN_CONF, authority, certificate, key };
    let (membership, never): (_, Cancelled) = (Mutex::default(), Arc::new(|| false));
    join(&Joining {
        cluster: &cluster,
        node: &node,
        machine,
        speaker,
        client: &client,
        credentials: &credentials,
        membership: &membership,
        cancelled: &never,
    })
    .await
}

fn programs(machine: &FakeMachine) -> Vec<String> {
    machine.log().into_iter().filter(|line| line.starts_with("kubeadm")).collect()
}

#[tokio::test]
async fn a_control_plane_joins_with_the_keys_of_another() {
    let (machine, speaker) = (FakeMachine::new(&[], &[]), with_keys(&[("member list", Ok(ONE))]));
    join_on(&machine, &speaker).await.unwrap();
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
    let speaker = with_keys(&[("member list", Ok(WITH_LEARNER)), ("member list", Ok(ONE))]);
    join_on(&machine, &speaker).await.unwrap();
    assert!(speaker.log().iter().any(|line| line.ends_with("member remove 2")), "{:#?}", speaker.log());
    assert!(programs(&machine)[0].starts_with("kubeadm reset --force"), "{:#?}", programs(&machine));
}

#[tokio::test]
async fn a_control_plane_without_keys_can_take_nobody_in() {
    let (machine, speaker) = (FakeMachine::new(&[], &[]), FakeMachine::new(&[], &[("member list", Ok(ONE))]));
    let error = join_on(&machine, &speaker).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot hand over the authorities' keys of node demo");
    assert_eq!(programs(&machine), [] as [String; 0]);
}
