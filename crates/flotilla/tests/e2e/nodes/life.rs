//! Nodes that are stopped and started.

use super::fleet::{self, POD_PORT};
use super::network::page;
use crate::lab::{Cluster, PATIENCE, wait_until};

/// What stays the same of a node for as long as it lives.
pub(super) fn identity(cluster: &Cluster, node: &str) -> [String; 3] {
    let listed = cluster.field(&["node", node], "{.metadata.uid} {.spec.podCIDR} {.status.addresses}");
    [listed, cluster.succeed(&["ip", "-n", node]), fleet::ssh(cluster, node, "cat /etc/machine-id")]
}

/// Leaves a fourth node.
pub(super) fn a_stopped_node_returns_as_it_was(cluster: &Cluster) {
    let node = &fleet::worker(cluster, 2);
    let before = identity(cluster, node);
    let probe = fleet::probes(cluster).into_iter().find(|probe| probe.node == *node).unwrap();
    fleet::ssh(cluster, node, "echo kept > /var/lib/mark; echo kept > /etc/mark");

    let said = cluster.succeed(&["node", "stop", "m02"]);
    assert!(said.contains(node.as_str()), "{said}");
    assert_eq!(fleet::list(cluster)[1]["Status"], "Stopped");
    let uid = || cluster.field(&["node", node], "{.metadata.uid}");
    wait_until("the cluster still lists it, not ready", PATIENCE, || match fleet::readiness(cluster, node) {
        ready if ready == "True" => Err(ready),
        _ => Ok(()),
    });
    assert!(before[0].starts_with(&uid()), "it is the same node");
    assert!(!cluster.run(&["ssh", "-n", node, "--", "true"]).status.success());
    assert!(cluster.succeed(&["node", "stop", node]).contains("already"));
    // The network changes meanwhile: the one that is down learns of it when it comes back.
    cluster.succeed(&["worker", "create", "--name", "late"]);
    fleet::load_image(cluster, "late");

    let said = cluster.succeed(&["node", "start", "m02"]);
    assert!(said.contains(node.as_str()), "{said}");
    assert_eq!(fleet::readiness(cluster, node), "True");
    assert_eq!(identity(cluster, node), before);
    assert_eq!(fleet::ssh(cluster, node, "cat /var/lib/mark /etc/mark"), "kept\nkept");
    assert!(fleet::ssh(cluster, node, "crictl images").contains("flotilla.test/busybox"));
    let probes = fleet::probes(cluster);
    assert!(probes.iter().any(|now| now.pod == probe.pod), "its pod is the same: {probes:?}");
    super::network::every_node_knows_the_ways(cluster);
    // A sandbox of before may have been given up meanwhile, and with it the pod's address.
    wait_until("the ways between both", PATIENCE, || {
        let probes = fleet::probes(cluster);
        for (from, to) in [(node.as_str(), "late"), ("late", node)] {
            let (from, to) = (find(&probes, from), find(&probes, to));
            let answer =
                from.run(cluster, &format!("busybox timeout 10 wget -qO- http://{}:{POD_PORT}", to.ip))?;
            if answer != to.node {
                return Err(answer);
            }
        }
        Ok(())
    });
}

fn find<'a>(probes: &'a [fleet::Probe], node: &str) -> &'a fleet::Probe {
    probes.iter().find(|probe| probe.node == node).unwrap()
}

pub(super) fn a_drained_node_returns(cluster: &Cluster) {
    let node = &fleet::worker(cluster, 3);
    // Rather there than elsewhere, but not only there.
    fleet::deploy(
        cluster,
        "guest",
        1,
        &format!(
            "      affinity:
        nodeAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
          - weight: 100
            preference: {{matchExpressions: [{{key: kubernetes.io/hostname, operator: In, values: [{node}]}}]}}
"
        ),
    );
    cluster.wait_for("condition=Available", &["deployment/guest"]);
    assert_eq!(fleet::nodes_of(cluster, "guest"), [node.as_str()]);

    cluster.succeed(&["node", "stop", node, "--drain"]);
    cluster.wait_for("condition=Available", &["deployment/guest"]);
    let moved = fleet::nodes_of(cluster, "guest");
    assert!(moved.len() == 1 && moved[0] != *node, "{moved:?}");

    cluster.succeed(&["node", "start", "--name", "m03"]);
    assert_eq!(cluster.field(&["node", node], "{.spec.unschedulable}"), "", "it takes pods again");
    fleet::undeploy(cluster, "guest");
    fleet::deploy(cluster, "guest", 1, &fleet::only_on(node));
    cluster.wait_for("condition=Available", &["deployment/guest"]);
    fleet::undeploy(cluster, "guest");
    for probe in fleet::probes(cluster) {
        assert_eq!(page(&probe.ip, POD_PORT), probe.node);
    }
}

/// As by somebody's `kubectl delete node`, of a worker and of the control plane. Services work on them afterwards: kube-proxy
/// ends with its Node object, and does not find its way back by itself.
pub(super) fn nodes_taken_off_the_list_come_back(cluster: &Cluster) {
    let nodes = [cluster.name.clone(), fleet::worker(cluster, 3)];
    let ranges = || cluster.field(&["nodes", &nodes[0], &nodes[1]], "{.items[*].spec.podCIDR}");
    let before = ranges();
    cluster.kubectl(&["delete", "node", &nodes[0], &nodes[1]]);
    cluster.start(&[]);
    for node in &nodes {
        assert_eq!(fleet::readiness(cluster, node), "True", "{node}");
    }
    assert_eq!(ranges(), before);
    let roles = cluster.kubectl(&["get", "nodes", "--no-headers", "-o", "custom-columns=:.metadata.labels"]);
    assert_eq!(roles.matches("node-role.kubernetes.io/control-plane").count(), 1, "{roles}");
    for node in &nodes {
        let code = "curl -sk --max-time 10 -o /dev/null -w '%{http_code}' https://10.96.0.1/version";
        assert_eq!(fleet::ssh(cluster, node, code), "200", "the service of the API on {node}");
    }
    for probe in fleet::probes(cluster) {
        assert_eq!(page(&probe.ip, POD_PORT), probe.node);
    }
}
