//! What is inside a node, as one pure function of its cluster and of what its host says. The node applies it: see
//! `flotilla-node/src/configure.rs`.

mod containerd;
mod keepalived;
mod pod_network;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::Ipv4Addr;

use flotilla_core::cluster::{API_NAME, Cluster, HOST_NAMES, Node};
use flotilla_core::{BundleFacts, GuestFacts, LinkFacts};
use flotilla_node_api::{Link, NodeConfig, NodeFile, PROTOCOL, ServiceSpec, VirtualIp};
use flotilla_spec::Role;
use ipnet::Ipv4Net;

pub use pod_network::packet_filter;

/// Computes it. `images` is the cluster's bundle, which all nodes have their images from: it matters to nodes that are made from
/// another one.
pub fn render(
    cluster: &Cluster,
    node: &Node,
    guest: &GuestFacts,
    link: &LinkFacts,
    images: Option<&BundleFacts>,
) -> NodeConfig {
    // Without one, the image is the one that the node's own bundle names.
    let sandbox_image =
        images.filter(|images| cluster.allocations.bundle_of(&node.spec.name) != images.digest);
    let sandbox_image = sandbox_image.map(|images| images.sandbox_image.as_str());
    let prefix = cluster.allocations.subnet.prefix_len();
    let files = [
        ("/etc/hosts", NodeFile::always(hosts(cluster, link.gateway))),
        // It never changes, but nodes that an older flotilla booted may have another one.
        ("/etc/resolv.conf", NodeFile::always(resolv_conf(&link.name_servers))),
        ("/etc/containerd/conf.d/node.toml", NodeFile::at_boot(containerd::render(guest, sandbox_image))),
    ];
    let files = files.into_iter().chain(pod_network::files(cluster, node, link.mtu));
    NodeConfig {
        protocol: PROTOCOL,
        hostname: node.spec.name.to_string(),
        link: Link {
            name: link.name.clone(),
            mtu: Some(link.mtu),
            address: Ipv4Net::new(node.address, prefix).expect("the prefix is that of a network"),
            gateway: link.gateway,
        },
        routes: pod_network::routes(cluster, node),
        virtual_ip: virtual_ip(cluster, node, link),
        files: files.map(|(path, file)| (path.to_owned(), file)).collect::<BTreeMap<_, _>>(),
        services: ServiceSpec::of_every_node(),
    }
}

/// With one control plane the virtual IP is always on it; several agree by keepalived.
fn virtual_ip(cluster: &Cluster, node: &Node, link: &LinkFacts) -> VirtualIp {
    let address = Ipv4Net::from(cluster.virtual_ip());
    if node.spec.role != Role::ControlPlane {
        return VirtualIp::None;
    }
    if cluster.spec.control_planes().count() == 1 {
        return VirtualIp::Assigned(address);
    }
    VirtualIp::Keepalived {
        address,
        config: keepalived::render(address, cluster.api_port(), &link.name, node.number),
    }
}

fn hosts(cluster: &Cluster, gateway: Ipv4Addr) -> String {
    let mut text = String::from("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n");
    let mut lines: Vec<_> = cluster.nodes().map(|node| (node.address, node.spec.name.to_string())).collect();
    lines.extend([(cluster.virtual_ip(), API_NAME.to_owned()), (gateway, HOST_NAMES.join(" "))]);
    // Not by the cluster's list, whose order changes with the primary.
    lines.sort();
    for (address, names) in lines {
        writeln!(text, "{address} {names}").expect("a string can be written to");
    }
    text
}

/// It is the same where nobody answers: without a server, the cluster's own name server dies at its start.
fn resolv_conf(name_servers: &[Ipv4Addr]) -> String {
    name_servers.iter().fold(String::new(), |mut text, server| {
        writeln!(text, "nameserver {server}").expect("a string can be written to");
        text
    })
}

#[cfg(test)]
mod tests;
