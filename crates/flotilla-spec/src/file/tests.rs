use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::Value as Json;

use super::*;
use crate::quantity::MIB;
use crate::{Isolation, Memory, Role};

mod wrong;

const HEAD: &str = "apiVersion: flotilla.dev/v1\nkind: Cluster\nname: demo\n";
const HOST: HostSize = HostSize { cpus: 64, memory: 256 * 1024 * MIB };

fn newest() -> KubernetesVersion {
    "v1.37.1".parse().unwrap()
}

fn read(rest: &str) -> ClusterFile {
    ClusterFile::read("a.yaml", &format!("{HEAD}{rest}"))
        .unwrap_or_else(|errors| panic!("{}", listed(&errors)))
}

fn expanded(rest: &str) -> String {
    let spec = read(rest).expanded(&newest());
    let yaml = spec.to_yaml();
    yaml[yaml.find("nodes:").unwrap()..].to_owned()
}

fn listed(errors: &[SpecError]) -> String {
    let reported = errors.iter().map(|error| match error.hint() {
        Some(hint) => format!("{error} [{hint}]"),
        None => error.to_string(),
    });
    reported.collect::<Vec<_>>().join("\n")
}

/// The errors of a file: of its text or, if it can be read, of the resulting cluster.
fn wrong(text: &str, host: &HostSize) -> String {
    match ClusterFile::read_on("a.yaml", text, &newest(), host) {
        Err(errors) => listed(&errors),
        Ok(file) => listed(&file.check(&file.expanded(&newest()), host)),
    }
}

#[test]
fn a_name_is_enough() {
    insta::assert_snapshot!(read("").expanded(&newest()).to_yaml(), @"
    apiVersion: flotilla.dev/v1
    kind: Cluster
    name: demo
    kubernetesVersion: v1.37.1
    network:
      nodePodPrefix: 24
      serviceSubnet: 10.96.0.0/12
      dnsDomain: cluster.local
      cni: flotilla
    nodes:
    - name: demo
      role: control-plane
      cpus: no-limit
      memory: no-limit
      state: running
    ");
}

#[test]
fn counted_nodes_have_the_names_of_their_numbers() {
    let names = |rest: &str| {
        let spec = read(rest).expanded(&newest());
        let nodes = spec.nodes.iter().map(|node| format!("{} ({})", node.name, node.role));
        nodes.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(names("nodes: [{count: 3}]"), "demo (control plane), demo-m02 (worker), demo-m03 (worker)");
    assert_eq!(
        names("nodes: [{name: a}, {count: 2}]"),
        "a (control plane), demo-m02 (worker), demo-m03 (worker)"
    );
    // A short name is the same node as on the command line.
    assert_eq!(
        names("nodes: [{}, {name: m02}, {name: demo-m03}, {name: big}]"),
        "demo (control plane), demo-m02 (worker), demo-m03 (worker), big (worker)"
    );
    assert_eq!(
        names("nodes: [{role: worker}, {role: control-plane}]"),
        "demo (worker), demo-m02 (control plane)"
    );
}

#[test]
fn a_node_has_its_own_settings_over_those_of_all() {
    let text = "\
nodeDefaults: {cpus: 2, memory: 1g, disk: 10g, labels: {a: b, c: d}, taints: ['x=y:NoSchedule']}
nodes:
- {memory: max, labels: {c: e}}
- {name: w, cpus: no-limit, taints: [], state: stopped}
";
    insta::assert_snapshot!(expanded(text), @"
    nodes:
    - name: demo
      role: control-plane
      cpus: 2
      memory: max
      disk: 10Gi
      labels:
        a: b
        c: e
      taints:
      - x=y:NoSchedule
      state: running
    - name: w
      role: worker
      cpus: no-limit
      memory: 1Gi
      disk: 10Gi
      labels:
        a: b
        c: d
      state: stopped
    ");
}

#[test]
fn maps_of_a_node_add_to_those_of_all_and_lists_replace_them() {
    let text = "\
nodeDefaults:
  kubelet: {maxPods: 50, evictionHard: {memory.available: 1Gi, n: 1}}
  extraConfig: [kubelet.a=b]
  featureGates: {A: true, B: true}
  mounts: [/a:/b]
  ports: [8080]
nodes:
- ports: []
- name: w
  kubelet: {evictionHard: {x: '1'}, cpuManagerPolicy: static, seccompDefault: true, ratio: 1.5}
  extraConfig: [kubelet.c=d]
  featureGates: {B: false}
  mounts: [/c:/d:ro, /e:/f]
  ports: [0.0.0.0:53:30053/udp, 8081:30080]
";
    insta::assert_snapshot!(expanded(text), @r#"
    nodes:
    - name: demo
      role: control-plane
      cpus: no-limit
      memory: no-limit
      extraConfig:
      - kubelet.a=b
      featureGates:
        A: true
        B: true
      kubelet:
        evictionHard:
          memory.available: 1Gi
          "n": 1
        maxPods: 50
      mounts:
      - /a:/b
      state: running
    - name: w
      role: worker
      cpus: no-limit
      memory: no-limit
      extraConfig:
      - kubelet.c=d
      featureGates:
        A: true
        B: false
      kubelet:
        cpuManagerPolicy: static
        evictionHard:
          x: "1"
        maxPods: 50
        ratio: 1.5
        seccompDefault: true
      mounts:
      - /c:/d:ro
      - /e:/f
      ports:
      - 0.0.0.0:53:30053/udp
      - 8081:30080
      state: running
    "#);
}

#[test]
fn what_a_node_is_made_from_is_said_once() {
    let made_from = |defaults: &str, own: &str| {
        let spec = read(&format!("nodeDefaults: {{{defaults}}}\nnodes: [{{{own}}}]")).expanded(&newest());
        let NodeSpec { kubernetes_version, bundle, .. } = &spec.nodes[0];
        format!(
            "{} {}",
            kubernetes_version.as_ref().map_or("-", |_| "version"),
            bundle.as_deref().unwrap_or("-")
        )
    };
    assert_eq!(made_from("", ""), "- -");
    assert_eq!(made_from("kubernetesVersion: v1.36.4", ""), "version -");
    assert_eq!(made_from("kubernetesVersion: v1.36.4", "bundle: 0123"), "- 0123");
    assert_eq!(made_from("bundle: 0123", "kubernetesVersion: v1.36.4"), "version -");
}

#[test]
fn what_is_left_open_stays_as_it_is() {
    let known =
        read("kubernetesVersion: v1.36.4\nnetwork: {dnsDomain: a.b, cni: none}\nnodes: [{memory: 2g}, {}]");
    let known = known.expanded(&newest());
    let over = read("").expanded_over(&known);
    assert_eq!((&over.kubernetes_version, &over.network), (&known.kubernetes_version, &known.network));
    // Nodes are never left unchanged: the file lists all of them.
    assert_eq!((over.nodes.len(), over.nodes[0].memory), (1, Memory::default()));
}

#[test]
fn what_all_nodes_have_later_nodes_have_as_well() {
    let text = "\
nodeDefaults: {cpus: 2, disk: 10g, labels: {a: b, c: d}, taints: ['x:NoSchedule'], kubernetesVersion: v1.36.4,
  kubelet: {maxPods: 50}, mounts: [/a:/b], ports: [80]}
nodes: [{kubernetesVersion: v1.37.1}, {memory: 1g, ports: []}]
";
    let spec = read(text).expanded(&newest());
    let later = |role| spec.node_defaults.node("later".parse().unwrap(), role);
    // Ports are not among the defaults: a port of the host leads to one node.
    let like =
        NodeSpec { name: "later".parse().unwrap(), memory: Memory::default(), ..spec.nodes[1].clone() };
    assert_eq!(later(Role::Worker), like);
    assert_eq!(later(Role::ControlPlane).kubernetes_version, None);
    // They stay unchanged if a file has none.
    assert_eq!(read("").expanded_over(&spec).node_defaults, spec.node_defaults);
    assert!(read("nodeDefaults: {}").expanded_over(&spec).node_defaults.is_empty());
}

#[test]
fn an_exported_cluster_gives_no_node_what_it_has_not() {
    let text = "\
nodeDefaults: {cpus: 2, disk: 10g, labels: {a: b, c: d}, taints: ['x:NoSchedule'], kubernetesVersion: v1.36.4,
  extraConfig: [kubelet.v=4], featureGates: {A: true}, kubelet: {maxPods: 50}, mounts: [/a:/b]}
nodes: [{kubernetesVersion: v1.37.1}, {}]
";
    let mut spec = read(text).expanded(&newest());
    let reads_back = |spec: &ClusterSpec| {
        let yaml = spec.exported().to_yaml();
        let again = ClusterFile::read("b.yaml", &yaml).unwrap().expanded_over(spec);
        assert_eq!(again.nodes, spec.nodes, "{yaml}");
        again.node_defaults
    };
    assert_eq!(reads_back(&spec), spec.node_defaults);
    // As after `node update` and `node add`.
    spec.nodes[1] = NodeSpec {
        labels: "c=d".parse().unwrap(),
        ..NodeSpec::plain(spec.nodes[1].name.clone(), Role::Worker)
    };
    let left = reads_back(&spec);
    assert_eq!((left.cpus, left.labels.to_string()), (spec.node_defaults.cpus, "c=d".to_owned()));
    assert_eq!((left.disk, left.taints.len(), left.mounts.len()), (None, 0, 0));
}

#[test]
fn the_pods_range_has_two_names() {
    let subnet =
        |text: &str| read(text).expanded(&newest()).network.pod_subnet.map(|range| range.to_string());
    let option = "extraConfig: [kubeadm.pod-network-cidr=10.9.0.0/16]";
    assert_eq!(subnet(option).as_deref(), Some("10.9.0.0/16"));
    assert_eq!(subnet(&format!("{option}\nnetwork: {{podSubnet: 10.9.0.0/16}}")), subnet(option));
    let both = format!("{HEAD}{option}\nnetwork: {{podSubnet: 10.8.0.0/16}}");
    insta::assert_snapshot!(wrong(&both, &HOST), @"a.yaml:4:14 (`extraConfig: [kubeadm.pod-network-cidr=10.9.0.0/16]`): two pod subnets: kubeadm.pod-network-cidr=10.9.0.0/16 and 10.8.0.0/16; leave out the option and keep `podSubnet`");
}

#[test]
fn the_file_of_a_cluster_reads_as_itself() {
    let text = "\
kubernetesVersion: 1.36.4
driver: native
network: {subnet: 10.213.4.0/24, podSubnet: 10.9.0.0/16, nodePodPrefix: /25, cni: ./own.yaml}
apiServer: {names: ['*.a.b'], ips: [1.2.3.4, '::1'], port: 8443}
extraConfig: [kubelet.max-pods=50]
featureGates: {A: true}
taintControlPlanes: true
nodes:
- {count: 2, memory: 3072, cpus: 2, disk: 1.5g}
- {name: x, labels: {n: 1, 'yes': yes}, taints: ['a:NoExecute'], state: stopped}
- name: y
  kubernetesVersion: 1.35.0
  kubelet: {maxPods: 50, a: '50', b: 'true', c: [1.5, ~, {d.e/f: \"x\\ny\", 1: no}], g: {}, h: [], i: '', j: -1, k: 0.1}
  extraConfig: ['kubelet.v=4']
  featureGates: {B: false}
  mounts: ['/a b:/c', '/d:/e:ro']
  ports: [80, 0.0.0.0:53:53/udp]
- {name: z, bundle: 0123456789}
";
    let spec = read(text).expanded(&newest());
    let again = ClusterFile::read("b.yaml", &spec.to_yaml()).unwrap();
    assert_eq!(again.expanded(&newest()), spec);
    assert_eq!(ClusterSpec::from_yaml(&spec.to_yaml()).unwrap(), spec);
    assert_eq!(spec.nodes[2].labels.to_string(), "n=1,yes=yes");
    assert_eq!(spec.nodes[4].bundle.as_deref(), Some("0123456789"));
    insta::assert_snapshot!(spec.nodes[3].kubelet, @r#"a="50",b="true",c=[1.5,null,{"1":false,"d.e/f":"x\ny"}],g={},h=[],i="",j=-1,k=0.1,maxPods=50"#);
}

#[test]
fn the_examples_are_sound() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    // The tests run on machines of this size.
    let host = HostSize { cpus: 2, memory: 16 * 1024 * MIB };
    let mut seen = 0;
    for item in std::fs::read_dir(examples).unwrap() {
        let path = item.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let (name, text) = (path.display().to_string(), std::fs::read_to_string(&path).unwrap());
            assert_eq!(wrong(&text, &host), "", "{name}");
            let spec = ClusterFile::read(&name, &text).unwrap().expanded(&newest());
            assert_eq!(spec.warnings(&host), [], "{name}");
            seen += 1;
        }
    }
    assert!(seen >= 8, "{seen}");
}

#[test]
fn the_schema_has_the_keys_that_are_read() {
    let schema: Json = serde_json::from_str(SCHEMA).unwrap();
    let keys = |pointer: &str| -> BTreeSet<String> {
        let schema = schema.pointer(pointer).unwrap_or_else(|| panic!("{pointer}"));
        assert_eq!(schema["additionalProperties"], false, "{pointer}");
        schema["properties"].as_object().unwrap().keys().cloned().collect()
    };
    let known = |lists: &[&[&str]]| lists.concat().iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    assert_eq!(keys(""), known(&[&CLUSTER_KEYS]));
    assert_eq!(keys("/properties/network"), known(&[&network::KEYS]));
    assert_eq!(keys("/properties/apiServer"), known(&[&API_SERVER_KEYS]));
    assert_eq!(keys("/properties/nodeDefaults"), known(&[&SETTING_KEYS]));
    assert_eq!(keys("/properties/nodes/items"), known(&[&nodes::KEYS, &SETTING_KEYS]));
}

/// Any value that a field of the kubelet can have.
fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        (-1e6..1e6_f64).prop_map(Json::from),
        "[ -~\n]{0,12}".prop_map(Json::from),
        "(0x|0o|[-+.])?[0-9]{1,3}([.:e_][0-9]{1,2})?|yes|No|null|~|true|<<".prop_map(Json::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::btree_map("[ -~]{0,8}", inner, 0..4)
                .prop_map(|map| Json::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_kubelet_setting_reads_as_it_was_written(value in any_json()) {
        let mut spec = read("").expanded(&newest());
        spec.nodes[0].kubelet = BTreeMap::from([("field".to_owned(), value)]).try_into().unwrap();
        let yaml = spec.to_yaml();
        prop_assert_eq!(&ClusterSpec::from_yaml(&yaml).unwrap(), &spec);
        prop_assert_eq!(ClusterFile::read("a.yaml", &yaml).unwrap().expanded(&newest()), spec);
    }

    #[test]
    fn any_text_is_a_cluster_or_an_error(text in "([a-zN-]{0,8}[:\\[\\]{},\n \"'&*|]{0,3}){0,12}") {
        drop(ClusterFile::read("a", &text));
        drop(ClusterFile::read("a", &format!("{HEAD}nodes:\n{text}")));
    }
}

#[test]
fn naming_the_default_driver_is_the_same_as_naming_none() {
    let spec = |text: &str| read(text).expanded(&newest());
    let plain = "nodeDefaults: {cpus: 2}\nnodes: [{}, {role: worker}]\n";
    let named = "driver: native\nnodeDefaults: {driver: native, cpus: 2}\nnodes: [{driver: native}, {role: worker}]\n";
    assert_eq!(spec(named), spec(plain));
}

#[test]
fn a_node_has_its_own_isolation_or_that_of_all() {
    let spec = |text: &str| read(text).expanded(&newest());
    let isolations = |spec: &ClusterSpec| spec.nodes.iter().map(|node| node.isolation).collect::<Vec<_>>();
    let mixed = spec("nodeDefaults: {isolation: user}\nnodes: [{isolation: none}, {role: worker}]\n");
    assert_eq!(isolations(&mixed), [Isolation::None, Isolation::User]);
    assert_eq!(mixed.node_defaults.isolation, Isolation::User, "of nodes that are added later");
    // What is exported reads back: a default that a node lacks would be added to it.
    let again = ClusterFile::read("a.yaml", &mixed.exported().to_yaml()).unwrap().expanded(&newest());
    assert_eq!((isolations(&again), again.node_defaults.isolation), (isolations(&mixed), Isolation::None));
    let same = spec("nodeDefaults: {isolation: user}\nnodes: [{}, {role: worker}]\n");
    let again = ClusterFile::read("a.yaml", &same.exported().to_yaml()).unwrap().expanded(&newest());
    assert_eq!((isolations(&again), again.node_defaults.isolation), (isolations(&same), Isolation::User));
    assert_eq!(spec("nodes: [{isolation: none}]\n"), spec("nodes: [{}]\n"));
}
