//! The files of a node's `/etc` that are its own, written anew before each boot.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use flotilla_engine::cluster::{API_NAME, HOST_NAMES};
use flotilla_engine::{Cluster, Node};
use flotilla_linux::nft::{self, NodeRules};
use flotilla_linux::resolver::Upstream;
use serde_json::json;

use super::error::{At, NativeError};
use super::network::MTU;

/// Writes them below `upper`, where the node finds them over its root.
pub(super) fn write(upper: &Path, cluster: &Cluster, node: &Node, uuid: &str) -> Result<(), NativeError> {
    let name = &node.spec.name;
    let rules = NodeRules {
        pod_range: node.pod_range,
        no_masquerade: vec![cluster.handed_out.pod_subnet, cluster.handed_out.subnet],
    };
    let files = [
        ("etc/hostname", format!("{name}\n")),
        ("etc/machine-id", format!("{}\n", uuid.replace('-', ""))),
        ("etc/hosts", hosts(cluster)),
        ("etc/resolv.conf", Upstream::read()?.render(cluster.gateway())),
        ("etc/flotilla/nft.conf", nft::node_table(&rules)),
        ("etc/cni/net.d/10-flotilla.conflist", cni(node)),
        ("etc/containerd/conf.d/node.toml", containerd(may_lower_oom_scores())),
    ];
    for (path, text) in files {
        let path = upper.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).at("make", folder)?;
        }
        fs::write(&path, text).at("write", path)?;
    }
    Ok(())
}

pub(super) fn hosts(cluster: &Cluster) -> String {
    let mut text = String::from("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n");
    let lines = cluster
        .nodes()
        .map(|node| (node.address, node.spec.name.to_string()))
        .chain([(cluster.virtual_ip(), API_NAME.to_owned()), (cluster.gateway(), HOST_NAMES.join(" "))]);
    for (address, names) in lines {
        writeln!(text, "{address} {names}").expect("a string can be written to");
    }
    text
}

/// Pods get addresses of the node's own range and are routed, not bridged.
fn cni(node: &Node) -> String {
    let ptp = json!({
        "type": "ptp",
        "ipMasq": false,
        "mtu": MTU,
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

fn containerd(may_lower_oom_scores: bool) -> String {
    let mut text = String::from("version = 4\n");
    if !may_lower_oom_scores {
        // Else no sandbox starts: runc fails to protect them from the out-of-memory killer.
        text.push_str("\n[plugins.'io.containerd.cri.v1.runtime']\nrestrict_oom_score_adj = true\n");
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

    #[test]
    fn without_the_capability_containerd_is_told_not_to_try() {
        assert_eq!(containerd(true), "version = 4\n");
        assert!(containerd(false).contains("restrict_oom_score_adj = true"));
    }
}
