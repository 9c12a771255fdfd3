use std::sync::Arc;

use super::*;
use crate::fake_api::FakeApi;
use flotilla_testkit::fake::{self, FakeMachine};

const NODES: &str = "\
apiVersion: flotilla.dev/v1
kind: Cluster
name: demo
kubernetesVersion: v1.37.1
nodes:
- {name: demo, role: control-plane}
- {name: demo-m02, role: worker, labels: {disk: ssd}, taints: ['gpu:NoSchedule']}
";
const NODE: &str = "/api/v1/nodes/demo-m02";
const POD: &str = "/api/v1/pods/web";

fn m02() -> Node {
    fake::cluster_of(NODES, "10.213.0.0/24").node(&"demo-m02".parse().unwrap()).unwrap()
}

/// One that has the node and a pod.
fn api(range: &str) -> FakeApi {
    FakeApi::new(&[
        (NODE, json!({"metadata": {"name": "demo-m02"}, "spec": {"podCIDR": range}})),
        (POD, json!({"metadata": {"name": "web", "namespace": "default"}})),
    ])
}

#[tokio::test]
async fn the_node_that_had_the_name_before_is_forgotten_before_a_new_one_joins() {
    let (api, machine) = (api("10.244.9.0/24"), FakeMachine::new(&[], &[]));
    let credentials =
        Credentials { path: "", authority: String::new(), certificate: String::new(), key: String::new() };
    let cluster = fake::cluster_of(NODES, "10.213.0.0/24");
    join_worker(&cluster, &m02(), &machine, &api.client(), &credentials).await.unwrap();
    assert_eq!(api.object(NODE), None);
    assert_eq!(api.log()[0], format!("DELETE {NODE}"));
    assert!(machine.log().iter().any(|call| call.contains("kubeadm join")), "{:?}", machine.log());
}

#[tokio::test]
async fn one_that_has_its_credentials_is_not_forgotten() {
    let api = api("10.244.1.0/24");
    let machine = FakeMachine::new(&[(KUBELET_CONF, b"")], &[]);
    let credentials =
        Credentials { path: "", authority: String::new(), certificate: String::new(), key: String::new() };
    let cluster = fake::cluster_of(NODES, "10.213.0.0/24");
    join_worker(&cluster, &m02(), &machine, &api.client(), &credentials).await.unwrap();
    assert_eq!((api.log(), machine.log()), (Vec::new(), Vec::new()));
}

#[tokio::test]
async fn a_control_plane_with_its_old_range_was_only_stopped() {
    let node = m02();
    for (range, is_kept) in [(node.pod_range.to_string().as_str(), true), ("10.244.9.0/24", false)] {
        let api = api(range);
        forget_predecessor(&api.client(), &node).await.unwrap();
        assert_eq!(api.object(NODE).is_some(), is_kept, "{range}");
    }
    forget_predecessor(&FakeApi::default().client(), &node).await.unwrap();
}

#[tokio::test]
async fn a_kubelet_that_registers_again_has_what_its_node_is_to_have() {
    let node = m02();
    let (api, machine) = (api(&node.pod_range.to_string()), FakeMachine::new(&[], &[]));
    let never: Cancelled = Arc::new(|| false);
    register_again(&api.client(), &node, &machine, &never).await.unwrap();
    assert_eq!(machine.log()[0], "systemctl restart kubelet");
    let object = api.object(NODE).unwrap();
    assert_eq!(object["metadata"]["labels"]["disk"], "ssd");
    assert_eq!(object["spec"]["taints"][0]["key"], "gpu");
}
