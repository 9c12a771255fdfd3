//! Flags of `start` that settings of Kubernetes stand behind.

use std::fs;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

use super::network;
use super::workloads::{NODE_PORT, in_client, run_web_on};
use crate::lab::{Cluster, PATIENCE, wait_until};

/// What the cluster is started with.
pub(super) const FLAGS: &[&str] = &[
    "--extra-config",
    "kubelet.max-pods=50",
    "--extra-config",
    "kube-proxy.mode=iptables",
    "--feature-gates",
    "AllAlpha=false",
    "--apiserver-names",
    "api.flotilla.test",
    "--apiserver-ips",
    "192.0.2.7",
    "--apiserver-port",
    "8441",
    "--dns-domain",
    "ships.test",
    "--service-cluster-ip-range",
    "10.120.0.0/16",
];

/// Makes a certificate authority of the user's. Gives its certificate.
pub(super) fn write_authority(folder: &Path) -> String {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).unwrap().pem();
    fs::write(folder.join("ca.key"), key.serialize_pem()).unwrap();
    fs::write(folder.join("ca.crt"), &certificate).unwrap();
    certificate
}

/// Clients and nodes trust it, its key is with the control plane alone, and the user's files are as they were.
pub(super) fn the_authority_is_the_users(cluster: &Cluster, folder: &Path, certificate: &str) {
    let trusted =
        cluster.kubectl(&["get", "configmap", "kube-root-ca.crt", "-o", "jsonpath={.data.ca\\.crt}"]);
    assert_eq!(trusted.trim(), certificate.trim());
    assert_eq!(fs::read_to_string(folder.join("ca.crt")).unwrap(), certificate);
    let key = fs::read_to_string(folder.join("ca.key")).unwrap();
    assert_eq!(cluster.ssh("cat /etc/kubernetes/pki/ca.key").trim(), key.trim());
    assert_eq!(cluster.ssh("stat -c %a /etc/kubernetes/pki/ca.key").trim(), "600");
}

pub(super) fn the_kubelet_has_its_extra_setting(cluster: &Cluster) {
    assert_eq!(cluster.field(&["nodes"], "{.items[0].status.capacity.pods}"), "50");
}

pub(super) fn components_have_the_feature_gate(cluster: &Cluster) {
    for component in ["kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
        let pod = format!("{component}-{}", cluster.name);
        let command = cluster.field(&["pod", &pod, "-n", "kube-system"], "{.spec.containers[0].command}");
        assert!(command.contains("--feature-gates=AllAlpha=false"), "{component}: {command}");
    }
    let kubelet = cluster.ssh("grep -A 1 featureGates: /var/lib/kubelet/config.yaml");
    assert!(kubelet.contains("AllAlpha: false"), "{kubelet}");
}

pub(super) fn the_api_server_is_at_its_port(cluster: &Cluster) {
    let server = cluster.kubectl(&["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"]);
    assert!(server.ends_with(":8441"), "{server}");
    let kubeconfig = fs::read_to_string(cluster.kubeconfig()).unwrap();
    assert!(kubeconfig.contains(&server), "{server}: {kubeconfig}");
}

/// As a client sees it that trusts the cluster's own authority and no other.
pub(super) fn the_certificate_has_the_names(cluster: &Cluster) {
    let live = |name: &str| {
        cluster.try_ssh(&format!(
            "curl -sS --cacert /etc/kubernetes/pki/ca.crt --connect-to {name}:8441:127.0.0.1:8441 https://{name}:8441/livez"
        ))
    };
    let names = [
        "api.flotilla.test",
        "192.0.2.7",
        "control-plane.flotilla.internal",
        "kubernetes.default.svc.ships.test",
    ];
    for name in names.into_iter().chain([cluster.ip().as_str()]) {
        assert_eq!(live(name).as_deref(), Ok("ok"), "{name}");
    }
    assert!(live("192.0.2.8").is_err(), "an address that is in no certificate");
}

pub(super) fn the_proxys_mode_can_be_changed(cluster: &Cluster) {
    let asked = "curl -sS http://127.0.0.1:10249/proxyMode";
    assert_eq!(wait_until("the proxy", PATIENCE, || cluster.try_ssh(asked)), "iptables");
}

pub(super) fn services_and_names_are_as_asked(cluster: &Cluster) {
    assert_eq!(cluster.field(&["service", "kubernetes"], "{.spec.clusterIP}"), "10.120.0.1");
    run_web_on(cluster);
    let address = cluster.field(&["service", "web"], "{.spec.clusterIP}");
    assert!(address.starts_with("10.120."), "{address}");
    let name = "web.default.svc.ships.test";
    let answer = wait_until(name, PATIENCE, || in_client(cluster, &format!("nslookup {name}")));
    assert!(answer.contains(&format!("Address: {address}\n")), "{answer}");
    network::web_answers_in_client(cluster);
    network::web_answers_at(&cluster.ip(), NODE_PORT);
}
