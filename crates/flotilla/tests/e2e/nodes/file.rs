//! A running cluster that follows its file.

use std::fs;

use super::fleet;
use crate::faults::{kernel, said};
use crate::lab::{Cluster, PATIENCE, answer, feed, wait_until};

/// The cluster with these workers.
fn file(cluster: &Cluster, workers: &str) -> String {
    let name = &cluster.name;
    format!("apiVersion: flotilla.dev/v1\nkind: Cluster\nname: {name}\nnodes:\n- memory: 2g\n{workers}")
}

/// Applies a file. Gives what was said.
fn apply(cluster: &Cluster, text: &str) -> String {
    let applied = feed(&mut cluster.command(&["apply", "-f", "-", "--yes"]), text.as_bytes());
    assert!(applied.status.success(), "{}", said(&applied));
    said(&applied)
}

pub(super) fn start(cluster: &Cluster) {
    let path = cluster.kubeconfig().with_file_name("cluster.yaml");
    let workers = "- {name: tn-file-a, labels: {tier: one}}
- {name: tn-file-b, memory: 600Mi, kubelet: {maxPods: 40}}
";
    fs::write(&path, file(cluster, workers)).unwrap();
    cluster.start(&["-f", path.to_str().unwrap()]);
}

pub(super) fn settings_of_a_kubelet_are_its_own(cluster: &Cluster) {
    for (node, pods) in [("tn-file-a", "110"), ("tn-file-b", "40")] {
        assert_eq!(cluster.field(&["node", node], "{.status.capacity.pods}"), pods, "{node}");
    }
}

pub(super) fn nodes_are_added_changed_and_resized(cluster: &Cluster) {
    let inits = || ["tn-file-a", "tn-file-b"].map(|node| kernel::init_of(cluster, node));
    let [a, b] = inits();
    let text = file(
        cluster,
        "- {name: tn-file-a, labels: {tier: two}, taints: ['dedicated=x:NoSchedule']}
- {name: tn-file-b, memory: 700Mi, kubelet: {maxPods: 40}}
- {name: tn-file-c, labels: {tier: three}}
",
    );
    let path = cluster.kubeconfig().with_file_name("cluster.yaml");
    fs::write(&path, &text).unwrap();
    let asked = cluster.command(&["apply", "-f", path.to_str().unwrap()]);
    let reported = answer(&asked, "n");
    assert!(reported.contains("nothing was changed"), "{reported}");
    assert_eq!((inits(), fleet::names(cluster).len()), ([a, b], 3));
    let reported = answer(&asked, "y");
    for node in ["tn-file-a", "tn-file-b", "tn-file-c"] {
        assert!(reported.contains(node), "{reported}");
    }
    let [now_a, now_b] = inits();
    assert_eq!(now_a, a, "labels and taints need no restart");
    assert_ne!(now_b, b);
    let a = cluster.get(&["node", "tn-file-a"]);
    assert_eq!(a["metadata"]["labels"]["tier"], "two");
    assert!(a["spec"]["taints"].to_string().contains("dedicated"), "{}", a["spec"]);
    wait_until("the new size is reported", PATIENCE, || {
        let reported = cluster.field(&["node", "tn-file-b"], "{.status.capacity.memory}");
        if reported == "700Mi" { Ok(()) } else { Err(reported) }
    });
    for node in fleet::names(cluster) {
        assert_eq!(fleet::readiness(cluster, &node), "True", "{node}");
    }
    assert!(apply(cluster, &text).contains("nothing to do"));
}

pub(super) fn nodes_are_stopped_and_removed(cluster: &Cluster) {
    let text = file(
        cluster,
        "- {name: tn-file-b, memory: 700Mi, kubelet: {maxPods: 40}, state: stopped}
- {name: tn-file-c}
- {name: tn-file-paper, state: stopped}
",
    );
    apply(cluster, &text);
    let rows: Vec<_> = fleet::list(cluster);
    let reported: Vec<_> =
        rows.iter().map(|row| [&row["Name"], &row["Status"]].map(|it| it.as_str().unwrap())).collect();
    let name = cluster.name.as_str();
    let others = [["tn-file-b", "Stopped"], ["tn-file-c", "Running"], ["tn-file-paper", "Stopped"]];
    assert_eq!(reported, [&[[name, "Running"]][..], &others].concat());
    assert!(cluster.try_kubectl(&["get", "node", "tn-file-a"]).is_err());
    assert_eq!(cluster.field(&["node", "tn-file-c"], "{.metadata.labels.tier}"), "");
    assert!(!cluster.state().join("nodes/tn-file-a").exists());
}

pub(super) fn a_node_on_paper_is_made_by_its_start(cluster: &Cluster) {
    assert!(!cluster.state().join("nodes/tn-file-paper").exists());
    assert!(cluster.try_kubectl(&["get", "node", "tn-file-paper"]).is_err());
    cluster.succeed(&["node", "start", "tn-file-paper"]);
    assert_eq!(fleet::readiness(cluster, "tn-file-paper"), "True");
}

pub(super) fn the_export_matches_the_cluster(cluster: &Cluster) {
    let exported = cluster.succeed(&["export"]);
    assert!(apply(cluster, &exported).contains("nothing to do"));
    let differs = feed(&mut cluster.command(&["diff", "-f", "-"]), exported.as_bytes());
    assert_eq!(differs.status.code(), Some(0), "{}", said(&differs));
}
