//! The size of a node: what it says, and what holds.

use std::fs;

use flotilla_linux::process::host_size;

use crate::faults::kernel;
use crate::lab::{Cluster, PATIENCE, wait_until};

/// What the cluster with limits is started with.
pub(super) const FLAGS: &[&str] = &["--cpus", "1", "--memory", "2g"];

/// More than the node has. `dd` keeps one block in memory.
const EATER: &str = "
apiVersion: v1
kind: Pod
metadata: {name: eater}
spec:
  restartPolicy: Never
  containers:
  - name: eater
    image: flotilla.test/busybox:1
    imagePullPolicy: Never
    command: [dd, if=/dev/zero, of=/dev/null, bs=3G, count=1]
";

pub(super) fn without_limits_the_capacity_is_the_hosts(cluster: &Cluster) {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
    let total = meminfo.split_whitespace().nth(1).unwrap();
    assert_eq!(capacity(cluster, "memory"), format!("{total}Ki"));
    assert_eq!(capacity(cluster, "cpu"), host_size().cpus.to_string());
}

pub(super) fn capacity_is_the_limits(cluster: &Cluster) {
    assert_eq!(capacity(cluster, "cpu"), "1");
    assert_eq!(capacity(cluster, "memory"), "2Gi");
    let described = cluster.kubectl(&["describe", "node"]);
    assert!(described.lines().any(|line| line.split_whitespace().eq(["memory:", "2Gi"])), "{described}");
}

pub(super) fn processor_time_is_limited(cluster: &Cluster) {
    assert_eq!(kernel::cpu_limit(cluster, &cluster.name), 100);
    if host_size().cpus < 2 {
        flotilla_testkit::does_not_apply("one processor cannot be given more work than it can do");
        return;
    }
    let held_back = || kernel::times_throttled(cluster, &cluster.name);
    // On a busy machine a round may not get as much as the node may have.
    let before = held_back();
    wait_until("two loops are held back", PATIENCE, || {
        cluster.ssh("for i in 1 2; do timeout 1 sh -c 'while :; do :; done' & done; wait");
        let now = held_back();
        if now > before { Ok(()) } else { Err(format!("{now} times")) }
    });
}

pub(super) fn memory_is_limited(cluster: &Cluster) {
    let limit = kernel::group_value(cluster, &cluster.name, ["memory.limit_in_bytes", "memory.max"]);
    assert_eq!(limit, (2_u64 << 30).to_string());
    // Pods that the kubelet reports late have not been restarted.
    let restarts = |cluster: &Cluster| -> u32 {
        let path = "{.items[*].status.containerStatuses[*].restartCount}";
        let counts = cluster.field(&["pods", "-n", "kube-system"], path);
        counts.split_whitespace().map(|count| count.parse::<u32>().unwrap()).sum()
    };
    let before = restarts(cluster);
    cluster.apply(EATER);
    wait_until("the pod that eats memory is dead", PATIENCE, || {
        let phase = cluster.try_kubectl(&["get", "pod", "eater", "-o", "jsonpath={.status.phase}"])?;
        if phase == "Failed" { Ok(()) } else { Err(phase) }
    });
    let code = "{.status.containerStatuses[0].state.terminated.exitCode}";
    assert_eq!(
        cluster.field(&["pod", "eater"], code),
        "137",
        "{}",
        cluster.kubectl(&["describe", "pod", "eater"])
    );
    let ready = "{.items[0].status.conditions[?(@.type=='Ready')].status}";
    assert_eq!(cluster.field(&["nodes"], ready), "True");
    assert_eq!(restarts(cluster), before, "the system's own pods were killed");
    cluster.kubectl(&["delete", "pod", "eater"]);
}

fn capacity(cluster: &Cluster, of: &str) -> String {
    cluster.field(&["nodes"], &format!("{{.items[0].status.capacity.{of}}}"))
}
