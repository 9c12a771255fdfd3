use super::*;
use crate::{ClusterFile, SpecErrorKind};

const OF_KIND: &str = "
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
name: demo
networking:
  podSubnet: 10.10.0.0/16
  disableDefaultCNI: true
  apiServerPort: 8443
  kubeProxyMode: ipvs
featureGates:
  InPlacePodVerticalScaling: true
runtimeConfig:
  api/beta: \"true\"
nodes:
- role: control-plane
  image: kindest/node:v1.36.4
  extraPortMappings:
  - containerPort: 30080
    hostPort: 8080
    listenAddress: 127.0.0.1
  - {containerPort: 53, hostPort: 5353, protocol: UDP}
  - containerPort: 443
- role: worker
- role: worker
- role: worker
  labels: {disk: ssd}
  extraMounts:
  - {hostPath: /srv/data, containerPath: /data, readOnly: true}
novelty: {a: 1}
";

const OF_K3D: &str = "
apiVersion: k3d.io/v1alpha5
kind: Simple
metadata:
  name: demo
servers: 3
agents: 2
image: rancher/k3s:v1.36.4-k3s1
subnet: 10.77.0.0/24
kubeAPI: {host: api.test, hostPort: 6550}
volumes:
- volume: /srv/data:/data
  nodeFilters: [\"agent:*\"]
- volume: cache:/cache
ports:
- port: 8080:80
  nodeFilters: [loadbalancer]
- port: 9090:30090
  nodeFilters: [\"agent:1\"]
options:
  k3d: {wait: true}
  k3s:
    nodeLabels:
    - label: tier=back
      nodeFilters: [\"server:0,1\"]
  runtime:
    serversMemory: 2g
";

fn translated(text: &str) -> String {
    let (_, yaml) = translate(text).unwrap();
    // The translation is a file of ours.
    if let Err(errors) = ClusterFile::read("translated.yaml", &yaml) {
        panic!("{errors:?}\n{yaml}");
    }
    yaml
}

#[test]
fn a_config_of_kind_becomes_a_cluster_file() {
    insta::assert_snapshot!(translated(OF_KIND), @r#"
    # left out: nodes[].image: nodes are created from bundles; choose one with kubernetesVersion
    # left out: networking.kubeProxyMode: kube-proxy uses nftables
    # left out: novelty.a
    # left out: a port mapping without a port of the host
    apiVersion: flotilla.dev/v1
    kind: Cluster
    name: demo
    network: {cni: none, podSubnet: "10.10.0.0/16"}
    apiServer: {port: 8443}
    featureGates: {InPlacePodVerticalScaling: true}
    extraConfig: ["apiserver.runtime-config=api/beta=true"]
    nodes:
    - role: control-plane
      ports: ["127.0.0.1:8080:30080", "0.0.0.0:5353:53/udp"]
    - role: worker
      count: 2
    - role: worker
      labels: {disk: ssd}
      mounts: ["/srv/data:/data:ro"]
    "#);
}

#[test]
fn a_config_of_k3d_becomes_a_cluster_file() {
    insta::assert_snapshot!(translated(OF_K3D), @r#"
    # left out: options.k3d.wait: start waits; see --wait
    # left out: image: nodes are created from bundles; choose one with kubernetesVersion
    # left out: kubeAPI: the API is at its virtual IP; apiServer adds names to its certificate
    # left out: volume cache:/cache: mounts need a full path
    # port 8080:80: there is no load balancer; publish a NodePort
    apiVersion: flotilla.dev/v1
    kind: Cluster
    name: demo
    network: {subnet: "10.77.0.0/24"}
    apiServer: {port: 6550}
    nodes:
    - role: control-plane
      memory: "2g"
      ports: ["8080:80"]
      labels: {tier: back}
    - role: control-plane
      memory: "2g"
      labels: {tier: back}
    - role: control-plane
      memory: "2g"
    - role: worker
      mounts: ["/srv/data:/data"]
    - role: worker
      mounts: ["/srv/data:/data"]
      ports: ["9090:30090"]
    "#);
}

#[test]
fn the_smallest_configs_are_translated() {
    let kind = translated("kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\n");
    assert_eq!(kind, "apiVersion: flotilla.dev/v1\nkind: Cluster\nname: kind\n");
    let any_port = "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnetworking: {apiServerPort: -1}\n";
    assert_eq!(translated(any_port), kind);
    let k3d = translated("kind: Simple\napiVersion: k3d.io/v1alpha5\n");
    assert_eq!(
        k3d,
        "apiVersion: flotilla.dev/v1\nkind: Cluster\nname: k3s-default\nnodes:\n- role: control-plane\n"
    );
}

#[test]
fn other_files_are_not_translated() {
    for text in [
        "",
        "apiVersion: flotilla.dev/v1\nkind: Cluster\nname: demo\n",
        "apiVersion: flotilla.dev/v1\nkind: Cluster\nname: demo # not kind.x-k8s.io/\n",
        "apiVersion: kind.x-k8s.io/v1alpha4\nkind: Other\n",
        "kind.x-k8s.io/: [",
    ] {
        assert!(translate(text).is_none(), "{text}");
    }
}

#[test]
fn text_of_a_config_cannot_leave_its_line() {
    let yaml = translated(
        "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\n\"a\\nname: other\": 1\n\
         nodes: [{labels: {a: \"yes\", b: \"1\"}}]\n",
    );
    assert!(!yaml.contains("\nname: other"), "{yaml}");
    assert!(yaml.contains("labels: {a: \"yes\", b: \"1\"}"), "{yaml}");
}

#[test]
fn a_foreign_config_is_a_wrong_file_with_a_translation() {
    let errors = ClusterFile::read("kind.yaml", OF_KIND).unwrap_err();
    let [error] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!(error.to_string(), "kind.yaml is a config file of kind, not a cluster file of flotilla");
    assert_eq!(error.kind(), SpecErrorKind::Config);
    assert!(error.hint().unwrap().ends_with(&translated(OF_KIND).trim_end()));
}
