use flotilla_testkit::fake::{self, Answer, FakeMachine};
use serde_json::json;

use super::*;
use crate::fake_api::FakeApi;

/// What the first makes and the others are given.
const KEY: &str = "/etc/kubernetes/pki/ca.key";

fn three() -> Cluster {
    fake::cluster_of_roles(&["control-plane"; 3])
}

fn first(script: &[(&'static str, Answer)]) -> FakeMachine {
    let keys = crate::control_plane::SHARED.map(|file| format!("/etc/kubernetes/{file}"));
    FakeMachine::new(&keys.each_ref().map(|path| (path.as_str(), path.as_bytes())), script)
}

fn other(name: &str, script: &[(&'static str, Answer)]) -> FakeMachine {
    FakeMachine::named(name.parse().unwrap(), script)
}

async fn found_by(first: &FakeMachine, others: &[&FakeMachine]) -> Result<(), BootstrapError> {
    let cluster = three();
    let others: Vec<Arc<dyn Machine>> =
        others.iter().map(|other| Arc::new((*other).clone()) as Arc<dyn Machine>).collect();
    found(&cluster, &cluster.primary().unwrap(), first, &others).await
}

fn programs(machine: &FakeMachine) -> Vec<String> {
    let is_kubeadm = |line: &String| line.contains("kubeadm ");
    let words = |line: String| line.split(" --skip-phases").next().unwrap_or_default().to_owned();
    machine.log().into_iter().filter(is_kubeadm).map(words).collect()
}

#[tokio::test]
async fn the_first_makes_the_authorities_and_all_begin_with_the_same_members() {
    let (one, two, three) = (first(&[]), other("demo-m02", &[]), other("demo-m03", &[]));
    found_by(&one, &[&two, &three]).await.unwrap();
    let begin = "kubeadm init --config /etc/flotilla/kubeadm-founding.yaml";
    assert_eq!(programs(&one), ["kubeadm init --config /etc/flotilla/kubeadm.yaml", begin]);
    let members = "value: demo=https://10.213.0.2:2380,demo-m02=https://10.213.0.3:2380,demo-m03=https://10.213.0.4:2380";
    for machine in [&one, &two, &three] {
        assert!(machine.file(FOUNDING_CONFIG).unwrap().contains(members));
        // What the cluster keeps does not speak of its beginning.
        assert!(!machine.file(CONFIG).unwrap().contains("initial-cluster"));
        assert!(is_founder(machine).await.unwrap() && !membership::has_joined(machine).await.unwrap());
    }
    for machine in [&two, &three] {
        assert_eq!(programs(machine), [begin]);
        assert_eq!(machine.file(KEY).unwrap(), KEY);
        assert!(machine.log().last().unwrap().contains("--skip-phases=kubeconfig/super-admin,"));
    }
}

#[tokio::test]
async fn what_a_killed_founding_left_is_cleared_away_before_the_next() {
    let two = other("demo-m02", &[("ls -d", Ok("/var/lib/etcd/member"))]);
    found_by(&first(&[]), &[&two]).await.unwrap();
    assert!(programs(&two)[0].contains("kubeadm reset --force"), "{:#?}", programs(&two));
    assert!(is_founder(&two).await.unwrap());
}

#[tokio::test]
async fn one_that_fails_is_told_and_the_others_are_not_left_at_work() {
    let two = other("demo-m02", &[("kubeadm init", Err("no"))]);
    let three = other("demo-m03", &[]);
    let error = found_by(&first(&[]), &[&two, &three]).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot initialise the control plane together with others on node demo-m02"
    );
    assert_eq!(programs(&three).len(), 1);
}

#[tokio::test]
async fn nobody_founds_a_cluster_alone_or_over_data() {
    let possible =
        async |one: &FakeMachine, others: &[Arc<dyn Machine>]| is_possible(one, others).await.unwrap();
    let arc = |machine: FakeMachine| Arc::new(machine) as Arc<dyn Machine>;
    assert!(!possible(&first(&[]), &[]).await);
    assert!(possible(&first(&[]), &[arc(other("demo-m02", &[]))]).await);
    let data = arc(other("demo-m02", &[("etcd/member", Ok("data"))]));
    assert!(!possible(&first(&[]), &[data]).await);
}

#[tokio::test]
async fn only_a_kubelet_whose_node_is_not_there_is_started_anew() {
    let api = FakeApi::new(&[("/api/v1/nodes/demo", json!({"metadata": {"name": "demo"}}))]);
    let (one, two) = (first(&[]), other("demo-m02", &[]));
    let (others, never): (_, Cancelled) =
        ([Arc::new(two.clone()) as Arc<dyn Machine>], Cancelled::new(Arc::new(|| false)));
    register(&api.client(), &one, &others, &never).await.unwrap();
    assert_eq!(one.log(), [] as [&str; 0]);
    assert_eq!(two.log(), ["systemctl restart kubelet"]);
}

#[tokio::test]
async fn only_data_of_a_founding_without_an_answer_may_be_removed() {
    let others = [Arc::new(other("demo-m02", &[])) as Arc<dyn Machine>];
    for (membership, is_free) in [
        (Membership::None, false),
        (Membership::Founding, true),
        (Membership::InitialMember, false),
        (Membership::Member, false),
    ] {
        let machine = first(&[("etcd/member", Ok("data"))]).with_membership(membership);
        assert_eq!(is_possible(&machine, &others).await.unwrap(), is_free, "{membership:?}");
    }
}

#[tokio::test]
async fn a_founding_is_recorded_before_kubeadm_begins_and_kept_when_the_api_has_answered() {
    let (one, two) = (first(&[]), other("demo-m02", &[]));
    found_by(&one, &[&two]).await.unwrap();
    for machine in [&one, &two] {
        let log = machine.log();
        let recorded = log.iter().position(|line| line == "record Founding").unwrap();
        assert!(recorded < log.iter().position(|line| line.starts_with("kubeadm init")).unwrap(), "{log:#?}");
    }
    let others = [Arc::new(two.clone()) as Arc<dyn Machine>];
    keep(&others).await.unwrap();
    keep(&others).await.unwrap();
    assert_eq!(membership::of(&two).await.unwrap(), Membership::InitialMember);
    membership::set(&two, Membership::Member).await.unwrap();
    keep(&others).await.unwrap();
    assert_eq!(membership::of(&two).await.unwrap(), Membership::Member, "one that has joined stays a member");
}
