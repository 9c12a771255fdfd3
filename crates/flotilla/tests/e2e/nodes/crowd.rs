//! More nodes than processors.

use std::fs;

use super::fleet;
use crate::lab::{Cluster, feed};

/// As many small workers.
const WORKERS: usize = 12;

/// Of the host: six nodes use up what it usually is.
const INOTIFY: &str = "/proc/sys/fs/inotify/max_user_instances";

/// The host's limit as it is usually, and as it was when this ends, however it ends.
struct UsualLimit(String);

impl UsualLimit {
    fn set() -> Self {
        let before = fs::read_to_string(INOTIFY).unwrap();
        fs::write(INOTIFY, "128").unwrap();
        Self(before)
    }
}

impl Drop for UsualLimit {
    fn drop(&mut self) {
        // A panic here would hide why the test failed.
        let _ = fs::write(INOTIFY, &self.0);
    }
}

pub(super) fn run_on_every_node(cluster: &Cluster) {
    let _limit = UsualLimit::set();
    let name = &cluster.name;
    let text = format!(
        "apiVersion: flotilla.dev/v1\nkind: Cluster\nname: {name}\nnodes:\n- memory: 2g\n- {{count: {WORKERS}, memory: 400m}}\n"
    );
    let started = feed(&mut cluster.command(&["start", "-f", "-"]), text.as_bytes());
    assert!(started.status.success(), "{}", crate::faults::said(&started));
    let raised: u32 = fs::read_to_string(INOTIFY).unwrap().trim().parse().unwrap();
    assert!(raised >= 8192, "{raised}");
    let nodes = fleet::names(cluster);
    assert_eq!(nodes.len(), 1 + WORKERS);
    for node in &nodes {
        assert_eq!(fleet::readiness(cluster, node), "True", "{node}");
    }
    let image = crate::faults::pause_image();
    cluster.apply(&format!(
        "apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: everywhere}}
spec:
  selector: {{matchLabels: {{app: everywhere}}}}
  template:
    metadata: {{labels: {{app: everywhere}}}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{{name: main, image: '{image}'}}]
"
    ));
    let all = format!("jsonpath={{.status.numberReady}}={}", nodes.len());
    cluster.wait_for(&all, &["daemonset", "everywhere"]);
}
