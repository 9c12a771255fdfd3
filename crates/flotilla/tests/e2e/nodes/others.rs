//! Pod networks that are not ours.

use std::fs;

use super::fleet;
use crate::faults::said;
use crate::lab::{Cluster, PATIENCE, Running, wait_until};

/// A manifest that stands for a network's.
const MANIFEST: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: own-network, namespace: kube-system}
data: {word: of the manifest}
";

pub(super) fn without_a_network_nodes_are_not_ready(cluster: &Cluster) {
    let started = cluster.run(&["start", "--nodes", "2", "--cni", "none"]);
    assert!(started.status.success(), "{}", said(&started));
    assert!(said(&started).contains("NotReady"), "it is said: {}", said(&started));
    for node in fleet::list(cluster) {
        let name = node["Name"].as_str().unwrap();
        assert_eq!(fleet::readiness(cluster, name), "False", "{name}");
        assert_eq!(node["PodCIDR"], cluster.field(&["node", name], "{.spec.podCIDR}").as_str());
        assert_eq!(fleet::ssh(cluster, name, "ls /etc/cni/net.d"), "");
    }
    assert!(cluster.start(&[]).contains("nothing to do"));
}

pub(super) fn with_one_made_by_hand_they_are(cluster: &Cluster) {
    let nodes = fleet::list(cluster);
    for node in &nodes {
        let name = node["Name"].as_str().unwrap();
        install(cluster, name, node["PodCIDR"].as_str().unwrap()).unwrap();
        for other in nodes.iter().filter(|other| other["Name"] != name) {
            let [range, address] = ["PodCIDR", "IP"].map(|field| other[field].as_str().unwrap());
            fleet::ssh(cluster, name, &format!("ip route add {range} via {address}"));
        }
    }
    for node in fleet::names(cluster) {
        cluster.wait_for("condition=Ready", &["node", &node]);
    }
    fleet::run_on(cluster);
}

/// The nodes become ready while `start` waits for them, since somebody installs what the manifest would.
pub(super) fn a_manifest_is_applied(cluster: &Cluster) {
    let path = cluster.kubeconfig().with_file_name("network.yaml");
    fs::write(&path, MANIFEST).unwrap();
    let start = Running::start(&mut cluster.command(&["start", "--cni", path.to_str().unwrap()]));
    wait_until("the node takes a network", PATIENCE, || {
        let nodes = cluster.run(&["node", "list", "-o", "json"]).stdout;
        let nodes: Vec<serde_json::Value> =
            serde_json::from_slice(&nodes).map_err(|error| error.to_string())?;
        let range = nodes[0]["PodCIDR"].as_str().ok_or("no range")?;
        install(cluster, &cluster.name, range)
    });
    let (status, last) = start.finish();
    assert_eq!(status, 0, "{last}");
    let word = cluster.field(&["configmap", "-n", "kube-system", "own-network"], "{.data.word}");
    assert_eq!(word, "of the manifest");
    assert_eq!(fleet::readiness(cluster, &cluster.name), "True");
    // The manifest is the cluster's, wherever its file has gone.
    fs::remove_file(&path).unwrap();
    assert!(cluster.start(&[]).contains("nothing to do"));
}

/// Writes what tells the runtime of a node how pods get their links.
fn install(cluster: &Cluster, node: &str, range: &str) -> Result<(), String> {
    let settings = format!(
        r#"{{"cniVersion": "1.0.0", "name": "hand", "plugins": [{{"type": "ptp", "ipMasq": true, "ipam":
            {{"type": "host-local", "ranges": [[{{"subnet": "{range}"}}]], "routes": [{{"dst": "0.0.0.0/0"}}]}}}}]}}"#
    );
    let line = format!("cat > /etc/cni/net.d/10-hand.conflist <<'END'\n{settings}\nEND");
    let written = cluster.run(&["ssh", "-n", node, "--", &line]);
    if written.status.success() { Ok(()) } else { Err(said(&written)) }
}
