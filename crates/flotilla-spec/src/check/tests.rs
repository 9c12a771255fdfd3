use super::*;
use crate::{Cpus, FeatureGates, Isolation, Memory, NetworkSpec, NodeDefaults, SpecErrorKind};

const HOST: HostSize = HostSize { cpus: 4, memory: 8 * 1024 * MIB };

fn node(name: &str, role: Role) -> NodeSpec {
    NodeSpec::plain(name.parse().unwrap(), role)
}

fn cluster(nodes: Vec<NodeSpec>) -> ClusterSpec {
    ClusterSpec {
        name: "demo".parse().unwrap(),
        kubernetes_version: "v1.37.1".parse().unwrap(),
        network: NetworkSpec::default(),
        api_server: ApiServerSpec::default(),
        certificate_authority: None,
        extra_config: Vec::new(),
        feature_gates: FeatureGates::default(),
        taint_control_planes: false,
        node_defaults: NodeDefaults::default(),
        nodes,
    }
}

fn reported(findings: &[SpecError]) -> String {
    let lines = findings.iter().map(|error| {
        let hint = error.hint().unwrap_or_default();
        format!("{:?}: {error} ({hint})", error.kind())
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_plain_cluster_is_sound_and_its_first_control_plane_is_primary() {
    let nodes = vec![
        node("a", Role::Worker),
        node("b", Role::ControlPlane),
        NodeSpec { cpus: Cpus::Max, memory: Memory::Max, ..node("c", Role::ControlPlane) },
    ];
    let spec = cluster(nodes);
    assert_eq!(spec.check(&HOST), []);
    assert_eq!(spec.primary().name.as_ref(), "b");
}

#[test]
fn an_even_number_of_control_planes_is_warned_of() {
    let warned = |count: usize| {
        let nodes = (1..=count).map(|number| node(&format!("n{number}"), Role::ControlPlane));
        reported(&cluster(nodes.collect()).warnings(&HOST))
    };
    assert_eq!([warned(1), warned(3), warned(5)], ["", "", ""]);
    insta::assert_snapshot!(warned(4), @"Usage: 4 control planes tolerate no more failures than 3: use an odd number ()");
}

#[test]
fn another_control_plane_can_be_made_the_primary_one() {
    let mut spec = cluster(vec![
        node("a", Role::Worker),
        node("b", Role::ControlPlane),
        node("c", Role::Worker),
        NodeSpec { power: WantedPower::Stopped, ..node("d", Role::ControlPlane) },
        node("e", Role::ControlPlane),
    ]);
    let order = |spec: &ClusterSpec| {
        spec.nodes.iter().map(|node| node.name.to_string()).collect::<Vec<_>>().join(" ")
    };
    spec.hand_over_primary(&[]);
    assert_eq!(order(&spec), "a b c d e", "it is one that runs already");
    spec.hand_over_primary(&["b".parse().unwrap()]);
    assert_eq!(order(&spec), "a e b c d", "the next that runs");
    spec.make_primary(&"d".parse().unwrap());
    assert_eq!(order(&spec), "a d e b c");
    spec.make_primary(&"c".parse().unwrap());
    assert_eq!(order(&spec), "a d e b c", "a worker cannot be it");
    spec.hand_over_primary(&["b".parse().unwrap(), "e".parse().unwrap()]);
    assert_eq!(order(&spec), "a d e b c", "no other is left");
}

#[test]
fn everything_wrong_with_a_cluster_is_reported_at_once() {
    let size = |text: &str| text.parse::<Memory>().unwrap();
    let mut spec = cluster(vec![
        NodeSpec { cpus: "5".parse().unwrap(), memory: size("129g"), ..node("demo", Role::ControlPlane) },
        NodeSpec { memory: size("1023m"), disk: Some(1024 * MIB), ..node("demo", Role::ControlPlane) },
        NodeSpec { memory: size("100"), ..node("demo", Role::Worker) },
    ]);
    spec.network.dns_domain = String::new();
    spec.api_server.names = ["a.b", "*.a.b", "*", "a.*.b", "A"].map(str::to_owned).to_vec();
    insta::assert_snapshot!(reported(&spec.check(&HOST)), @r#"
    Cores: node demo has 5 CPUs, more than the host's 4 (use --cpus max, or at most 4)
    Memory: node demo has 129 GiB of memory, more than the host's 8 GiB (use --memory max, or at most 16 times the host's memory: 128Gi)
    Config: two nodes are named demo ()
    Memory: node demo has 1023 MiB of memory, but a control plane needs 1 GiB (use --memory 1Gi or more)
    Disk: node demo has a disk of 1 GiB, but needs 2 GiB (use --disk-size 2Gi or more)
    Memory: node demo has 100 MiB of memory, but a worker needs 256 MiB (use --memory 256Mi or more)
    Usage: "" is not a DNS domain ()
    Usage: "*" is not a valid name for the API server's certificate ()
    Usage: "a.*.b" is not a valid name for the API server's certificate ()
    Usage: "A" is not a valid name for the API server's certificate ()
    "#);
}

#[test]
fn a_cluster_without_control_plane_is_a_broken_configuration() {
    let findings = cluster(vec![node("demo", Role::Worker)]).check(&HOST);
    assert_eq!(findings, [SpecError::NoControlPlane]);
    assert_eq!(findings[0].kind(), SpecErrorKind::Config);
    assert_eq!(cluster(Vec::new()).check(&HOST), [SpecError::NoControlPlane]);
}

#[test]
fn the_least_memory_is_enough() {
    let control_plane = NodeSpec { memory: Memory::Bytes(1024 * MIB), ..node("a", Role::ControlPlane) };
    let worker = NodeSpec { memory: Memory::Bytes(256 * MIB), ..node("b", Role::Worker) };
    assert_eq!(cluster(vec![control_plane, worker]).check(&HOST), []);
}

#[test]
fn a_host_too_small_for_max_is_reported() {
    let host = HostSize { cpus: 1, memory: 512 * MIB };
    let findings =
        cluster(vec![NodeSpec { memory: Memory::Max, ..node("a", Role::ControlPlane) }]).check(&host);
    assert!(matches!(findings[..], [SpecError::MemoryTooSmall { .. }]), "{findings:?}");
}

#[test]
fn more_memory_than_the_host_has_is_a_warning_unless_it_is_nonsense() {
    let with = |sizes: &[&str]| {
        let nodes = sizes.iter().enumerate().map(|(index, size)| {
            let role = if index == 0 { Role::ControlPlane } else { Role::Worker };
            NodeSpec { memory: size.parse().unwrap(), ..node(&format!("n{index}"), role) }
        });
        cluster(nodes.collect())
    };
    for enough in [&["8g"][..], &["max"], &["no-limit", "no-limit"], &["4g", "4g"], &["no-limit", "8g"]] {
        assert_eq!(with(enough).warnings(&HOST), [], "{enough:?}");
    }
    for over in [&["9g"][..], &["128g", "2g"], &["4g", "5g"], &["max", "max"]] {
        assert_eq!(with(over).check(&HOST), [], "{over:?}");
        assert_ne!(with(over).warnings(&HOST), [], "{over:?}");
    }
    insta::assert_snapshot!(reported(&with(&["9g", "10g", "2g"]).warnings(&HOST)), @"
    Memory: node n0 has 9 GiB of memory, more than the host's 8 GiB (use --memory max, or at most 16 times the host's memory: 128Gi)
    Memory: node n1 has 10 GiB of memory, more than the host's 8 GiB (use --memory max, or at most 16 times the host's memory: 128Gi)
    ");
    let mut spec = with(&["4g", "3g", "2g"]);
    insta::assert_snapshot!(reported(&spec.warnings(&HOST)), @"Memory: the running nodes together have 9 GiB of memory, more than the host's 8 GiB ()");
    // A stopped node uses no memory.
    spec.nodes[2].power = WantedPower::Stopped;
    assert_eq!(spec.warnings(&HOST), []);
    assert!(matches!(with(&["129g"]).check(&HOST)[..], [SpecError::MemoryOverHost { .. }]));
}

#[test]
fn kubelets_may_be_three_minor_versions_older_and_control_planes_not_at_all() {
    let checked = |role, version: &str| {
        let own = NodeSpec { kubernetes_version: Some(version.parse().unwrap()), ..node("own", role) };
        cluster(vec![node("demo", Role::ControlPlane), own]).check(&HOST)
    };
    for good in ["v1.37.0", "v1.37.1", "v1.37.2", "v1.34.9"] {
        assert_eq!(checked(Role::Worker, good), [], "{good}");
    }
    assert_eq!(checked(Role::ControlPlane, "v1.37.1"), []);
    let bad = [
        checked(Role::Worker, "v1.38.0"),
        checked(Role::Worker, "v1.33.9"),
        checked(Role::ControlPlane, "v1.36.4"),
        checked(Role::ControlPlane, "v1.37.2"),
    ];
    insta::assert_snapshot!(reported(&bad.concat()), @"
    Usage: kubelet v1.38.0 of node own is too new for Kubernetes v1.37.1 (choose a version from v1.34 to v1.37)
    Usage: kubelet v1.33.9 of node own is too old for Kubernetes v1.37.1 (choose a version from v1.34 to v1.37)
    Usage: control plane own cannot have version v1.36.4 in a cluster of version v1.37.1 (change the version of the cluster, or only of workers)
    Usage: control plane own cannot have version v1.37.2 in a cluster of version v1.37.1 (change the version of the cluster, or only of workers)
    ");
}

#[test]
fn what_a_node_has_of_its_own_must_fit_together() {
    let attached = |name: &str, role, mounts: &[&str], ports: &[&str]| NodeSpec {
        mounts: mounts.iter().map(|mount| mount.parse().unwrap()).collect(),
        ports: ports.iter().map(|port| port.parse().unwrap()).collect(),
        ..node(name, role)
    };
    let sound = [
        attached("demo", Role::ControlPlane, &["/a:/b", "/a:/b/c"], &["80:1", "80:1/udp"]),
        attached("a", Role::Worker, &["/a:/b"], &["81:1", "10.0.0.1:80:1"]),
    ];
    assert_eq!(cluster(sound.to_vec()).check(&HOST), []);
    let broken = vec![
        attached("demo", Role::ControlPlane, &[], &["80:1", "80:2"]),
        NodeSpec {
            kubernetes_version: Some("v1.36.4".parse().unwrap()),
            bundle: Some("v1.36.4".to_owned()),
            extra_config: vec!["kubelet.v=4".parse().unwrap(), "apiserver.v=4".parse().unwrap()],
            ..attached(
                "a",
                Role::Worker,
                &["/a:/b", "/c:/b:ro", "/d:/etc/kubernetes/pki", "/d:/var:ro"],
                &["0.0.0.0:80:1"],
            )
        },
    ];
    insta::assert_snapshot!(reported(&cluster(broken).check(&HOST)), @"
    Usage: node a: set `kubernetesVersion` or `bundle`, not both (leave out the version: a bundle has one)
    Usage: apiserver.v=4 cannot be set for node a: only kubelet options can be set for one node (set it for the cluster: `extraConfig` next to `nodes`, or `start --extra-config`)
    Usage: node a has two mounts on /b ()
    Usage: mount /d:/etc/kubernetes/pki conflicts with /etc/kubernetes, which the node owns (to use your own certificate authority, leave out the mount and set --certificate-authority DIR, or `certificateAuthority` in a file)
    Usage: mount /d:/var:ro conflicts with /var/run, which the node owns (mount it on another directory, for example `/mnt/data`)
    Usage: port 80:2 of node demo conflicts with 80:1 of node demo (publish another port of the host)
    Usage: port 0.0.0.0:80:1 of node a conflicts with 80:1 of node demo (publish another port of the host)
    ");
}

#[test]
fn options_that_flotilla_relies_on_are_refused_with_the_reason() {
    let refused = |text: &str| {
        let mut spec = cluster(vec![node("a", Role::ControlPlane)]);
        spec.extra_config = vec![text.parse().unwrap()];
        reported(&spec.check(&HOST))
    };
    for text in [
        "controller-manager.allocate-node-cidrs=true",
        "controller-manager.allocate_node_cidrs=true",
        "controller-manager.cluster-cidr=10.9.0.0/16",
        "controller-manager.service-cluster-ip-range=10.9.0.0/16",
        "apiserver.service-cluster-ip-range=10.9.0.0/16",
        "apiserver.advertise-address=10.0.0.1",
        "apiserver.anonymous-auth=false",
        "etcd.data-dir=/data",
        "etcd.listen-peer-urls=https://0.0.0.0:2380",
        "etcd.initial-cluster=a=b",
        "kubelet.config=/etc/mine",
        "kubelet.cni-bin-dir=/opt",
        "kubelet.node-ip=10.0.0.1",
        "kube-proxy.clusterCIDR=10.9.0.0/16",
        "scheduler.kubeconfig=/mine",
    ] {
        let reported = refused(text);
        assert!(reported.starts_with(&format!("Usage: {text} cannot be set: ")), "{reported}");
    }
    for text in [
        "controller-manager.allocate-node-cidrs=false",
        "controller-manager.node-monitor-grace-period=20s",
        "controller-manager.bind-address=0.0.0.0",
        "apiserver.audit-log-path=-",
        "apiserver.authorization-mode=Node,RBAC",
        "etcd.quota-backend-bytes=8589934592",
        "kubelet.max-pods=50",
        "kube-proxy.mode=iptables",
        "scheduler.v=4",
    ] {
        assert_eq!(refused(text), "");
    }
}

#[test]
fn a_node_cannot_have_them_for_itself_either() {
    let mut own = node("a", Role::ControlPlane);
    own.extra_config = vec!["kubelet.hostname-override=b".parse().unwrap()];
    own.kubelet = [("podCIDR".to_owned(), "10.9.0.0/24".into())]
        .into_iter()
        .collect::<std::collections::BTreeMap<_, _>>()
        .try_into()
        .unwrap();
    insta::assert_snapshot!(reported(&cluster(vec![own]).check(&HOST)), @"
    Usage: kubelet.hostname-override=b cannot be set: it is the node's name (leave it out)
    Usage: podCIDR cannot be set for the kubelet of node a: flotilla allocates the pod ranges: use `--pod-subnet` and `--node-pod-prefix` (leave it out)
    ");
}

#[test]
fn more_nodes_than_the_ranges_or_the_bridge_have_room_for_are_refused() {
    let of = |count: usize, network: NetworkSpec| {
        let workers = (1..count).map(|number| node(&format!("m{number}"), Role::Worker));
        let nodes = std::iter::once(node("demo", Role::ControlPlane)).chain(workers).collect();
        reported(&ClusterSpec { network, ..cluster(nodes) }.check(&HOST))
    };
    let network = |subnet: &str, pods: &str, prefix: u8| NetworkSpec {
        subnet: Some(subnet.parse().unwrap()),
        pod_subnet: Some(pods.parse().unwrap()),
        node_pod_prefix: prefix,
        ..NetworkSpec::default()
    };
    assert_eq!(of(252, NetworkSpec::default()), "");
    assert_eq!(of(12, network("10.0.0.0/28", "10.244.0.0/16", 24)), "");
    assert_eq!(of(16, network("10.0.0.0/16", "10.244.0.0/20", 24)), "");
    assert_eq!(of(1023, network("10.0.0.0/16", "10.244.0.0/14", 24)), "");
    insta::assert_snapshot!([
        of(253, NetworkSpec::default()),
        of(13, network("10.0.0.0/28", "10.244.0.0/16", 24)),
        of(17, network("10.0.0.0/16", "10.244.0.0/20", 24)),
        of(1024, network("10.0.0.0/16", "10.244.0.0/14", 24)),
    ].join("\n"), @"
    Usage: 253 nodes are too many: the node subnet (/24) allows 252 (create the cluster with a larger --subnet, for example a /20)
    Usage: 13 nodes are too many: the node subnet (/28) allows 12 (create the cluster with a larger --subnet, for example a /20)
    Usage: 17 nodes are too many: the pod subnet (/20, with a /24 for each node) allows 16 (create the cluster with a larger --pod-subnet or a larger --node-pod-prefix)
    Usage: 1024 nodes are too many: the bridge that connects them allows 1023 (create several clusters)
    ");
}

/// The limit is the number of addresses that can be allocated.
#[test]
fn the_last_node_that_fits_has_an_address_and_a_range() {
    let (subnet, pods) = ("10.213.0.0/24".parse().unwrap(), "10.244.0.0/16".parse().unwrap());
    assert!(crate::network::node_address(subnet, 252).is_some());
    assert!(crate::network::node_address(subnet, 253).is_none());
    assert_eq!(crate::network::pod_range(pods, 24, 256).unwrap().to_string(), "10.244.255.0/24");
    assert!(crate::network::pod_range(pods, 24, 257).is_none());
}

#[test]
fn what_an_earlier_version_accepted_keeps_nobody_from_another_change() {
    let mut known = cluster(vec![node("a", Role::ControlPlane)]);
    known.extra_config = vec!["etcd.listen-metrics-urls=http://0.0.0.0:2381".parse().unwrap()];
    let mut wanted = known.clone();
    assert_ne!(reported(&wanted.check(&HOST)), "");
    assert_eq!(known.new_problems(wanted.check(&HOST), &HOST), []);
    wanted.nodes[0].memory = crate::Memory::Bytes(MIB);
    let new = known.new_problems(wanted.check(&HOST), &HOST);
    assert!(matches!(new.as_slice(), [SpecError::MemoryTooSmall { .. }]), "{new:?}");
}

#[test]
fn what_a_user_namespace_cannot_have_is_refused() {
    let mut spec = cluster(vec![
        node("a", Role::ControlPlane),
        NodeSpec { isolation: Isolation::User, ..node("b", Role::Worker) },
    ]);
    assert_eq!(spec.check(&HOST), []);
    spec.feature_gates = "KubeletInUserNamespace=false".parse().unwrap();
    spec.network.cni = "/tmp/cilium-1.18.yaml".parse().unwrap();
    insta::assert_snapshot!(reported(&spec.check(&HOST)), @r"
    Usage: node b has `isolation: user`, which needs the feature gate KubeletInUserNamespace (leave out KubeletInUserNamespace=false)
    Usage: node b has `isolation: user`, in which Cilium cannot run: it needs eBPF (choose another pod network, or `isolation: none`)
    ");
    // Its own gate wins over the cluster's.
    spec.nodes[1].feature_gates = "KubeletInUserNamespace=true".parse().unwrap();
    spec.network.cni = "/cilium/flannel.yaml".parse().unwrap();
    assert_eq!(spec.check(&HOST), []);
    spec.nodes[1].isolation = Isolation::None;
    spec.nodes[1].feature_gates = "KubeletInUserNamespace=false".parse().unwrap();
    assert_eq!(spec.check(&HOST), []);
}
