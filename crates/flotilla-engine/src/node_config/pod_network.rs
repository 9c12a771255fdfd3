//! The files and routes by which pods have a network, unless somebody else gives them one.

use std::fmt::Write;

use flotilla_core::cluster::{Cluster, Node};
use flotilla_node_api::{NodeFile, PodRoutes};
use flotilla_spec::Cni;
use ipnet::Ipv4Net;
use serde_json::json;

pub(super) fn files(cluster: &Cluster, node: &Node, mtu: u32) -> Vec<(&'static str, NodeFile)> {
    if cluster.spec.network.cni != Cni::Flotilla {
        return Vec::new();
    }
    let no_masquerade = [cluster.allocations.pod_subnet, cluster.allocations.subnet];
    vec![
        ("/etc/flotilla/nft.conf", NodeFile::at_boot(packet_filter(node.pod_range, &no_masquerade))),
        ("/etc/cni/net.d/10-flotilla.conflist", NodeFile::at_boot(cni(node.pod_range, mtu))),
    ]
}

/// A node has routes to the pods of all others.
pub(super) fn routes(cluster: &Cluster, node: &Node) -> Option<PodRoutes> {
    let others = cluster.nodes().filter(|other| other.spec.name != node.spec.name);
    (cluster.spec.network.cni == Cni::Flotilla).then(|| PodRoutes {
        within: cluster.allocations.pod_subnet,
        via: others.map(|other| (other.pod_range, other.address)).collect(),
    })
}

/// The text of a node's packet filter: pods leave the cluster by the node's address. Whoever is in `no_masquerade` sees their
/// own addresses.
pub fn packet_filter(pod_range: Ipv4Net, no_masquerade: &[Ipv4Net]) -> String {
    // First made, so that the deletion finds one; nft applies a text as a whole or not at all.
    let mut text = "table ip flotilla\ndelete table ip flotilla\ntable ip flotilla {\n".to_owned();
    text.push_str("    chain postrouting {\n");
    text.push_str("        type nat hook postrouting priority srcnat; policy accept;\n");
    let mut line = |rule: String| writeln!(text, "        {rule}").expect("a string can be written to");
    line(format!("ip saddr != {} return", pod_range.trunc()));
    // One by one, because in a set no two may overlap.
    for network in no_masquerade {
        line(format!("ip daddr {} return", network.trunc()));
    }
    line("masquerade".to_owned());
    text.push_str("    }\n}\n");
    text
}

/// Pods get addresses of the node's own range and are routed, not bridged.
fn cni(pod_range: Ipv4Net, mtu: u32) -> String {
    let ptp = json!({
        "type": "ptp",
        "ipMasq": false,
        "mtu": mtu,
        "ipam": {
            "type": "host-local",
            // On a tmpfs: leases must not outlive the pods that a power cut ended.
            "dataDir": "/run/cni-ipam",
            "ranges": [[{"subnet": pod_range.to_string()}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    });
    let portmap = json!({"type": "portmap", "capabilities": {"portMappings": true}});
    let list = json!({"cniVersion": "1.0.0", "name": "flotilla", "plugins": [ptp, portmap]});
    format!("{list:#}\n")
}
