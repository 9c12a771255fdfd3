//! All errors of a file, with their places.

use super::*;
use crate::SpecErrorKind;

#[test]
fn everything_wrong_is_reported_at_once_with_its_place() {
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
    let wrong = wrong(text, &HOST).replace(&crate::driver::platform(), "[PLATFORM]");
    insta::assert_snapshot!(wrong, @r#"
    a.yaml:1:13 (`apiVersion: flotilla.dev/v2`): unknown apiVersion "flotilla.dev/v2": expected "flotilla.dev/v1"
    a.yaml:3:7 (`name: My_Cluster`): cluster name "My_Cluster" contains 'M': only a-z, 0-9 and '-' are allowed; try `my-cluster`
    a.yaml:4:20 (`kubernetesVersion: newest`): "newest" is not a Kubernetes version; write a full version, for example `v1.37.1`
    a.yaml:5:9 (`driver: docker`): The driver 'docker' is not supported on [PLATFORM]; leave it out: `native` creates nodes from Linux namespaces
    a.yaml:6:1 (`netwrk: {}`): unknown key "netwrk": expected one of apiVersion, kind, name, kubernetesVersion, driver, network, apiServer, certificateAuthority, extraConfig, featureGates, taintControlPlanes, nodeDefaults, nodes; did you mean `network`?
    a.yaml:7:19 (`network: {subnet: 10.0.0.5/24, nodePodPrefix: big, dns: x}`): 10.0.0.5/24 is an address with a prefix, not a range; write `10.0.0.0/24`
    a.yaml:7:47 (`network: {subnet: 10.0.0.5/24, nodePodPrefix: big, dns: x}`): "big" is not a whole number from 1 to 32
    a.yaml:7:52 (`network: {subnet: 10.0.0.5/24, nodePodPrefix: big, dns: x}`): unknown key "dns": expected one of subnet, podSubnet, nodePodPrefix, serviceSubnet, dnsDomain, cni
    a.yaml:8:12 (`apiServer: [a]`): expected keys with values
    a.yaml:9:15 (`extraConfig: [kublet.a=b, kubelet.max-pods=5]`): unknown component "kublet": expected one of kubeadm, kubelet, apiserver, controller-manager, scheduler, etcd, kube-proxy; try `kubelet`
    a.yaml:10:19 (`featureGates: {A: maybe}`): "A=maybe" is not a feature gate; write `Name=true` or `Name=false`, separated by commas
    a.yaml:11:24 (`nodeDefaults: {memory: 3x, name: a}`): "3x" is not a size; write a number of megabytes (`3072`) or a number with a unit (`512m`, `1.5g`)
    a.yaml:11:28 (`nodeDefaults: {memory: 3x, name: a}`): unknown key "name": expected one of driver, isolation, cpus, memory, disk, labels, taints, kubernetesVersion, bundle, kubelet, extraConfig, featureGates, mounts, ports
    a.yaml:12:8 (`nodes: 3`): expected a list
    "#);
}

#[test]
fn everything_wrong_with_nodes_is_reported_at_once() {
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
- kubernetesVersion: v1.36
  bundle: []
  kubelet: {max-pods: 5, kind: x, evictionHard: {[a]: b}}
  extraConfig: [max-pods=5]
  featureGates: {A: 1, B C: true}
  mounts: [/a, a:/b]
  ports: [99999, 1:2:3:4, 80/sctp]
- {kubelet: [], extraConfig: a, mounts: {a: b}, ports: 80}
";
    insta::assert_snapshot!(wrong(&format!("{HEAD}{text}"), &HOST), @r#"
    a.yaml:5:10 (`- {role: boss, cpus: 0}`): unknown role "boss": expected one of control-plane, worker
    a.yaml:5:22 (`- {role: boss, cpus: 0}`): "0" is not a number of CPUs; write a whole number, `max` or `no-limit`
    a.yaml:7:10 (`count: 2`): `name` and `count` cannot be combined; leave out `name`: flotilla names nodes with `count`
    a.yaml:8:3 (`memroy: 3g`): unknown key "memroy": expected one of name, count, role, state, driver, isolation, cpus, memory, disk, labels, taints, kubernetesVersion, bundle, kubelet, extraConfig, featureGates, mounts, ports; did you mean `memory`?
    a.yaml:9:10 (`- count: 0`): "0" is not a whole number from 1 to 1000
    a.yaml:10:10 (`- state: runing`): unknown state "runing": expected one of running, stopped; did you mean `running`?
    a.yaml:11:17 (`labels: {a b: c, d: [e]}`): "a b=c" is not a label; write `key=value`, separated by commas
    a.yaml:11:23 (`labels: {a b: c, d: [e]}`): expected text or a number
    a.yaml:12:12 (`taints: [a=b]`): "a=b" is not a taint; write `key=value:NoSchedule`, PreferNoSchedule or NoExecute
    a.yaml:13:3 (`- [1]`): expected keys with values
    a.yaml:14:22 (`- kubernetesVersion: v1.36`): "v1.36" is not a Kubernetes version; write a full version, for example `v1.37.1`
    a.yaml:15:11 (`bundle: []`): expected text or a number
    a.yaml:16:13 (`kubelet: {max-pods: 5, kind: x, evictionHard: {[a]: b}}`): "max-pods" is not a field of the kubelet's configuration; write fields of a KubeletConfiguration, for example `maxPods: 50`
    a.yaml:16:26 (`kubelet: {max-pods: 5, kind: x, evictionHard: {[a]: b}}`): "kind" is not a field of the kubelet's configuration; write fields of a KubeletConfiguration, for example `maxPods: 50`
    a.yaml:16:50 (`kubelet: {max-pods: 5, kind: x, evictionHard: {[a]: b}}`): expected text or a number
    a.yaml:17:17 (`extraConfig: [max-pods=5]`): option "max-pods=5" has no component or no key before `=`; write `component.key=value`, for example `kubelet.max-pods=50`
    a.yaml:18:21 (`featureGates: {A: 1, B C: true}`): "A=1" is not a feature gate; write `Name=true` or `Name=false`, separated by commas
    a.yaml:18:29 (`featureGates: {A: 1, B C: true}`): "B C" is not a feature gate; write `Name=true` or `Name=false`, separated by commas
    a.yaml:19:12 (`mounts: [/a, a:/b]`): "/a" is not a mount; write `/path/on/the/host:/path/in/the/node`, with `:ro` at the end for read-only
    a.yaml:19:16 (`mounts: [/a, a:/b]`): "a:/b" is not a mount; write `/path/on/the/host:/path/in/the/node`, with `:ro` at the end for read-only
    a.yaml:20:11 (`ports: [99999, 1:2:3:4, 80/sctp]`): "99999" is not a port to publish; write `8080:30080`, `0.0.0.0:8080:30080` or `5353:30053/udp`: the host's port first
    a.yaml:20:18 (`ports: [99999, 1:2:3:4, 80/sctp]`): "1:2:3:4" is not a port to publish; write `8080:30080`, `0.0.0.0:8080:30080` or `5353:30053/udp`: the host's port first
    a.yaml:20:27 (`ports: [99999, 1:2:3:4, 80/sctp]`): "80/sctp" is not a port to publish; write `8080:30080`, `0.0.0.0:8080:30080` or `5353:30053/udp`: the host's port first
    a.yaml:21:13 (`- {kubelet: [], extraConfig: a, mounts: {a: b}, ports: 80}`): expected keys with values
    a.yaml:21:30 (`- {kubelet: [], extraConfig: a, mounts: {a: b}, ports: 80}`): expected a list
    a.yaml:21:41 (`- {kubelet: [], extraConfig: a, mounts: {a: b}, ports: 80}`): expected a list
    a.yaml:21:56 (`- {kubelet: [], extraConfig: a, mounts: {a: b}, ports: 80}`): expected a list
    "#);
}

#[test]
fn what_only_shows_when_values_meet_has_a_place_as_well() {
    let text = "\
network: {subnet: 10.96.0.0/24, nodePodPrefix: 30, dnsDomain: ''}
nodeDefaults:
  memory: 100m
nodes:
- {memory: 129g, cpus: 5, state: stopped}
- name: a
  disk: 1g
- {name: a, memory: 1g}
- {role: control-plane, memory: 2g, state: stopped}
";
    let host = HostSize { cpus: 4, memory: 8 * 1024 * MIB };
    insta::assert_snapshot!(wrong(&format!("{HEAD}{text}"), &host), @r#"
    a.yaml:4:19 (`network: {subnet: 10.96.0.0/24, nodePodPrefix: 30, dnsDomain: ''}`): the node subnet 10.96.0.0/24 overlaps the service subnet 10.96.0.0/12
    a.yaml:4:48 (`network: {subnet: 10.96.0.0/24, nodePodPrefix: 30, dnsDomain: ''}`): a pod range of /30 per node is too small: at most /28 is allowed
    a.yaml:4:63 (`network: {subnet: 10.96.0.0/24, nodePodPrefix: 30, dnsDomain: ''}`): "" is not a DNS domain
    a.yaml:8:12 (`- {memory: 129g, cpus: 5, state: stopped}`): node demo has 129 GiB of memory, more than the host's 8 GiB; use memory: max, or at most 16 times the host's memory: 128Gi
    a.yaml:8:24 (`- {memory: 129g, cpus: 5, state: stopped}`): node demo has 5 CPUs, more than the host's 4; use cpus: max, or at most 4
    a.yaml:8:34 (`- {memory: 129g, cpus: 5, state: stopped}`): control plane demo cannot be stopped while other nodes run: at least one control plane must run; stop the other nodes as well, or keep it running
    a.yaml:10:9 (`disk: 1g`): node a has a disk of 1 GiB, but needs 2 GiB; use disk: 2Gi or more
    a.yaml:11:10 (`- {name: a, memory: 1g}`): two nodes are named a
    a.yaml:11:21 (`- {name: a, memory: 1g}`): node a has 100 MiB of memory, but a worker needs 256 MiB; use memory: 256Mi or more
    "#);
    let text = "\
nodeDefaults:
  extraConfig: [kubelet.a=b, apiserver.v=4]
nodes:
- {kubernetesVersion: v1.36.4, ports: [80, 0.0.0.0:80:81], extraConfig: []}
- name: a
  kubernetesVersion: v1.38.0
  bundle: '0123'
  extraConfig: [scheduler.v=4, etcd.a=b]
  mounts: [/a:/x, /b:/y, /c:/x/, /a:/etc/kubernetes/pki]
- {name: b, kubernetesVersion: v1.33.9, ports: ['8080:80', 80:80/udp], extraConfig: []}
- {count: 2, ports: [8080:81], mounts: [/a:/etc]}
";
    insta::assert_snapshot!(wrong(&format!("{HEAD}{text}"), &host), @"
    a.yaml:5:30 (`extraConfig: [kubelet.a=b, apiserver.v=4]`): apiserver.v=4 cannot be set for node demo-m04: only kubelet options can be set for one node; set it for the cluster: `extraConfig` next to `nodes`, or `start --extra-config`
    a.yaml:5:30 (`extraConfig: [kubelet.a=b, apiserver.v=4]`): apiserver.v=4 cannot be set for node demo-m05: only kubelet options can be set for one node; set it for the cluster: `extraConfig` next to `nodes`, or `start --extra-config`
    a.yaml:7:23 (`- {kubernetesVersion: v1.36.4, ports: [80, 0.0.0.0:80:81], extraConfig: []}`): control plane demo cannot have version v1.36.4 in a cluster of version v1.37.1; change the version of the cluster, or only of workers
    a.yaml:7:44 (`- {kubernetesVersion: v1.36.4, ports: [80, 0.0.0.0:80:81], extraConfig: []}`): port 0.0.0.0:80:81 of node demo conflicts with 80:80 of node demo; publish another port of the host
    a.yaml:9:22 (`kubernetesVersion: v1.38.0`): kubelet v1.38.0 of node a is too new for Kubernetes v1.37.1; choose a version from v1.34 to v1.37
    a.yaml:10:11 (`bundle: '0123'`): node a: set `kubernetesVersion` or `bundle`, not both; leave out the version: a bundle has one
    a.yaml:11:17 (`extraConfig: [scheduler.v=4, etcd.a=b]`): scheduler.v=4 cannot be set for node a: only kubelet options can be set for one node; set it for the cluster: `extraConfig` next to `nodes`, or `start --extra-config`
    a.yaml:11:32 (`extraConfig: [scheduler.v=4, etcd.a=b]`): etcd.a=b cannot be set for node a: only kubelet options can be set for one node; set it for the cluster: `extraConfig` next to `nodes`, or `start --extra-config`
    a.yaml:12:11 (`mounts: [/a:/x, /b:/y, /c:/x/, /a:/etc/kubernetes/pki]`): node a has two mounts on /x/
    a.yaml:12:34 (`mounts: [/a:/x, /b:/y, /c:/x/, /a:/etc/kubernetes/pki]`): mount /a:/etc/kubernetes/pki conflicts with /etc/kubernetes, which the node owns; to use your own certificate authority, leave out the mount and set --certificate-authority DIR, or `certificateAuthority` in a file
    a.yaml:13:32 (`- {name: b, kubernetesVersion: v1.33.9, ports: ['8080:80', 80:80/udp], extraConf`): kubelet v1.33.9 of node b is too old for Kubernetes v1.37.1; choose a version from v1.34 to v1.37
    a.yaml:14:22 (`- {count: 2, ports: [8080:81], mounts: [/a:/etc]}`): port 8080:81 of node demo-m04 conflicts with 8080:80 of node b; publish another port of the host
    a.yaml:14:22 (`- {count: 2, ports: [8080:81], mounts: [/a:/etc]}`): port 8080:81 of node demo-m05 conflicts with 8080:80 of node b; publish another port of the host
    a.yaml:14:41 (`- {count: 2, ports: [8080:81], mounts: [/a:/etc]}`): mount /a:/etc conflicts with /etc/cni, which the node owns; mount it on another directory, for example `/mnt/data`
    ");
    let none = "nodes: [{role: worker}]";
    assert_eq!(
        wrong(&format!("{HEAD}{none}"), &host),
        "a.yaml:4:8 (`nodes: [{role: worker}]`): the cluster has no control plane"
    );
}

#[test]
fn what_cannot_be_read_does_not_hide_what_does_not_fit() {
    let text = "\
network: {subnet: 10.96.0.0/24}
nodes:
- memroy: 2g
  cpus: 1
  cpus: 2
- {name: old, kubernetesVersion: v1.30.0, kubelet: {evictionHard: {a: 1, a: 2}}}
- {role: contrl-plane}
";
    insta::assert_snapshot!(wrong(&format!("{HEAD}{text}"), &HOST), @r#"
    a.yaml:4:19 (`network: {subnet: 10.96.0.0/24}`): the node subnet 10.96.0.0/24 overlaps the service subnet 10.96.0.0/12
    a.yaml:6:3 (`- memroy: 2g`): unknown key "memroy": expected one of name, count, role, state, driver, isolation, cpus, memory, disk, labels, taints, kubernetesVersion, bundle, kubelet, extraConfig, featureGates, mounts, ports; did you mean `memory`?
    a.yaml:8:3 (`cpus: 2`): duplicate key "cpus"
    a.yaml:9:34 (`- {name: old, kubernetesVersion: v1.30.0, kubelet: {evictionHard: {a: 1, a: 2}}}`): kubelet v1.30.0 of node old is too old for Kubernetes v1.37.1; choose a version from v1.34 to v1.37
    a.yaml:9:74 (`- {name: old, kubernetesVersion: v1.30.0, kubelet: {evictionHard: {a: 1, a: 2}}}`): duplicate key "a"
    a.yaml:10:10 (`- {role: contrl-plane}`): unknown role "contrl-plane": expected one of control-plane, worker; did you mean `control-plane`?
    "#);
    // A key that overrides a merged anchor is not a duplicate.
    let merged = "nodes:\n- &one {memory: 1g, cpus: 1}\n- {<<: *one, memory: 2g}\n";
    assert_eq!(wrong(&format!("{HEAD}{merged}"), &HOST), "");
}

#[test]
fn what_is_no_yaml_is_reported_with_its_place() {
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
    a.yaml:1:1 (``): key "apiVersion" is missing
    a.yaml:1:1 (``): key "kind" is missing
    a.yaml:1:1 (``): key "name" is missing
    --
    a.yaml:1:1 (`- a`): expected keys with values
    --
    a.yaml:1:1 (`name: demo`): key "apiVersion" is missing
    a.yaml:1:1 (`name: demo`): key "kind" is missing
    --
    a.yaml:1:8 (`nodes: [`): unclosed bracket '['
    --
    a.yaml:1:1 (`name: a`): key "apiVersion" is missing
    a.yaml:1:1 (`name: a`): key "kind" is missing
    a.yaml:2:1 (`name: b`): duplicate key "name"
    --
    a.yaml:3:1 (`a: b`): only single YAML document expected but multiple found
    --
    a.yaml:1:11 (`kind: &a [*a]`): Recursive reference not allowed here
    --
    a.yaml:1:1 (`[{}: 1`): unclosed bracket '['
    "#);
}

#[test]
fn a_key_with_nothing_behind_it_is_as_good_as_none() {
    let text = "apiVersion:\nkind: ~\nname: null\nnetwork:\nnodes:\n";
    insta::assert_snapshot!(wrong(text, &HOST), @r#"
    a.yaml:1:11 (`apiVersion:`): key "apiVersion" is missing
    a.yaml:2:7 (`kind: ~`): key "kind" is missing
    a.yaml:3:7 (`name: null`): key "name" is missing
    "#);
    // But an empty value is an error where a value is required: it would be dropped silently.
    let text = "nodes: [{labels: {disk: }, taints: [~], mounts: [], name: ~}]";
    insta::assert_snapshot!(wrong(&format!("{HEAD}{text}"), &HOST), @"
    a.yaml:4:23 (`nodes: [{labels: {disk: }, taints: [~], mounts: [], name: ~}]`): expected text or a number
    a.yaml:4:37 (`nodes: [{labels: {disk: }, taints: [~], mounts: [], name: ~}]`): expected text or a number
    ");
}

#[test]
fn a_kubelet_has_the_fields_of_its_version() {
    let text = "\
nodeDefaults:
  kubelet:
    maxPods: 50
    maxPod: 50
nodes:
- {}
- {count: 2, kubelet: {evictionHrad: {}, someWonder: 1}}
- {name: own, bundle: '0123', kubelet: {someWonder: 1}}
";
    insta::assert_snapshot!(wrong(&format!("{HEAD}{text}"), &HOST), @r#"
    a.yaml:7:5 (`maxPod: 50`): "maxPod" is not a field of the kubelet's configuration; did you mean `maxPods`?
    a.yaml:10:24 (`- {count: 2, kubelet: {evictionHrad: {}, someWonder: 1}}`): "evictionHrad" is not a field of the kubelet's configuration; did you mean `evictionHard`?
    a.yaml:10:42 (`- {count: 2, kubelet: {evictionHrad: {}, someWonder: 1}}`): "someWonder" is not a field of the kubelet's configuration; fields are known up to Kubernetes v1.37; a newer kubelet, or one from your own `bundle`, may have others
    "#);
    let newer = format!("{HEAD}kubernetesVersion: v1.38.0\n{text}");
    assert_eq!(wrong(&newer, &HOST), "");
}

#[test]
fn what_stands_in_a_list_has_a_place_of_its_own() {
    let text = "\
apiServer:
  names:
  - good.example.org
  - bad name
  port: 2379
nodes:
- ports:
  - 80:80
  - 81:80
- extraConfig:
  - kubelet.v=4
  - apiserver.v=4
  ports:
  - 82:80
  - 81:81
";
    insta::assert_snapshot!(wrong(&format!("{HEAD}{text}"), &HOST), @r#"
    a.yaml:7:5 (`- bad name`): "bad name" is not a valid name for the API server's certificate
    a.yaml:8:9 (`port: 2379`): the API server cannot have port 2379: in every node it is for etcd
    a.yaml:15:5 (`- apiserver.v=4`): apiserver.v=4 cannot be set for node demo-m02: only kubelet options can be set for one node; set it for the cluster: `extraConfig` next to `nodes`, or `start --extra-config`
    a.yaml:18:5 (`- 81:81`): port 81:81 of node demo-m02 conflicts with 81:80 of node demo; publish another port of the host
    "#);
}

#[test]
fn what_others_have_against_a_wish_has_a_place_as_well() {
    let text = "\
kubernetesVersion: v1.37.9
nodeDefaults:
  mounts:
  - /usr:/a
  - /nowhere:/b
nodes:
- {}
- {count: 2, kubernetesVersion: v1.36.3, mounts: []}
- {name: own, bundle: '0123'}
";
    let file = read(text);
    let unmet = |node: Option<&str>, key, item: Option<&str>, why: &str| SpecError::Unmet {
        requirement: crate::error::Requirement {
            node: node.map(|node| node.parse().unwrap()),
            key,
            item: item.map(ToOwned::to_owned),
        },
        why: why.to_owned(),
        cure: String::new(),
        code: ("CODE", 99),
    };
    let placed = file.all_placed(vec![
        unmet(Some("own"), "bundle", None, "no bundle"),
        unmet(Some("demo-m02"), "kubernetesVersion", None, "no version"),
        unmet(Some("demo-m03"), "kubernetesVersion", None, "no version"),
        unmet(Some("demo"), "mounts", Some("/nowhere:/b"), "no directory"),
        unmet(None, "kubernetesVersion", None, "no version for all"),
        SpecError::NoAddressLeft { node: Some("demo-m03".parse().unwrap()) },
    ]);
    insta::assert_snapshot!(listed(&placed), @"
    a.yaml:4:20 (`kubernetesVersion: v1.37.9`): no version for all
    a.yaml:8:5 (`- /nowhere:/b`): no directory
    a.yaml:11:11 (`- {count: 2, kubernetesVersion: v1.36.3, mounts: []}`): the subnet has no address left for another node; create a cluster with a larger --subnet, a larger --pod-subnet or smaller ranges per node (--node-pod-prefix)
    a.yaml:11:33 (`- {count: 2, kubernetesVersion: v1.36.3, mounts: []}`): no version
    a.yaml:12:23 (`- {name: own, bundle: '0123'}`): no bundle
    ");
    assert_eq!(placed[0].kind(), SpecErrorKind::Named("CODE", 99));
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
