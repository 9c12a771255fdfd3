//! What a node's PID 1 does, and what happens without it.

use super::{assert_works, kernel, run_pod, said};
use crate::lab::{self, Cluster, PATIENCE};

fn pid_of(cluster: &Cluster, service: &str) -> Result<String, String> {
    cluster.try_ssh(&format!("pidof {service}"))
}

/// Kills a service in the node and waits until PID 1 has brought it back.
fn kill_and_wait(cluster: &Cluster, service: &str) {
    let before = pid_of(cluster, service).unwrap();
    cluster.ssh(&format!("kill -9 {before}"));
    lab::wait_until(&format!("{service} is back"), PATIENCE, || {
        let now = pid_of(cluster, service)?;
        if now == before { Err("it still runs".to_owned()) } else { Ok(()) }
    });
}

pub(super) fn pid_1_brings_its_services_back(cluster: &Cluster) {
    run_pod(cluster, "keeper", "");
    let container = || cluster.field(&["pod", "keeper"], "{.status.containerStatuses[0].containerID}");
    let kept = container();
    let init = kernel::init(cluster);
    for service in ["kubelet", "containerd"] {
        kill_and_wait(cluster, service);
        assert_works(cluster, &format!("after-{service}"));
        assert_eq!(container(), kept, "the pods of before outlive {service}");
    }
    assert_eq!(kernel::init(cluster), init);
    cluster.kubectl(&["delete", "pod", "keeper"]);
}

pub(super) fn start_brings_back_pid_1(cluster: &Cluster) {
    kernel::kill(kernel::init(cluster));
    lab::wait_until("the kernel ends the node with its PID 1", PATIENCE, || {
        let left = kernel::processes(cluster);
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
    let status = cluster.run(&["status"]);
    assert_eq!(status.status.code(), Some(7), "{}", said(&status));
    assert!(said(&status).contains("crashed or was killed"), "{}", said(&status));
    cluster.start(&[]);
    assert_works(cluster, "after-init");
    assert!(cluster.run(&["status"]).status.success());
}

pub(super) fn a_node_goes_down_in_order(cluster: &Cluster) {
    cluster.succeed(&["stop"]);
    let log = cluster.state().join(format!("nodes/{}/var/log/flotilla/init.log", cluster.name));
    let log = std::fs::read_to_string(log).unwrap();
    let at = |text: &str| log.rfind(text).unwrap_or_else(|| panic!("no {text:?} in the log:\n{log}"));
    let order =
        ["the node goes down", "kubelet: ended", "ending", "containerd: ended", "the node is down"].map(at);
    assert!(order.is_sorted(), "{log}");
    cluster.start(&[]);
}
