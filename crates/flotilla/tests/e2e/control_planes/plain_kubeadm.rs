//! What a person who knows kubeadm does by hand in a node.

use super::etcd;
use super::{refs, three, three_running};
use crate::faults::said;
use crate::lab::{self, Cluster, PATIENCE, wait_until};
use crate::nodes::fleet;

/// The node is one of namespaces: what preflight says of its kernel is `flotilla doctor`'s business.
const IGNORE: &str = "--ignore-preflight-errors=all";

pub(super) fn kubeadm_understands_every_control_plane(cluster: &Cluster) {
    for node in three(cluster) {
        let certificates = fleet::ssh(cluster, &node, "kubeadm certs check-expiration");
        for name in ["admin.conf", "apiserver", "etcd-server", "etcd-peer", "front-proxy-client"] {
            let line = certificates.lines().find(|line| line.starts_with(&format!("{name} ")));
            assert!(line.is_some_and(|line| line.contains(" 9y ")), "{name} in {node}: {certificates}");
        }
    }
    // Not in the one that was initialised: nothing depends on that.
    let plan = fleet::ssh(cluster, &three(cluster)[2], &format!("kubeadm upgrade plan {}", lab::VERSION));
    let target = format!("[upgrade/versions] Target version: {}", lab::VERSION);
    assert!(plan.contains(&target), "{plan}");
    // Its health check ran in a job, which it leaves behind for a while.
    cluster.kubectl(&["delete", "jobs", "-n", "kube-system", "--all"]);
}

/// By `kubeadm reset` and `kubeadm join` in it, and it is a node as before.
pub(super) fn a_worker_joins_by_plain_kubeadm(cluster: &Cluster) {
    let node = &fleet::worker(cluster, 5);
    let before = cluster.field(&["node", node], "{.metadata.uid}");
    reset(cluster, node);
    cluster.kubectl(&["delete", "node", node]);
    let join = join_command(cluster);
    fleet::ssh(cluster, node, &format!("{join} --node-name {node} {IGNORE} 2>&1"));
    cluster.wait_for("condition=Ready", &["node", node]);
    assert_ne!(cluster.field(&["node", node], "{.metadata.uid}"), before, "a new one");
    forget_token(cluster, &join);
}

pub(super) fn a_control_plane_joins_by_plain_kubeadm(cluster: &Cluster) {
    let [first, second, third] = three_running(cluster);
    let address = cluster.succeed(&["ip", "-n", &third]);
    reset(cluster, &third);
    etcd::assert_members(cluster, &[&first, &second]);
    // It may have had the virtual IP, which is on its way to another.
    let forget = ["delete", "node", &third, "--ignore-not-found"];
    wait_until("the API lets it go", PATIENCE, || cluster.try_kubectl(&forget));
    let upload = ["ssh", "-n", &first, "--", "kubeadm init phase upload-certs --upload-certs 2>/dev/null"];
    let uploaded = wait_until("the keys are uploaded", PATIENCE, || {
        let uploaded = cluster.run(&upload);
        if uploaded.status.success() { Ok(uploaded.stdout) } else { Err(said(&uploaded)) }
    });
    let uploaded = String::from_utf8(uploaded).unwrap();
    let key = uploaded.lines().last().unwrap();
    let join = join_command(cluster);
    let address = address.trim();
    fleet::ssh(
        cluster,
        &third,
        &format!(
            "{join} --control-plane --certificate-key {key} --apiserver-advertise-address {address} \
             --node-name {third} {IGNORE} 2>&1"
        ),
    );
    cluster.wait_for("condition=Ready", &["node", &third]);
    etcd::assert_members(cluster, &refs(&three(cluster)));
    forget_token(cluster, &join);
    cluster.kubectl(&["delete", "secret", "-n", "kube-system", "kubeadm-certs"]);
}

fn reset(cluster: &Cluster, node: &str) {
    let said = fleet::ssh(cluster, node, "kubeadm reset -f 2>&1");
    assert!(said.contains("[reset]"), "{said}");
    assert!(!fleet::ssh(cluster, node, "ls /etc/kubernetes").contains("kubelet.conf"), "{said}");
}

fn join_command(cluster: &Cluster) -> String {
    let join = cluster.ssh("kubeadm token create --print-join-command 2>/dev/null");
    assert!(join.starts_with("kubeadm join control-plane.flotilla.internal:6443 --token "), "{join}");
    join.trim().to_owned()
}

fn forget_token(cluster: &Cluster, join: &str) {
    let token = join.split_whitespace().nth(4).unwrap();
    cluster.ssh(&format!("kubeadm token delete {token}"));
}
