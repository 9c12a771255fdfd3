//! As after a reboot: nothing is left but the state directory.

use super::{kernel, run_pod, said};
use crate::lab::{self, Cluster, PATIENCE};

/// A directory of the node that outlives it, and one of the pod.
const DATA: &str = "    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, hostPath: {path: /var/data, type: DirectoryOrCreate}}]
";

pub(super) fn the_same_cluster_is_back(cluster: &Cluster) {
    run_pod(cluster, "keeper", DATA);
    cluster.ssh("echo kept > /var/data/file; sync");
    let identity = || {
        let node =
            cluster.field(&["node", &cluster.name], "{.metadata.uid} {.spec.podCIDR} {.status.addresses}");
        let pod = cluster.field(&["pod", "keeper"], "{.metadata.uid}");
        (node, pod, cluster.ip(), cluster.ssh("cat /etc/machine-id"), cluster.kubectl(&["cluster-info"]))
    };
    let known = identity();
    let container = || {
        let status = "{.status.containerStatuses[0].ready} {.status.containerStatuses[0].containerID}";
        cluster.field(&["pod", "keeper"], status)
    };
    let started = container();

    kernel::reboot(cluster);

    let status = cluster.run(&["status"]);
    assert_eq!(status.status.code(), Some(7), "{}", said(&status));
    assert!(said(&status).contains("host: Stopped"), "{}", said(&status));
    assert!(said(&status).contains("crashed or was killed"), "{}", said(&status));

    cluster.start(&[]);
    lab::wait_until("the pod runs again", PATIENCE, || {
        let now = container();
        if now.starts_with("true") && now != started { Ok(()) } else { Err(now) }
    });
    assert_eq!(identity(), known);
    assert_eq!(cluster.ssh("cat /var/data/file"), "kept");
}
