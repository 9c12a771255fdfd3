use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::fake_api::{FakeApi, Fault};
use flotilla_testkit::fake::{self, FakeMachine};

fn cluster() -> Cluster {
    fake::cluster("10.213.0.0/24")
}

fn never() -> Cancelled {
    Cancelled::new(Arc::new(|| false))
}

fn missing(found: &Found) -> Vec<Part> {
    let cluster = cluster();
    found.missing(&cluster, &cluster.primary().unwrap()).into_iter().collect()
}

fn everything() -> Found {
    let mut labels = minikube_labels::all(&cluster(), &cluster().primary().unwrap());
    labels.insert(CONTROL_PLANE_LABEL.to_owned(), String::new());
    let node = json!({
        "metadata": {"name": "demo", "labels": labels},
        "spec": {"podCIDR": "10.244.0.0/24", "podCIDRs": ["10.244.0.0/24"]},
    });
    let corefile = "forward . /etc/resolv.conf\n";
    Found {
        kubeadm_settings: true,
        kubelet_settings: true,
        tokens: true,
        kube_proxy: true,
        dns: true,
        administrators: true,
        default_namespace: true,
        pod_network: true,
        etcd_mirror: true,
        corefile: corefile::with_host_names(corefile, cluster().gateway()),
        node: Some(serde_json::from_value(node).unwrap()),
    }
}

#[test]
fn a_complete_cluster_lacks_nothing() {
    assert_eq!(missing(&everything()), []);
}

#[test]
fn a_bare_api_server_lacks_everything_that_is_in_the_api() {
    let all = [
        Part::KubeadmSettings,
        Part::KubeletSettings,
        Part::Tokens,
        Part::KubeProxy,
        Part::Dns,
        Part::HostNames,
        Part::DefaultNamespace,
        Part::PodNetwork,
        Part::PodRange,
        Part::Role,
        Part::EtcdMirror,
    ];
    assert_eq!(missing(&Found::default()), all);
}

#[test]
fn a_node_without_its_range_or_label_is_finished() {
    let node = json!({"metadata": {"name": "demo"}, "spec": {"podCIDR": "10.244.7.0/24"}});
    let found = Found { node: Some(serde_json::from_value(node).unwrap()), ..everything() };
    assert_eq!(missing(&found), [Part::PodRange, Part::Role]);
}

#[test]
fn a_node_of_an_older_flotilla_gets_minikubes_labels() {
    let mut found = everything();
    let labels = found.node.as_mut().and_then(|node| node.metadata.labels.as_mut()).unwrap();
    let primary = labels.insert("minikube.k8s.io/primary".to_owned(), "false".to_owned());
    assert_eq!(primary.as_deref(), Some("true"));
    assert_eq!(missing(&found), [], "another primary is no reason for a step");
    let labels = found.node.as_mut().and_then(|node| node.metadata.labels.as_mut()).unwrap();
    labels.retain(|key, _| !key.starts_with("minikube"));
    assert_eq!(missing(&found), [Part::PodRange]);
}

#[test]
fn an_administrator_without_rights_is_given_them() {
    assert_eq!(missing(&Found { administrators: false, ..everything() }), [Part::Role]);
}

#[test]
fn a_corefile_without_the_host_is_changed_and_one_without_a_deployment_is_not_missed() {
    let found = Found { corefile: Some("forward . /etc/resolv.conf\n".to_owned()), ..everything() };
    assert_eq!(missing(&found), [Part::HostNames]);
    assert_eq!(missing(&Found { corefile: None, ..everything() }), []);
}

#[test]
fn every_word_of_the_node_is_understood() {
    let words = ["controller-manager", "scheduler", "rotation"];
    assert_eq!(
        words.map(part_of_a_node),
        [Part::ControllerManager, Part::Scheduler, Part::Rotation].map(Some)
    );
    assert_eq!(part_of_a_node("sh: some warning"), None);
}

#[tokio::test]
async fn a_machine_without_a_cluster_is_silent() {
    let machine = FakeMachine::new(&[], &[]);
    let cluster = cluster();
    let state = observe(&cluster, &cluster.primary().unwrap(), &machine, &never()).await;
    assert_eq!(state, KubernetesState::Unreachable);
}

#[tokio::test]
async fn a_machine_with_unfinished_files_is_silent() {
    let machine = FakeMachine::new(&[(crate::files::SUPER_ADMIN_CONF, b"clusters:\n- clus")], &[]);
    let cluster = cluster();
    let state = observe(&cluster, &cluster.primary().unwrap(), &machine, &never()).await;
    assert_eq!(state, KubernetesState::Unreachable);
}

#[tokio::test]
async fn a_paused_machine_is_not_asked_for_its_api() {
    let machine = FakeMachine::new(&[(PAUSED, b"")], &[]);
    let cluster = cluster();
    let state = observe(&cluster, &cluster.primary().unwrap(), &machine, &never()).await;
    assert_eq!(state, KubernetesState::Paused);
}

#[tokio::test(start_paused = true)]
async fn a_busy_api_server_is_asked_again_for_what_is_missing() {
    let cluster = cluster();
    for fault in [
        Fault::Refused(503, "etcdserver: no leader"),
        Fault::Refused(429, "too many requests"),
        Fault::Unheard,
        Fault::Unanswered,
    ] {
        let api = FakeApi::default();
        api.fail("GET", 3, fault);
        let (client, machine) = (api.client(), FakeMachine::new(&[], &[]));
        let looked = Missing::look(&client, &cluster, &cluster.primary().unwrap(), &machine, &never()).await;
        assert!(looked.unwrap().has(Part::KubeadmSettings), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_api_server_answers_and_a_dead_one_is_known_at_once() {
    let namespace = "/api/v1/namespaces/kube-system";
    for (fault, times) in
        [(Fault::Refused(503, "no leader"), 5), (Fault::Refused(429, "slow"), 5), (Fault::Unanswered, 1)]
    {
        let api = FakeApi::new(&[(namespace, json!({"metadata": {"name": SYSTEM}}))]);
        api.fail("GET", times, fault);
        assert!(serves(&api.client()).await, "{fault:?}");
    }
    let dead = FakeApi::default();
    dead.fail("GET", 100, Fault::Unheard);
    assert!(!serves(&dead.client()).await);
    assert_eq!(dead.reads().len(), 2);
}
