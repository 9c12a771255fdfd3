//! A paused cluster: the control plane stands still, the person's pods do not.

use super::life::status;
use super::workloads::lines_written;
use crate::faults::kernel;
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

/// In v1 frozen processes take no signal: they have to be thawed on the way down.
pub(super) fn stopped_while_paused_it_starts_again(cluster: &Cluster) {
    pause(cluster);
    cluster.succeed(&["stop"]);
    assert_eq!(status(cluster).1["Host"].as_str(), Some("Stopped"));
    cluster.start(&[]);
    works(cluster);
}

/// Whatever a node does, commands end.
pub(super) fn a_frozen_node_holds_no_command_up(cluster: &Cluster) {
    kernel::freeze(cluster);
    let (code, reported) = status(cluster);
    assert!(code != 0 && reported["Host"] == "Running", "{code}: {reported}");
    for args in [&["ssh", "--", "true"][..], &["logs"]] {
        let output = cluster.run(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(89), "{args:?}: {said}");
        assert!(said.contains(&cluster.name) && said.contains("frozen"), "{args:?}: {said}");
    }
    cluster.succeed(&["node", "list"]);
    cluster.start(&[]);
    works(cluster);
    kernel::freeze(cluster);
    cluster.succeed(&["stop"]);
    cluster.start(&[]);
    works(cluster);
}

pub(super) fn pause(cluster: &Cluster) {
    let said = cluster.succeed(&["pause"]);
    assert!(said.starts_with("paused "), "{said}");
    let (code, reported) = status(cluster);
    assert_eq!(
        (code, reported["APIServer"].as_str(), reported["Host"].as_str()),
        (2, Some("Paused"), Some("Running"))
    );
}

/// A new pod is scheduled, started and reported.
fn works(cluster: &Cluster) {
    wait_until("all is well again", PATIENCE, || match status(cluster) {
        (0, _) => Ok(()),
        (code, reported) => Err(format!("{code}: {reported}")),
    });
    wait_until("a pod is taken", PATIENCE, || cluster.try_apply(LATER));
    cluster.wait_for("jsonpath={.status.phase}=Succeeded", &["pod/later"]);
    cluster.kubectl(&["delete", "pod", "later"]);
}
