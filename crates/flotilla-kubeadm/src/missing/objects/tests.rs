use serde_json::json;

use super::*;
use crate::fake_api::FakeApi;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const CORE: &str = "/api/v1/namespaces";

/// The paths of all that a cluster of kubeadm has, as far as it is looked at.
fn everything() -> Vec<String> {
    let roles = |namespace: &str, name: &str| {
        ["roles", "rolebindings"].map(|kind| format!("{RBAC}/namespaces/{namespace}/{kind}/{name}"))
    };
    let mut paths: Vec<_> = [
        roles(SYSTEM, "kubeadm:nodes-kubeadm-config"),
        roles(SYSTEM, "kubeadm:kubelet-config"),
        roles(SYSTEM, "kube-proxy"),
        roles(PUBLIC, "kubeadm:bootstrap-signer-clusterinfo"),
    ]
    .concat();
    let maps = ["kubeadm-config", "kubelet-config", "kube-proxy", "coredns"];
    paths.extend(maps.map(|map| format!("{CORE}/{SYSTEM}/configmaps/{map}")));
    paths.push(format!("{CORE}/{PUBLIC}/configmaps/cluster-info"));
    paths.extend(["kube-proxy", "coredns"].map(|name| format!("{CORE}/{SYSTEM}/serviceaccounts/{name}")));
    paths.push(format!("{CORE}/{SYSTEM}/services/kube-dns"));
    paths.push(format!("/apis/apps/v1/namespaces/{SYSTEM}/daemonsets/kube-proxy"));
    paths.push(format!("/apis/apps/v1/namespaces/{SYSTEM}/deployments/coredns"));
    let bindings = ["kubeadm:node-proxier", "system:coredns"].into_iter().chain(BOOTSTRAP);
    paths.extend(bindings.map(|name| format!("{RBAC}/clusterrolebindings/{name}")));
    paths.extend([GET_NODES, "system:coredns"].map(|name| format!("{RBAC}/clusterroles/{name}")));
    paths
}

/// Which phases have to be run again, after some objects were deleted.
async fn missing_without(deleted: &[&str]) -> Vec<&'static str> {
    let api = FakeApi::default();
    for path in everything() {
        if !deleted.iter().any(|deleted| path.ends_with(deleted)) {
            let name = path.rsplit('/').next().unwrap();
            api.put(&path, json!({"metadata": {"name": name}}));
        }
    }
    let client = api.client();
    let found = [
        ("kubeadm settings", has_kubeadm_settings(&client).await.unwrap()),
        ("kubelet settings", has_kubelet_settings(&client).await.unwrap()),
        ("tokens", has_tokens(&client).await.unwrap()),
        ("proxy", has_kube_proxy(&client).await.unwrap()),
        ("dns", has_dns(&client).await.unwrap()),
    ];
    found.into_iter().filter_map(|(phase, found)| (!found).then_some(phase)).collect()
}

#[tokio::test]
async fn each_object_that_a_join_needs_is_missed() {
    assert_eq!(missing_without(&[]).await, [""; 0]);
    for (object, phase) in [
        ("configmaps/kubeadm-config", "kubeadm settings"),
        ("roles/kubeadm:nodes-kubeadm-config", "kubeadm settings"),
        ("rolebindings/kubeadm:nodes-kubeadm-config", "kubeadm settings"),
        ("configmaps/kubelet-config", "kubelet settings"),
        ("roles/kubeadm:kubelet-config", "kubelet settings"),
        ("rolebindings/kubeadm:kubelet-config", "kubelet settings"),
        ("configmaps/cluster-info", "tokens"),
        ("roles/kubeadm:bootstrap-signer-clusterinfo", "tokens"),
        ("rolebindings/kubeadm:bootstrap-signer-clusterinfo", "tokens"),
        ("clusterrolebindings/kubeadm:kubelet-bootstrap", "tokens"),
        ("clusterrolebindings/kubeadm:node-autoapprove-bootstrap", "tokens"),
        ("clusterrolebindings/kubeadm:node-autoapprove-certificate-rotation", "tokens"),
        ("clusterrolebindings/kubeadm:get-nodes", "tokens"),
        ("clusterroles/kubeadm:get-nodes", "tokens"),
    ] {
        assert_eq!(missing_without(&[object]).await, [phase], "{object}");
    }
}

#[tokio::test]
async fn what_kube_proxy_and_dns_need_is_missed_as_long_as_they_are_there() {
    for object in [
        "configmaps/kube-proxy",
        "serviceaccounts/kube-proxy",
        "roles/kube-proxy",
        "clusterrolebindings/kubeadm:node-proxier",
    ] {
        assert_eq!(missing_without(&[object]).await, ["proxy"], "{object}");
        assert_eq!(missing_without(&[object, "daemonsets/kube-proxy"]).await, [""; 0], "{object}");
    }
    for object in [
        "configmaps/coredns",
        "serviceaccounts/coredns",
        "clusterroles/system:coredns",
        "clusterrolebindings/system:coredns",
    ] {
        assert_eq!(missing_without(&[object]).await, ["dns"], "{object}");
        assert_eq!(missing_without(&[object, "deployments/coredns"]).await, [""; 0], "{object}");
    }
}
