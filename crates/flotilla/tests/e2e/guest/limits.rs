//! What holds a node and a pod back, on control groups of v2.

use super::machine::Machine;

/// Memory of every node.
pub(super) const MEMORY: &str = "2g";

/// A pod that wants more memory than its limit, and one that wants less.
const PODS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: modest}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: modest
    image: flotilla.test/busybox:1
    imagePullPolicy: Never
    command: [sh, -c, 'cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/cpu.max; exec sleep 1000000']
    resources: {limits: {memory: 64Mi, cpu: 500m}}
---
apiVersion: v1
kind: Pod
metadata: {name: greedy}
spec:
  restartPolicy: Never
  containers:
  - name: greedy
    image: flotilla.test/busybox:1
    imagePullPolicy: Never
    command: [dd, if=/dev/zero, of=/dev/null, bs=200M, count=1]
    resources: {limits: {memory: 64Mi}}
";

/// The group of the node, which the node cannot see, and the one below it, which is the root of all that the node sees.
pub(super) fn the_limits_of_a_node_are_out_of_its_reach(guest: &mut Machine<'_>) {
    let group = "cd /sys/fs/cgroup/flotilla/flotilla-*/flotilla";
    let files = "cat memory.max memory.swap.max in/memory.max";
    assert_eq!(guest.succeed(&format!("{group} && {files}")), "2147483648\n0\nmax\n");
    let processes = guest.succeed(&format!("{group} && cat pids.max"));
    assert!(processes.trim().parse::<u32>().is_ok(), "{processes}");
    // There is swap, which would take what is too much for the memory.
    assert!(guest.succeed("cat /proc/swaps").contains("/dev/vd"));
    let eat = "flotilla ssh -- busybox dd if=/dev/zero of=/dev/null bs=2100M count=1";
    let done = guest.run(eat);
    assert_ne!(done.status, 0, "{done:?}");
    let events = guest.succeed(&format!("{group} && cat memory.events"));
    assert!(!events.contains("oom_kill 0"), "{events}");
    assert_eq!(guest.succeed(&format!("{group} && cat memory.swap.current")), "0\n");
}

/// By a filter that is a BPF program here.
pub(super) fn the_disks_of_the_host_are_refused(guest: &mut Machine<'_>) {
    let numbers = guest.succeed("stat --format='%Hr %Lr' /dev/vda");
    let script = format!("mknod /var/disk b {} && head -c 1 /var/disk; rm /var/disk", numbers.trim());
    let done = guest.run(&format!("flotilla ssh -- '{script}'"));
    // Not "Permission denied", which a mount without devices says.
    assert!(done.errors.contains("/var/disk: Operation not permitted"), "{done:?}");
    guest.succeed("head -c 1 /dev/vda");
}

pub(super) fn the_limits_of_pods_hold(guest: &mut Machine<'_>) {
    guest.succeed(&format!("flotilla kubectl -- apply -f - <<'END'\n{PODS}END"));
    guest.succeed("flotilla kubectl -- wait --for=condition=Ready pod/modest --timeout=5m");
    assert_eq!(guest.succeed("flotilla kubectl -- logs modest"), "67108864\n50000 100000\n");
    guest.succeed("flotilla kubectl -- wait --for=jsonpath={.status.phase}=Failed pod/greedy --timeout=5m");
    let reason = "{.status.containerStatuses[0].state.terminated.reason}";
    assert_eq!(
        guest.succeed(&format!("flotilla kubectl -- get pod greedy -o jsonpath={reason}")),
        "OOMKilled"
    );
    guest.succeed("flotilla kubectl -- delete pod greedy");
}
