//! The node itself: its first process, the kernel below it, and kubeadm's view of it.

use std::fs;

use crate::lab::{self, Cluster, PATIENCE, wait_until};

/// Kernel settings that every namespace shares and that a kubelet would like to change.
const SYSCTLS: [&str; 6] = [
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
];

/// The host's values of them.
pub(super) fn host_sysctls() -> Vec<String> {
    SYSCTLS.iter().map(|name| fs::read_to_string(format!("/proc/sys/{name}")).unwrap()).collect()
}

pub(super) fn the_hosts_kernel_settings_are_out_of_reach(cluster: &Cluster) {
    let before = host_sysctls();
    for name in SYSCTLS.into_iter().chain(["kernel/sysrq", "fs/file-max"]) {
        let write = format!("cat /proc/sys/{name} > /tmp/same && cat /tmp/same > /proc/sys/{name}");
        assert!(cluster.try_ssh(&write).is_err(), "{name} can be written");
    }
    assert_eq!(host_sysctls(), before);
    // The network's are the node's own.
    cluster.ssh(
        "cat /proc/sys/net/ipv4/ip_forward > /tmp/same && cat /tmp/same > /proc/sys/net/ipv4/ip_forward",
    );
}

pub(super) fn orphans_are_reaped(cluster: &Cluster) {
    const ORPHAN: &str = "sleep 271828";
    cluster.ssh(&format!("for i in $(seq 20); do ({ORPHAN} >/dev/null 2>&1 &); done"));
    let all = || cluster.ssh("ps -eo ppid=,stat=,args=");
    wait_until("the first process has adopted them", PATIENCE, || {
        let all = all();
        let adopted = all.lines().filter(|line| line.trim().starts_with("1 ") && line.ends_with(ORPHAN));
        if adopted.count() == 20 { Ok(()) } else { Err(all) }
    });
    cluster.ssh(&format!("ps -eo pid=,args= | awk '/[0-9] {ORPHAN}$/ {{ print $1 }}' | xargs kill"));
    wait_until("they are gone, and there is no zombie", PATIENCE, || {
        let all = all();
        let is_zombie = |line: &str| line.split_whitespace().nth(1).is_some_and(|stat| stat.starts_with('Z'));
        if all.lines().any(|line| line.ends_with(ORPHAN) || is_zombie(line)) { Err(all) } else { Ok(()) }
    });
}

pub(super) fn kubeadm_understands_the_cluster(cluster: &Cluster) {
    let certificates = cluster.ssh("kubeadm certs check-expiration");
    for name in ["admin.conf", "apiserver", "etcd-server", "front-proxy-client", "super-admin.conf"] {
        let line = certificates.lines().find(|line| line.starts_with(&format!("{name} ")));
        assert!(line.is_some_and(|line| line.contains(" 9y ")), "{name}: {certificates}");
    }
    let join = cluster.ssh("kubeadm token create --print-join-command 2>/dev/null");
    assert!(join.starts_with("kubeadm join control-plane.flotilla.internal:6443 --token "), "{join}");
    let token = join.split_whitespace().nth(4).unwrap();
    cluster.ssh(&format!("kubeadm token delete {token}"));
    let plan = cluster.ssh(&format!("kubeadm upgrade plan {}", lab::VERSION));
    let target = format!("[upgrade/versions] Target version: {}", lab::VERSION);
    assert!(plan.contains(&target), "{plan}");
    // Its health check ran in a job, which it leaves behind for a while.
    cluster.kubectl(&["delete", "jobs", "-n", "kube-system", "--all"]);
}
