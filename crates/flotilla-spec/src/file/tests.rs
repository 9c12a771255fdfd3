use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::Value as Json;

use super::*;
use crate::SpecErrorKind;
use crate::quantity::MIB;

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
    let told = errors.iter().map(|error| match error.hint() {
        Some(hint) => format!("{error} [{hint}]"),
        None => error.to_string(),
    });
    told.collect::<Vec<_>>().join("\n")
}

/// What is wrong with a file: with the text of it or, if that can be read, with the cluster that it makes.
fn wrong(text: &str, host: &HostSize) -> String {
    match ClusterFile::read("a.yaml", text) {
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
    driver: native
    network:
      nodePodPrefix: 24
      serviceSubnet: 10.96.0.0/12
      dnsDomain: cluster.local
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
fn what_is_left_open_stays_as_it_is() {
    let known = read("kubernetesVersion: v1.36.4\nnetwork: {dnsDomain: a.b}\nnodes: [{memory: 2g}, {}]");
    let known = known.expanded(&newest());
    let over = read("").expanded_over(&known);
    assert_eq!((&over.kubernetes_version, &over.network), (&known.kubernetes_version, &known.network));
    // Nodes are not left open: the file has all of them.
    assert_eq!((over.nodes.len(), over.nodes[0].memory), (1, Memory::default()));
}

#[test]
fn the_file_of_a_cluster_reads_as_itself() {
    let text = "\
kubernetesVersion: 1.36.4
driver: native
network: {subnet: 10.213.4.0/24, podSubnet: 10.9.0.0/16, nodePodPrefix: /25}
apiServer: {names: ['*.a.b'], ips: [1.2.3.4, '::1']}
extraConfig: [kubelet.max-pods=50]
featureGates: {A: true}
nodes: [{count: 2, memory: 3072, cpus: 2, disk: 1.5g}, {name: x, labels: {n: 1, 'yes': yes}, taints: ['a:NoExecute'], state: stopped}]
";
    let spec = read(text).expanded(&newest());
    let again = ClusterFile::read("b.yaml", &spec.to_yaml()).unwrap();
    assert_eq!(again.expanded(&newest()), spec);
    assert_eq!(spec.nodes[2].labels.to_string(), "n=1,yes=yes");
}

#[test]
fn everything_wrong_is_told_at_once_with_its_place() {
    let text = "\
apiVersion: flotilla.dev/v2
kind: Cluster
name: My_Cluster
kubernetesVersion: newest
driver: docker
netwrk: {}
network: {subnet: 10.0.0.5/24, nodePodPrefix: big, dns: x}
apiServer: [a]
extraConfig: [kublet.a=b, kubelet.max-pods=5]
featureGates: {A: maybe}
nodeDefaults: {memory: 3x, name: a}
nodes: 3
";
    insta::assert_snapshot!(wrong(text, &HOST), @r#"
    a.yaml:1:13 (`apiVersion: flotilla.dev/v2`): "flotilla.dev/v2" is not an apiVersion this flotilla knows, it wants "flotilla.dev/v1"
    a.yaml:3:7 (`name: My_Cluster`): the cluster name "My_Cluster" has a 'M' in it, where only a-z, 0-9 and '-' may be; try `my-cluster`
    a.yaml:4:20 (`kubernetesVersion: newest`): "newest" is not a version of Kubernetes; write a full version, for instance `v1.37.1`
    a.yaml:5:9 (`driver: docker`): "docker" is not a driver: these are native
    a.yaml:6:1 (`netwrk: {}`): "netwrk" is not a key here: these are apiVersion, kind, name, kubernetesVersion, driver, network, apiServer, extraConfig, featureGates, nodeDefaults, nodes; did you mean `network`?
    a.yaml:7:19 (`network: {subnet: 10.0.0.5/24, nodePodPrefix: big, dns: x}`): 10.0.0.5/24 is an address with a prefix, not a range; write `10.0.0.0/24`
    a.yaml:7:47 (`network: {subnet: 10.0.0.5/24, nodePodPrefix: big, dns: x}`): "big" is not a whole number from 1 to 32
    a.yaml:7:52 (`network: {subnet: 10.0.0.5/24, nodePodPrefix: big, dns: x}`): "dns" is not a key here: these are subnet, podSubnet, nodePodPrefix, serviceSubnet, dnsDomain
    a.yaml:8:12 (`apiServer: [a]`): here should be keys with values
    a.yaml:9:15 (`extraConfig: [kublet.a=b, kubelet.max-pods=5]`): "kublet" is not a component: these are kubeadm, kubelet, apiserver, controller-manager, scheduler, etcd, kube-proxy; try `kubelet`
    a.yaml:10:19 (`featureGates: {A: maybe}`): "A=maybe" is not a feature with true or false; write `Name=true` or `Name=false`, with commas between several
    a.yaml:11:24 (`nodeDefaults: {memory: 3x, name: a}`): "3x" is not a size; a size is a number of megabytes (`3072`) or has a unit (`512m`, `1.5g`)
    a.yaml:11:28 (`nodeDefaults: {memory: 3x, name: a}`): "name" is not a key here: these are cpus, memory, disk, labels, taints
    a.yaml:12:8 (`nodes: 3`): here should be a list
    "#);
}

#[test]
fn everything_wrong_with_nodes_is_told_at_once() {
    let text = "\
nodes:
- {role: boss, cpus: 0}
- name: a
  count: 2
  memroy: 3g
- count: 0
- state: runing
  labels: {a b: c, d: [e]}
  taints: [a=b]
- [1]
";
    insta::assert_snapshot!(wrong(&format!("{HEAD}{text}"), &HOST), @r#"
    a.yaml:5:10 (`- {role: boss, cpus: 0}`): "boss" is not a role: these are control-plane, worker
    a.yaml:5:22 (`- {role: boss, cpus: 0}`): "0" is not a number of CPUs; write a whole number from 1, `max` or `no-limit`
    a.yaml:7:10 (`count: 2`): a node that has a name cannot be counted; leave out `name`: counted nodes are named by the cluster and their number
    a.yaml:8:3 (`memroy: 3g`): "memroy" is not a key here: these are name, count, role, state, cpus, memory, disk, labels, taints; did you mean `memory`?
    a.yaml:9:10 (`- count: 0`): "0" is not a whole number from 1 to 1000
    a.yaml:10:10 (`- state: runing`): "runing" is not a state: these are running, stopped; did you mean `running`?
    a.yaml:11:17 (`labels: {a b: c, d: [e]}`): "a b=c" is not a label; write `key=value`, with commas between several
    a.yaml:11:23 (`labels: {a b: c, d: [e]}`): here should be text or a number
    a.yaml:12:12 (`taints: [a=b]`): "a=b" is not a taint; write `key=value:NoSchedule`, PreferNoSchedule or NoExecute
    a.yaml:13:3 (`- [1]`): here should be keys with values
    "#);
}

#[test]
fn what_only_shows_when_values_meet_has_a_place_as_well() {
    let text = "\
network: {subnet: 10.96.0.0/24, nodePodPrefix: 30, dnsDomain: ''}
nodeDefaults:
  memory: 100m
nodes:
- {memory: 9g, cpus: 5, state: stopped}
- name: a
  disk: 1g
- {name: a, memory: 1g}
- {role: control-plane, memory: 2g}
";
    let host = HostSize { cpus: 4, memory: 8 * 1024 * MIB };
    insta::assert_snapshot!(wrong(&format!("{HEAD}{text}"), &host), @r#"
    a.yaml:8:22 (`- {memory: 9g, cpus: 5, state: stopped}`): node demo wants 5 CPUs, the host has 4; give it at most 4, or `max`
    a.yaml:8:12 (`- {memory: 9g, cpus: 5, state: stopped}`): node demo wants 9216 MiB of memory, the host has 8192 MiB; give it at most 8192m, or `max`
    a.yaml:11:21 (`- {name: a, memory: 1g}`): node a has 100 MiB of memory, a worker needs 256 MiB; give it at least 256m
    a.yaml:10:9 (`disk: 1g`): node a has a disk of 1024 MiB, it needs 2048 MiB; give it at least 2048m
    a.yaml:11:10 (`- {name: a, memory: 1g}`): two nodes have the name a
    a.yaml:4:19 (`network: {subnet: 10.96.0.0/24, nodePodPrefix: 30, dnsDomain: ''}`): the node subnet 10.96.0.0/24 overlaps the service subnet 10.96.0.0/12
    a.yaml:4:48 (`network: {subnet: 10.96.0.0/24, nodePodPrefix: 30, dnsDomain: ''}`): a node's pods need more addresses than a /30 has: /28 at least
    a.yaml:4:63 (`network: {subnet: 10.96.0.0/24, nodePodPrefix: 30, dnsDomain: ''}`): "" is not a DNS domain
    a.yaml:12:10 (`- {role: control-plane, memory: 2g}`): node demo-m04 would be a second control plane, and that is not supported yet
    a.yaml:8:32 (`- {memory: 9g, cpus: 5, state: stopped}`): the control plane demo cannot be stopped while other nodes run; stop the other nodes as well, or let it run
    "#);
    let none = "nodes: [{role: worker}]";
    insta::assert_snapshot!(wrong(&format!("{HEAD}{none}"), &host), @"
    the cluster has no control plane
    ");
}

#[test]
fn what_is_no_yaml_is_told_with_its_place() {
    let bad = [
        "",
        "- a",
        "name: demo",
        "nodes: [",
        "name: a\nname: b",
        "a: b\n---\na: b",
        "kind: &a [*a]",
        "[{}: 1",
    ];
    insta::assert_snapshot!(bad.map(|text| wrong(text, &HOST)).join("\n--\n"), @r#"
    a.yaml:1:1 (``): the key "apiVersion" is missing
    a.yaml:1:1 (``): the key "kind" is missing
    a.yaml:1:1 (``): the key "name" is missing
    --
    a.yaml:1:1 (`- a`): here should be keys with values
    --
    a.yaml:1:1 (`name: demo`): the key "apiVersion" is missing
    a.yaml:1:1 (`name: demo`): the key "kind" is missing
    --
    a.yaml:1:8 (`nodes: [`): unclosed bracket '['
    --
    a.yaml:2:1 (`name: b`): duplicate mapping key: name not allowed here
    --
    a.yaml:3:1 (`a: b`): only single YAML document expected but multiple found
    --
    a.yaml:1:11 (`kind: &a [*a]`): Recursive reference not allowed here
    --
    a.yaml:1:1 (`[{}: 1`): unclosed bracket '['
    "#);
}

#[test]
fn a_file_is_to_blame_except_where_the_host_is_too_small() {
    let kind = |rest: &str| match ClusterFile::read("a.yaml", &format!("{HEAD}{rest}")) {
        Err(errors) => errors[0].kind(),
        Ok(file) => file.check(&file.expanded(&newest()), &HOST)[0].kind(),
    };
    assert_eq!(kind("nodes: [{memory: 3x}]"), SpecErrorKind::Config);
    assert_eq!(kind("nodes: [{memory: 999999g}]"), SpecErrorKind::Memory);
    assert_eq!(kind("nodes: [{cpus: 9999}]"), SpecErrorKind::Cores);
    assert_eq!(kind("nodes: ["), SpecErrorKind::Config);
}

#[test]
fn the_examples_are_sound() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut seen = 0;
    for item in std::fs::read_dir(folder).unwrap() {
        let path = item.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let name = path.display().to_string();
            assert_eq!(wrong(&std::fs::read_to_string(&path).unwrap(), &HOST), "", "{name}");
            seen += 1;
        }
    }
    assert!(seen >= 3, "{seen}");
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
    assert_eq!(keys("/properties/network"), known(&[&NETWORK_KEYS]));
    assert_eq!(keys("/properties/apiServer"), known(&[&API_SERVER_KEYS]));
    assert_eq!(keys("/properties/nodeDefaults"), known(&[&SETTING_KEYS]));
    assert_eq!(keys("/properties/nodes/items"), known(&[&NODE_KEYS, &SETTING_KEYS]));
}

proptest! {
    #[test]
    fn any_text_is_a_cluster_or_an_error(text in "([a-zN-]{0,8}[:\\[\\]{},\n \"'&*|]{0,3}){0,12}") {
        drop(ClusterFile::read("a", &text));
        drop(ClusterFile::read("a", &format!("{HEAD}nodes:\n{text}")));
    }
}
