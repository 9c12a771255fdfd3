use flotilla_core::Allocations;
use flotilla_core::network::LINK;
use flotilla_node_api::Need;
use flotilla_spec::{ClusterSpec, Cni};

use super::*;

/// A cluster `demo` of a control plane for each of `control_planes`, and a worker.
fn cluster(control_planes: usize) -> Cluster {
    let mut yaml =
        "apiVersion: flotilla.dev/v1\nkind: Cluster\nname: demo\nkubernetesVersion: v1.37.1\nnodes:\n"
            .to_owned();
    for number in 1..=control_planes {
        writeln!(yaml, "- {{name: cp-{number}, role: control-plane}}").unwrap();
    }
    yaml.push_str("- {name: worker, role: worker}\n");
    let [subnet, pods] = ["10.213.0.0/24", "10.244.0.0/16"].map(|range| range.parse().unwrap());
    let allocations = Allocations::new(subnet, pods, "sha256:0".to_owned());
    let mut cluster = Cluster::new(ClusterSpec::from_yaml(&yaml).unwrap(), allocations);
    cluster.allocate().unwrap();
    cluster
}

const GUEST: GuestFacts = GuestFacts { lowers_oom_scores: true };

fn link() -> LinkFacts {
    let name_servers = ["10.213.0.1", "169.254.53.2"].map(|address| address.parse().unwrap()).to_vec();
    LinkFacts { name: LINK.to_owned(), mtu: 1420, gateway: name_servers[0], name_servers }
}

fn render_all(cluster: &Cluster) -> Vec<NodeConfig> {
    cluster.nodes().map(|node| render(cluster, &node, &GUEST, &link(), None)).collect()
}

/// As people read it.
fn show(config: &NodeConfig) -> String {
    let NodeConfig { protocol, hostname, link, routes, virtual_ip, files, services } = config;
    let mut text = format!("protocol {protocol}\nhostname {hostname}\n");
    writeln!(text, "link {} {} via {}", link.name, link.address, link.gateway).unwrap();
    for (range, via) in routes.iter().flat_map(|routes| &routes.via) {
        writeln!(text, "route {range} via {via}").unwrap();
    }
    match virtual_ip {
        VirtualIp::Keepalived { address, config } => {
            writeln!(text, "virtual IP {address} by keepalived\n---\n{config}").unwrap();
        }
        other => writeln!(text, "virtual IP {other:?}").unwrap(),
    }
    for (path, file) in files {
        let always = if file.always { ", always" } else { "" };
        writeln!(text, "--- {path} {:o}{always}\n{}", file.mode, String::from_utf8_lossy(file.bytes()))
            .unwrap();
    }
    for spec in services {
        let needs = spec.needs.iter().map(|need| match need {
            Need::File(any_of) => any_of.join(" or "),
            Need::Service(unit) => unit.to_string(),
        });
        writeln!(text, "--- service {}\n{}", spec.name, spec.argv.join(" ")).unwrap();
        needs.for_each(|need| writeln!(text, "needs {need}").unwrap());
    }
    text
}

#[test]
fn a_node_of_a_cluster_with_one_control_plane() {
    insta::assert_snapshot!(show(&render_all(&cluster(1))[0]));
}

#[test]
fn a_node_of_a_cluster_with_several_control_planes() {
    insta::assert_snapshot!(show(&render_all(&cluster(2))[0]));
}

#[test]
fn workers_never_have_the_apis_address_and_one_control_plane_always_has_it() {
    let kinds = |count: usize| {
        let kind = |config: NodeConfig| match config.virtual_ip {
            VirtualIp::None => "none",
            VirtualIp::Assigned(_) => "assigned",
            VirtualIp::Keepalived { .. } => "keepalived",
        };
        render_all(&cluster(count)).into_iter().map(kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds(1), ["assigned", "none"]);
    assert_eq!(kinds(2), ["keepalived", "keepalived", "none"]);
}

#[test]
fn keepaliveds_differ_by_priority_alone_which_is_valid_for_any_number() {
    let address = "10.213.0.254/32".parse().unwrap();
    let [first, second] = [1, 2].map(|number| keepalived::render(address, 6443, LINK, number));
    assert_eq!(first.replace("priority 240", "priority 230"), second);
    assert!(keepalived::render(address, 6443, LINK, 65_000).contains("priority 1\n"));
}

#[test]
fn keepalived_asks_at_the_port_of_the_cluster() {
    let mut cluster = cluster(2);
    cluster.spec.api_server.port = Some(8443);
    let VirtualIp::Keepalived { config, .. } = &render_all(&cluster)[0].virtual_ip else { panic!() };
    assert!(config.contains("https://127.0.0.1:8443/livez"), "{config}");
}

#[test]
fn another_pod_network_finds_none_of_ours() {
    let mut cluster = cluster(1);
    for cni in [Cni::None, Cni::Flannel, Cni::Manifest("/net.yaml".into())] {
        cluster.spec.network.cni = cni;
        let config = &render_all(&cluster)[0];
        assert_eq!(config.routes, None);
        let paths: Vec<_> = config.files.keys().collect();
        assert_eq!(paths, ["/etc/containerd/conf.d/node.toml", "/etc/hosts", "/etc/resolv.conf"]);
    }
}

#[test]
fn containerd_is_told_what_the_machine_and_the_bundle_lack() {
    let guest = GuestFacts { lowers_oom_scores: false };
    insta::assert_snapshot!(containerd::render(&guest, Some("registry.example/pause:3.10")), @r#"
    version = 4

    [plugins.'io.containerd.cri.v1.runtime']
    restrict_oom_score_adj = true

    [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "registry.example/pause:3.10"
    "#);
    assert_eq!(containerd::render(&GUEST, None), "version = 4\n");
}

#[test]
fn a_node_of_another_bundle_starts_pods_with_an_image_of_the_cluster_s() {
    let mut cluster = cluster(1);
    cluster.allocations.bundles.insert("worker".parse().unwrap(), "sha256:1".to_owned());
    let images = BundleFacts {
        digest: "sha256:0".to_owned(),
        kubernetes: "v1.37.1".parse().unwrap(),
        sandbox_image: "registry.example/pause:3.10".to_owned(),
    };
    let names_it = cluster.nodes().map(|node| {
        let config = render(&cluster, &node, &GUEST, &link(), Some(&images));
        String::from_utf8_lossy(config.files["/etc/containerd/conf.d/node.toml"].bytes())
            .contains(&images.sandbox_image)
    });
    assert_eq!(names_it.collect::<Vec<_>>(), [false, true]);
}

#[test]
fn the_order_of_the_nodes_does_not_change_what_is_in_them() {
    let mut cluster = cluster(2);
    let before = render_all(&cluster);
    cluster.spec.nodes.swap(0, 1);
    let mut after = render_all(&cluster);
    after.swap(0, 1);
    assert_eq!(before, after);
}

#[test]
fn no_mount_may_hide_a_file_of_a_node() {
    for path in render_all(&cluster(2)).iter().flat_map(|config| config.files.keys()) {
        assert!(
            flotilla_spec::owned_by_node(path.as_ref()).is_some(),
            "{path} is missing in flotilla-spec's list"
        );
    }
}

#[test]
fn every_node_has_the_services_that_may_be_needed_later() {
    for config in render_all(&cluster(1)) {
        assert_eq!(config.services, ServiceSpec::of_every_node());
    }
}
