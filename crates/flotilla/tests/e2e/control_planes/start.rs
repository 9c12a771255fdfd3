//! A cluster that begins with three control planes and two workers.

use super::etcd;
use super::{apply, assert_no_tokens, refs, three};
use crate::lab::{At, Cluster, PATIENCE, kill_at, wait_until};
use crate::nodes::failure::SOON_MISSED;
use crate::nodes::fleet;

const TAINT: &str = "node-role.kubernetes.io/control-plane:NoSchedule";

/// While the control planes found the cluster together.
pub(super) const KILL: [At; 1] = [At::Within("api/NAME", 1500)];
/// The same at more moments, also while what the killed ones left is cleared away.
pub(super) const KILLS: [At; 4] = [
    At::Within("api/NAME", 300),
    At::Within("api/NAME", 1500),
    At::Within("api/NAME", 3500),
    At::End("api/NAME"),
];

/// Starts it after so many starts that are killed.
pub(super) fn three_and_two_workers(cluster: &Cluster, kills: &[At]) {
    let start = ["start", "--control-planes", "3", "--nodes", "5", "--taint-control-planes"];
    let start = [&start[..], &["--extra-config", SOON_MISSED]].concat();
    for at in kills {
        assert!(kill_at(cluster, &start, *at), "it ended before {at:?}");
    }
    cluster.start(&[]);
}

pub(super) fn nodes_are_ready_and_have_their_taints(cluster: &Cluster) {
    let control_planes = three(cluster);
    assert_eq!(super::control_planes(cluster), control_planes);
    let nodes = fleet::names(cluster);
    assert_eq!(nodes.len(), 5, "{nodes:?}");
    for node in &nodes {
        assert_eq!(fleet::readiness(cluster, node), "True", "{node}");
        let wanted = if control_planes.contains(node) { TAINT } else { "" };
        assert_eq!(taints(cluster, node), wanted, "{node}");
    }
    etcd::assert_members(cluster, &refs(&control_planes));
    etcd::holder(cluster, &refs(&control_planes));
    assert_no_tokens(cluster);
    let status = cluster.succeed(&["status"]);
    assert_eq!(status.matches(&format!("taints: {TAINT}\n")).count(), 3, "{status}");
}

pub(super) fn taints_can_be_taken_away_and_given(cluster: &Cluster) {
    let file = cluster.succeed(&["export"]);
    assert!(file.contains("taintControlPlanes: true"), "{file}");
    apply(cluster, &file.replace("taintControlPlanes: true", "taintControlPlanes: false"));
    for node in fleet::names(cluster) {
        assert_eq!(taints(cluster, &node), "", "{node}");
    }
    let status = String::from_utf8(cluster.run(&["status"]).stdout).unwrap();
    assert!(!status.contains("taints: "), "{status}");
    apply(cluster, &file);
    for node in super::control_planes(cluster) {
        assert_eq!(taints(cluster, &node), TAINT, "{node}");
    }
}

fn taints(cluster: &Cluster, node: &str) -> String {
    let path = "{range .spec.taints[*]}{.key}:{.effect}{end}";
    cluster.field(&["node", node], path)
}

/// Waits until a control plane that came later, or came back, has the taint of all, and no other.
#[track_caller]
pub(super) fn assert_tainted(cluster: &Cluster, node: &str) {
    wait_until(&format!("{node} has the taint alone"), PATIENCE, || {
        let has = taints(cluster, node);
        if has == TAINT { Ok(()) } else { Err(has) }
    });
}

pub(super) fn workers_have_no_key_of_the_authority(cluster: &Cluster) {
    let keys =
        "find /etc /run /var/lib -xdev \\( -name ca.key -o -name front-proxy-ca.key -o -name sa.key \\)";
    for node in [fleet::worker(cluster, 4), fleet::worker(cluster, 5)] {
        assert_eq!(fleet::ssh(cluster, &node, keys), "", "{node}");
        let pki = fleet::ssh(cluster, &node, "ls /etc/kubernetes/pki");
        assert_eq!(pki, "ca.crt", "{node}");
    }
    for node in three(cluster) {
        let open = fleet::ssh(cluster, &node, "find /etc/kubernetes -name '*.key' -perm /077");
        assert_eq!(open, "", "others can read these in {node}");
    }
    let uploaded = cluster.kubectl(&["get", "secrets", "-n", "kube-system", "-o", "name"]);
    assert!(!uploaded.contains("kubeadm-certs"), "keys are in the cluster: {uploaded}");
}
