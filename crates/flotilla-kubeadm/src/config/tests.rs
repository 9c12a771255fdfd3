use std::collections::BTreeMap;

use flotilla_core::cluster::Allocations;
use flotilla_spec::ClusterSpec;

use super::*;

fn cluster(spec: &str) -> Cluster {
    let spec =
        format!("apiVersion: flotilla.dev/v1\nkind: Cluster\nname: demo\nkubernetesVersion: v1.37.1\n{spec}");
    let spec = ClusterSpec::from_yaml(&spec).unwrap();
    let (subnet, pods) = ("10.213.0.0/24".parse().unwrap(), "10.244.0.0/16".parse().unwrap());
    let mut cluster = Cluster::new(spec, Allocations::new(subnet, pods, "sha256:0".to_owned()));
    cluster.allocate().expect("there is room");
    cluster
}

const ONE_NODE: &str = "nodes:\n- {name: demo, role: control-plane}\n";

const ALL_FLAGS: &str = "\
network: {serviceSubnet: 10.111.0.0/16, dnsDomain: fleet.example}
apiServer:
  names: [api.example, '*.fleet.example', localhost]
  ips: [192.0.2.7, '2001:db8::7']
extraConfig:
- kubeadm.ignore-preflight-errors=Swap,NumCPU
- kubelet.max-pods=50
- kubelet.node-ip=10.213.0.99
- apiserver.v=2
- 'apiserver.v=4'
- 'apiserver.audit-log-path=/var/log/with: colon # and hash'
- controller-manager.allocate-node-cidrs=true
- scheduler.feature-gates=Own=true
- etcd.quota-backend-bytes=1073741824
- kube-proxy.mode=iptables
- kube-proxy.iptables.masqueradeAll=true
- kube-proxy.conntrack.min=17
- kube-proxy.nodePortAddresses=[\"10.213.0.0/24\"]
featureGates: {Beta: false, Alpha: true}
nodes:
- {name: demo, role: control-plane}
- {name: demo-m02, role: control-plane}
- {name: demo-m03, role: worker}
";

fn rendered(spec: &str, facts: Facts) -> String {
    let cluster = cluster(spec);
    render(&cluster, &cluster.primary().unwrap(), facts)
}

fn documents(yaml: &str) -> BTreeMap<String, Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).unwrap();
    documents.into_iter().map(|document| (document["kind"].as_str().unwrap().to_owned(), document)).collect()
}

#[test]
fn a_cluster_without_flags() {
    insta::assert_snapshot!(rendered(ONE_NODE, Facts { cgroup_v1: false }));
}

#[test]
fn a_cluster_with_every_flag() {
    insta::assert_snapshot!(rendered(ALL_FLAGS, Facts { cgroup_v1: true }));
}

#[test]
fn patches() {
    let cluster = cluster(ONE_NODE);
    let files = super::patches(&cluster, &cluster.primary().unwrap().spec);
    let text: Vec<_> = files.into_iter().map(|(name, text)| format!("# {name}\n{text}")).collect();
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn several_control_planes_have_as_many_pods_for_dns_as_kubeadm_gives_them() {
    let cluster = cluster(ALL_FLAGS);
    let files = super::patches(&cluster, &cluster.primary().unwrap().spec);
    let (_, text) = files.iter().find(|(name, _)| name.starts_with("coredns")).unwrap();
    let patch: Value = serde_saphyr::from_str(text).unwrap();
    assert_eq!(patch["spec"].get("replicas"), None);
    assert!(patch["spec"].get("template").is_some());
}

#[test]
fn only_a_node_with_old_control_groups_is_allowed_them() {
    for cgroup_v1 in [true, false] {
        let kubelet = &documents(&rendered(ONE_NODE, Facts { cgroup_v1 }))["KubeletConfiguration"];
        assert_eq!(kubelet.get("failCgroupV1").is_some(), cgroup_v1);
    }
}

#[test]
fn the_api_server_has_the_port_of_the_cluster() {
    let documents =
        documents(&rendered(&format!("apiServer: {{port: 8441}}\n{ONE_NODE}"), Facts { cgroup_v1: false }));
    assert_eq!(documents["InitConfiguration"]["localAPIEndpoint"]["bindPort"], 8441);
    assert_eq!(
        documents["ClusterConfiguration"]["controlPlaneEndpoint"],
        "control-plane.flotilla.internal:8441"
    );
}

#[test]
fn of_two_flags_the_later_wins_and_ours_lose() {
    let documents = documents(&rendered(ALL_FLAGS, Facts { cgroup_v1: false }));
    let value = |document: &str, path: &str, name: &str| {
        let arguments = documents[document].pointer(path).unwrap().as_array().unwrap();
        let values: Vec<_> = arguments.iter().filter(|argument| argument["name"] == name).collect();
        assert_eq!(values.len(), 1, "{name}");
        values[0]["value"].as_str().unwrap().to_owned()
    };
    assert_eq!(value("InitConfiguration", "/nodeRegistration/kubeletExtraArgs", "node-ip"), "10.213.0.99");
    assert_eq!(value("ClusterConfiguration", "/apiServer/extraArgs", "v"), "4");
    assert_eq!(value("ClusterConfiguration", "/controllerManager/extraArgs", "allocate-node-cidrs"), "true");
    assert_eq!(value("ClusterConfiguration", "/scheduler/extraArgs", "feature-gates"), "Own=true");
}

#[test]
fn a_value_cannot_break_out_of_its_place() {
    let nasty = "x\": {}\n---\nkind: Evil";
    let mut cluster = cluster(ONE_NODE);
    cluster.spec.extra_config = vec![format!("apiserver.v={nasty}").parse().unwrap()];
    let documents = documents(&render(&cluster, &cluster.primary().unwrap(), Facts { cgroup_v1: false }));
    assert_eq!(documents.len(), 4);
    assert_eq!(documents["ClusterConfiguration"]["apiServer"]["extraArgs"][0]["value"], nasty);
}

#[test]
fn the_certificate_is_for_every_way_to_the_api() {
    let names = names(&cluster(ALL_FLAGS));
    for name in [
        "control-plane.flotilla.internal",
        "10.213.0.254",
        "10.213.0.2",
        "10.213.0.3",
        "localhost",
        "127.0.0.1",
        "api.example",
        "*.fleet.example",
        "192.0.2.7",
        "2001:db8::7",
    ] {
        assert!(names.contains(name), "{name}");
    }
    assert!(!names.contains("10.213.0.4"), "a worker has no API server");
}

#[test]
fn fields_of_kube_proxy_are_set_by_their_path() {
    let proxy = &documents(&rendered(ALL_FLAGS, Facts { cgroup_v1: false }))["KubeProxyConfiguration"];
    assert_eq!(proxy["mode"], "iptables");
    assert_eq!(proxy["iptables"]["masqueradeAll"], true);
    assert_eq!(proxy["conntrack"]["min"], 17);
    assert_eq!(proxy["conntrack"]["maxPerCore"], 0);
    assert_eq!(proxy["nodePortAddresses"], json!(["10.213.0.0/24"]));
}

const OWN_KUBELETS: &str = "\
extraConfig: [kubelet.max-pods=50, kubelet.v=2, apiserver.v=3]
featureGates: {Alpha: true, Beta: false}
nodes:
- {name: demo, role: control-plane, featureGates: {Beta: true}}
- name: demo-m02
  role: worker
  labels: {disk: ssd}
  extraConfig: [kubelet.max-pods=33]
  featureGates: {Alpha: false}
  kubelet: {evictionHard: {memory.available: 1Gi}, featureGates: {Gamma: true, Alpha: true}, shutdownGracePeriod: 'on'}
- {name: demo-m03, role: worker}
";

fn joined(name: &str) -> Value {
    joined_within(name, 360)
}

fn joined_within(name: &str, seconds: u64) -> Value {
    let (cluster, limit) = (cluster(OWN_KUBELETS), Duration::from_secs(seconds));
    let node = cluster.node(&name.parse().unwrap()).unwrap();
    serde_saphyr::from_str(&render_join(&cluster, &node, "abcdef.0123456789abcdef", limit)).unwrap()
}

#[test]
fn kubeadm_waits_as_long_as_the_user_and_never_less_than_by_default() {
    for (limit, waits) in [(1800, "1800s"), (10, "300s"), (u64::MAX, "86400s")] {
        let timeouts = joined_within("demo-m02", limit)["timeouts"].clone();
        assert_eq!(timeouts["tlsBootstrap"], waits);
        assert_eq!(timeouts["kubernetesAPICall"], waits);
    }
}

#[test]
fn a_node_has_options_of_its_own_over_the_clusters() {
    let arguments = |name: &str| joined(name)["nodeRegistration"]["kubeletExtraArgs"].clone();
    assert_eq!(
        arguments("demo-m02"),
        json!([
            {"name": "max-pods", "value": "33"},
            {"name": "node-ip", "value": "10.213.0.3"},
            {"name": "node-labels", "value": "disk=ssd"},
            {"name": "v", "value": "2"},
        ])
    );
    let max_pods = json!({"name": "max-pods", "value": "50"});
    assert!(arguments("demo-m03").as_array().unwrap().contains(&max_pods));
}

#[test]
fn a_node_has_kubelet_settings_of_its_own_by_a_patch() {
    let cluster = cluster(OWN_KUBELETS);
    let patch = |name: &str| {
        let files = join_patches(&cluster.node(&name.parse().unwrap()).unwrap().spec);
        let settings = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        files.into_iter().map(|(file, text)| (file, settings(&text))).collect::<Vec<_>>()
    };
    let settings = json!({
        "evictionHard": {"memory.available": "1Gi"},
        "featureGates": {"Alpha": false, "Gamma": true},
        "shutdownGracePeriod": "on",
    });
    assert_eq!(patch("demo-m02"), [("kubeletconfiguration+merge.json".to_owned(), settings)]);
    assert_eq!(joined("demo-m02")["patches"]["directory"], PATCHES);
    assert_eq!(patch("demo-m03"), []);
    assert_eq!(joined("demo-m03").get("patches"), None, "there is no such folder");
    let own = super::patches(&cluster, &cluster.primary().unwrap().spec).pop().unwrap();
    assert_eq!(own.1, r#"{"featureGates":{"Beta":true}}"#, "a control plane has its own as well");
}

#[test]
fn a_kubelet_in_a_user_namespace_is_told_so() {
    let own = "nodes:\n- {name: demo, role: control-plane}\n\
               - {name: demo-m02, role: worker, isolation: user, kubelet: {featureGates: {KubeletInUserNamespace: false}}}\n";
    let cluster = cluster(own);
    let patch = |node: usize| join_patches(&cluster.spec.nodes[node]).pop().map(|(_, text)| text);
    assert_eq!(patch(0), None);
    assert_eq!(patch(1).as_deref(), Some(r#"{"featureGates":{"KubeletInUserNamespace":true}}"#));
}
