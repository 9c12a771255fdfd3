//! A worker in a user namespace, beside a control plane without.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::fleet;
use crate::faults::{kernel, said};
use crate::lab::{Cluster, PATIENCE, feed, wait_until};

/// More than the worker has. `dd` keeps one block in memory.
const EATER: &str = "
apiVersion: v1
kind: Pod
metadata: {name: eater}
spec:
  restartPolicy: Never
  nodeSelector: {kubernetes.io/hostname: tn-user-m02}
  containers:
  - {name: eater, image: 'flotilla.test/busybox:1', imagePullPolicy: Never, command: [dd, if=/dev/zero, of=/dev/null, bs=2G, count=1]}
";

/// As root, with all that a pod can have.
const PRIVILEGED: &str = "
apiVersion: v1
kind: Pod
metadata: {name: privileged}
spec:
  terminationGracePeriodSeconds: 0
  hostPID: true
  hostNetwork: true
  nodeSelector: {kubernetes.io/hostname: tn-user-m02}
  volumes: [{name: node, hostPath: {path: /}}]
  containers:
  - name: privileged
    image: flotilla.test/busybox:1
    imagePullPolicy: Never
    command: [sleep, '1000000']
    securityContext: {privileged: true, runAsUser: 0}
    volumeMounts: [{name: node, mountPath: /node}]
";

fn file(cluster: &Cluster, isolation: &str) -> String {
    let name = &cluster.name;
    format!(
        "apiVersion: flotilla.dev/v1\nkind: Cluster\nname: {name}\nnodes:\n- isolation: none\n\
         - {{role: worker, isolation: {isolation}, memory: 1g}}\n"
    )
}

pub(super) fn start(cluster: &Cluster) {
    let path = cluster.kubeconfig().with_file_name("cluster.yaml");
    fs::write(&path, file(cluster, "user")).unwrap();
    cluster.start(&["-f", path.to_str().unwrap()]);
}

pub(super) fn root_of_the_worker_is_nobody_on_the_host(cluster: &Cluster) {
    let worker = &fleet::worker(cluster, 2);
    let nodes = fleet::list(cluster);
    assert_eq!([&nodes[0]["Isolation"], &nodes[1]["Isolation"]], ["none", "user"]);
    let owner = |node: &str| fs::metadata(format!("/proc/{}", kernel::init_of(cluster, node))).unwrap().uid();
    assert_eq!(owner(&cluster.name), 0);
    assert!(owner(worker) >= 1 << 30, "{}", owner(worker));
    assert_eq!(fleet::ssh(cluster, worker, "id -u; stat -c %u /etc /var/lib/kubelet"), "0\n0\n0");
    let gates = "grep -c 'KubeletInUserNamespace: true' /var/lib/kubelet/config.yaml || true";
    assert_eq!([fleet::ssh(cluster, worker, gates), cluster.ssh(gates)], ["1", "0"]);
}

pub(super) fn a_privileged_pod_is_root_of_its_node_only(cluster: &Cluster) {
    cluster.apply(PRIVILEGED);
    cluster.wait_for("condition=Ready", &["pod/privileged"]);
    let run = |line: &str| {
        let said = cluster.kubectl(&["exec", "privileged", "--", "sh", "-c", line]);
        said.trim_end().to_owned()
    };
    assert_eq!(
        run("id -u; echo made > /node/var/mark; mkdir /m; mount -t tmpfs none /m && echo mounted"),
        "0\nmounted"
    );
    assert_eq!(fleet::ssh(cluster, &fleet::worker(cluster, 2), "cat /var/mark"), "made");
    let setting = || fs::read_to_string("/proc/sys/vm/swappiness").unwrap();
    let before = setting();
    let tries = "(echo 33 > /proc/sys/vm/swappiness; mkdir /p; mount -t proc none /p; echo 33 > /p/sys/vm/swappiness; \
                 mknod /disk b 7 0; : < /disk && echo disk; dmesg | head -n 1; date -s 2001-01-01 > /dev/null && echo date) 2>/dev/null; true";
    assert_eq!(run(tries), "");
    assert_eq!(setting(), before);
    cluster.kubectl(&["delete", "pod", "privileged"]);
}

pub(super) fn its_memory_is_limited(cluster: &Cluster) {
    cluster.apply(EATER);
    wait_until("the pod that eats memory is dead", PATIENCE, || {
        let phase = cluster.field(&["pod", "eater"], "{.status.phase}");
        if phase == "Failed" { Ok(()) } else { Err(phase) }
    });
    let code = "{.status.containerStatuses[0].state.terminated.exitCode}";
    assert_eq!(cluster.field(&["pod", "eater"], code), "137");
    cluster.kubectl(&["delete", "pod", "eater"]);
    let worker = &fleet::worker(cluster, 2);
    cluster.wait_for("condition=Ready", &["node", worker]);
    // Neither the limit above it nor that of its own group is the node's to change.
    let raise = "for file in /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max; do \
                 [ ! -e $file ] || (echo -1 > $file) 2>/dev/null && [ -e $file ] && echo raised; done; true";
    assert_eq!(fleet::ssh(cluster, worker, raise), "");
}

pub(super) fn its_isolation_cannot_change(cluster: &Cluster) {
    let refused =
        feed(&mut cluster.command(&["apply", "-f", "-", "--yes"]), file(cluster, "none").as_bytes());
    let said = said(&refused);
    assert!(!refused.status.success() && said.contains("isolation user -> none"), "{said}");
    assert!(said.contains("delete it and add it again"), "{said}");
}

pub(super) fn stopped_and_started_it_is_the_same(cluster: &Cluster) {
    let worker = &fleet::worker(cluster, 2);
    fleet::ssh(cluster, worker, "rm /etc/motd 2>/dev/null; echo kept > /etc/mark; echo kept > /var/lib/mark");
    let ids = fleet::ssh(cluster, worker, "cat /proc/self/uid_map");
    cluster.succeed(&["stop"]);
    cluster.start(&[]);
    assert_eq!(fleet::ssh(cluster, worker, "cat /etc/mark /var/lib/mark"), "kept\nkept");
    assert_eq!(fleet::ssh(cluster, worker, "cat /proc/self/uid_map"), ids);
}

/// Leaves a third node.
pub(super) fn a_node_is_added_with_ids_of_its_own(cluster: &Cluster) {
    cluster.succeed(&["node", "add", "--isolation", "user"]);
    let added = &fleet::worker(cluster, 3);
    let ids =
        [added, &fleet::worker(cluster, 2)].map(|node| fleet::ssh(cluster, node, "cat /proc/self/uid_map"));
    assert_ne!(ids[0], ids[1]);
    fleet::load_image(cluster, added);
    fleet::probes(cluster);
}
