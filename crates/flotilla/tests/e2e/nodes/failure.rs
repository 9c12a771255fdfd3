//! Nodes that fail.

use super::fleet::{self, POD_PORT};
use super::life::identity;
use super::network::page;
use crate::faults::{kernel, said};
use crate::lab::{Cluster, PATIENCE, wait_until};

/// Makes the cluster give up on a silent node sooner than it would by default.
pub(crate) const SOON_MISSED: &str = "controller-manager.node-monitor-grace-period=20s";

pub(super) fn a_killed_node_is_missed_and_healed(cluster: &Cluster) {
    let node = &fleet::worker(cluster, 3);
    let before = identity(cluster, node);
    // Its pods leave a lost node at once, and prefer it while it runs.
    fleet::deploy(
        cluster,
        "nimble",
        1,
        &format!(
            "      tolerations:
      - {{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 1}}
      - {{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 1}}
      affinity:
        nodeAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
          - weight: 100
            preference: {{matchExpressions: [{{key: kubernetes.io/hostname, operator: In, values: [{node}]}}]}}
"
        ),
    );
    cluster.wait_for("condition=Available", &["deployment/nimble"]);
    assert_eq!(fleet::nodes_of(cluster, "nimble"), [node.as_str()]);

    kernel::kill(kernel::init_of(cluster, node));
    wait_until("the status tells", PATIENCE, || {
        let status = cluster.run(&["status"]);
        let reported = said(&status);
        let reported_all = reported.contains(&format!("node {node} crashed or was killed"));
        if status.status.code() == Some(7) && reported_all { Ok(()) } else { Err(reported) }
    });
    let listed = &fleet::list(cluster)[2];
    assert_eq!((&listed["Status"], &listed["Wanted"]), (&"Stopped".into(), &"Running".into()));
    wait_until("its pod is elsewhere", PATIENCE, || {
        let now = fleet::nodes_of(cluster, "nimble");
        if now.len() == 1 && now[0] != *node { Ok(()) } else { Err(format!("{now:?}")) }
    });
    assert_eq!(fleet::readiness(cluster, node), "Unknown");

    cluster.succeed(&["node", "start", node]);
    assert_eq!(fleet::readiness(cluster, node), "True");
    assert_eq!(identity(cluster, node), before);
    assert!(cluster.run(&["status"]).status.success());
    fleet::undeploy(cluster, "nimble");
}

/// Takes the fourth one away in the end.
pub(super) fn after_a_reboot_all_four_nodes_are_back(cluster: &Cluster) {
    let nodes = fleet::names(cluster);
    assert_eq!(nodes.len(), 4, "{nodes:?}");
    let identities = || nodes.iter().map(|node| identity(cluster, node)).collect::<Vec<_>>();
    let (before, probes) = (identities(), pods(cluster));

    kernel::reboot(cluster);
    let status = cluster.run(&["status"]);
    assert_eq!(status.status.code(), Some(7), "{}", said(&status));

    cluster.start(&[]);
    assert_eq!(identities(), before);
    super::network::every_node_knows_the_ways(cluster);
    for probe in fleet::probes(cluster) {
        // The API reports the old state of a pod until its node reports again.
        wait_until(&format!("the pod on {} answers", probe.node), PATIENCE, || {
            let probes = fleet::probes(cluster);
            let now = probes.into_iter().find(|now| now.node == probe.node).ok_or("it has none")?;
            now.run(cluster, "true").map(|_| ())
        });
    }
    assert_eq!(pods(cluster), probes, "the same pods run");
    for probe in fleet::probes(cluster) {
        assert_eq!(page(&probe.ip, POD_PORT), probe.node);
    }
    cluster.succeed(&["node", "delete", "late"]);
}

fn pods(cluster: &Cluster) -> Vec<String> {
    fleet::probes(cluster).into_iter().map(|probe| probe.pod).collect()
}
