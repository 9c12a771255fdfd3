//! The files of a node's `/etc` that are its own, written anew before each boot.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

use flotilla_core::cluster::{API_NAME, HOST_NAMES};
use flotilla_core::{Cluster, Node};
use flotilla_linux::nft::{self, NodeRules};
use flotilla_linux::resolver::resolv_conf;
use flotilla_spec::Cni;
use serde_json::json;

use super::disk::write_for_node;
use super::error::{At, NativeError};
use super::keepalived;

/// containerd's name for its part that has the images.
const IMAGES_PLUGIN: &str = "io.containerd.cri.v1.images";

/// Writes them below `upper`, where the node finds them over its root. `sandbox_image` is told to containerd if it is
/// another than that of the node's own bundle; `mtu` is that of pods.
pub(super) fn write(
    upper: &Path,
    cluster: &Cluster,
    node: &Node,
    uuid: &str,
    sandbox_image: Option<&str>,
    mtu: u32,
) -> Result<(), NativeError> {
    let name = &node.spec.name;
    let mut files = vec![
        ("etc/hostname", format!("{name}\n")),
        ("etc/machine-id", format!("{}\n", uuid.replace('-', ""))),
        ("etc/hosts", hosts(cluster)),
        ("etc/resolv.conf", resolv_conf(cluster.gateway())),
        ("etc/containerd/conf.d/node.toml", containerd(may_lower_oom_scores(), sandbox_image)),
    ];
    files.extend(pod_network(cluster, node, mtu));
    match keepalived::configuration(cluster, node) {
        Some(text) => files.push((keepalived::FILE, text)),
        // It was one of several when it ran before.
        None => remove(&upper.join(keepalived::FILE))?,
    }
    for (path, text) in files {
        write_for_node(upper, path, &text)?;
    }
    Ok(())
}

fn remove(path: &Path) -> Result<(), NativeError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).at("remove", path),
        _ => Ok(()),
    }
}

pub(super) fn hosts(cluster: &Cluster) -> String {
    let mut text = String::from("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n");
    let mut lines: Vec<_> = cluster.nodes().map(|node| (node.address, node.spec.name.to_string())).collect();
    lines.extend([(cluster.virtual_ip(), API_NAME.to_owned()), (cluster.gateway(), HOST_NAMES.join(" "))]);
    // Not by the cluster's list, whose order changes with the primary.
    lines.sort();
    for (address, names) in lines {
        writeln!(text, "{address} {names}").expect("a string can be written to");
    }
    text
}

/// The files by which pods have a network, unless somebody else gives them one.
fn pod_network(cluster: &Cluster, node: &Node, mtu: u32) -> Vec<(&'static str, String)> {
    if cluster.spec.network.cni != Cni::Flotilla {
        return Vec::new();
    }
    let rules = NodeRules {
        pod_range: node.pod_range,
        no_masquerade: vec![cluster.allocations.pod_subnet, cluster.allocations.subnet],
    };
    vec![
        ("etc/flotilla/nft.conf", nft::node_table(&rules)),
        ("etc/cni/net.d/10-flotilla.conflist", cni(node, mtu)),
    ]
}

/// Pods get addresses of the node's own range and are routed, not bridged.
fn cni(node: &Node, mtu: u32) -> String {
    let ptp = json!({
        "type": "ptp",
        "ipMasq": false,
        "mtu": mtu,
        "ipam": {
            "type": "host-local",
            // On a tmpfs: leases must not outlive the pods that a power cut ended.
            "dataDir": "/run/cni-ipam",
            "ranges": [[{"subnet": node.pod_range.to_string()}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    });
    let portmap = json!({"type": "portmap", "capabilities": {"portMappings": true}});
    let list = json!({"cniVersion": "1.0.0", "name": "flotilla", "plugins": [ptp, portmap]});
    format!("{list:#}\n")
}

/// The name of the image that every pod's first container is made from, as a bundle's root has it.
pub(super) fn sandbox_image(root: &Path) -> Result<String, NativeError> {
    let path = root.join("etc/containerd/config.toml");
    let text = fs::read_to_string(&path).at("read", &path)?;
    let read = parse_sandbox_image(&text).ok_or_else(|| io::Error::other("it names no sandbox image"));
    read.at("understand", path)
}

fn parse_sandbox_image(config: &str) -> Option<String> {
    let config: toml::Table = config.parse().ok()?;
    let image = config.get("plugins")?.get(IMAGES_PLUGIN)?.get("pinned_images")?.get("sandbox")?;
    image.as_str().map(str::to_owned)
}

fn containerd(may_lower_oom_scores: bool, sandbox_image: Option<&str>) -> String {
    let mut text = String::from("version = 4\n");
    if !may_lower_oom_scores {
        // Else no sandbox starts: runc fails to protect them from the out-of-memory killer.
        text.push_str("\n[plugins.'io.containerd.cri.v1.runtime']\nrestrict_oom_score_adj = true\n");
    }
    if let Some(image) = sandbox_image {
        write!(text, "\n[plugins.'{IMAGES_PLUGIN}'.pinned_images]\nsandbox = \"{image}\"\n")
            .expect("a string can be written to");
    }
    text
}

/// Whether we have `CAP_SYS_RESOURCE` (24), which hosts inside other machines often lack.
fn may_lower_oom_scores() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).is_some_and(|set| set >> 24 & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flotilla_testkit::fake;

    #[test]
    fn without_the_capability_containerd_is_told_not_to_try() {
        assert_eq!(containerd(true, None), "version = 4\n");
        assert!(containerd(false, None).contains("restrict_oom_score_adj = true"));
    }

    #[test]
    fn the_image_of_sandboxes_is_read_and_told() {
        let image = "registry.k8s.io/pause:3.10.2";
        let text = containerd(false, Some(image));
        assert_eq!(parse_sandbox_image(&text).as_deref(), Some(image), "{text}");
        assert_eq!(parse_sandbox_image(&containerd(false, None)), None);
    }

    #[test]
    fn pods_have_the_size_of_packets_that_nodes_have() {
        let node = fake::cluster("10.213.0.0/24").primary().unwrap();
        let list: serde_json::Value = serde_json::from_str(&cni(&node, 1420)).unwrap();
        assert_eq!(list["plugins"][0]["mtu"], 1420);
    }

    #[test]
    fn another_pod_network_finds_none_of_ours() {
        let mut cluster = fake::cluster("10.213.0.0/24");
        let node = cluster.primary().unwrap();
        let paths = |cluster: &Cluster| -> Vec<&str> {
            pod_network(cluster, &node, 1500).into_iter().map(|(path, _)| path).collect()
        };
        assert_eq!(paths(&cluster), ["etc/flotilla/nft.conf", "etc/cni/net.d/10-flotilla.conflist"]);
        for cni in [Cni::None, Cni::Flannel, Cni::Manifest("/net.yaml".into())] {
            cluster.spec.network.cni = cni;
            assert_eq!(paths(&cluster), [""; 0]);
        }
    }
}
