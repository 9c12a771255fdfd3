//! A paused cluster: the control plane stands still, the person's pods do not.

use super::life::status;
use super::workloads::lines_written;
use crate::lab::{Cluster, PATIENCE, wait_until};

/// A pod that comes after the pause.
const LATER: &str = "
apiVersion: v1
kind: Pod
metadata: {name: later}
spec:
  restartPolicy: Never
  containers:
  - name: later
    image: flotilla.test/busybox:1
    imagePullPolicy: Never
    command: [sh, -c, ':']
";

pub(super) fn pods_go_on_and_the_api_stands_still(cluster: &Cluster) {
    pause(cluster);
    let written = lines_written(cluster);
    wait_until("the pod goes on", PATIENCE, || {
        let now = lines_written(cluster);
        if now > written { Ok(()) } else { Err(format!("{now} lines")) }
    });
    assert!(cluster.try_kubectl(&["get", "--raw", "/livez", "--request-timeout=2s"]).is_err());
    let said = cluster.succeed(&["unpause"]);
    assert!(said.starts_with("unpaused "), "{said}");
    works(cluster);
}

pub(super) fn a_start_wakes_a_paused_cluster(cluster: &Cluster) {
    pause(cluster);
    cluster.start(&[]);
    works(cluster);
}

fn pause(cluster: &Cluster) {
    let said = cluster.succeed(&["pause"]);
    assert!(said.starts_with("paused "), "{said}");
    let (code, told) = status(cluster);
    assert_eq!(
        (code, told["APIServer"].as_str(), told["Host"].as_str()),
        (2, Some("Paused"), Some("Running"))
    );
}

/// A new pod is scheduled, started and told of.
fn works(cluster: &Cluster) {
    wait_until("all is well again", PATIENCE, || match status(cluster) {
        (0, _) => Ok(()),
        (code, told) => Err(format!("{code}: {told}")),
    });
    wait_until("a pod is taken", PATIENCE, || cluster.try_apply(LATER));
    cluster.wait_for("jsonpath={.status.phase}=Succeeded", &["pod/later"]);
    cluster.kubectl(&["delete", "pod", "later"]);
}
