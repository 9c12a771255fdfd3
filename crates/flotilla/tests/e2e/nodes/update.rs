//! A node that is changed while it runs, copied to, and paused.

use std::fs;

use super::fleet::{self, NODE_PORT};
use super::network::page;
use super::own::{PLAIN, RICH, free_port};
use crate::faults::kernel;
use crate::lab::{Cluster, PATIENCE, answer, wait_until};

pub(super) fn labels_and_taints_change_live(cluster: &Cluster) {
    let init = kernel::init_of(cluster, RICH);
    fleet::deploy(cluster, "picky", 1, "      nodeSelector: {disk: ssd, zone: a}\n");
    cluster.kubectl(&["label", "node", RICH, "hand=made"]);
    cluster.succeed(&["node", "update", RICH, "--labels", "disk=ssd,zone=a"]);
    cluster.wait_for("condition=Available", &["deployment/picky"]);
    assert_eq!(fleet::nodes_of(cluster, "picky"), [RICH]);

    cluster.succeed(&["node", "update", RICH, "--taints", "dedicated=batch:NoExecute"]);
    wait_until("the pod that does not tolerate it is gone", PATIENCE, || {
        let now = fleet::nodes_of(cluster, "picky");
        if now.is_empty() { Ok(()) } else { Err(format!("{now:?}")) }
    });
    cluster.succeed(&["node", "update", RICH, "--taints", "dedicated-"]);
    cluster.wait_for("condition=Available", &["deployment/picky"]);
    fleet::undeploy(cluster, "picky");

    cluster.succeed(&["node", "update", RICH, "--labels", "zone-"]);
    let labels = cluster.get(&["node", RICH])["metadata"]["labels"].clone();
    assert_eq!((&labels["disk"], &labels["hand"]), (&"ssd".into(), &"made".into()), "{labels}");
    assert!(labels["zone"].is_null(), "{labels}");
    assert_eq!(kernel::init_of(cluster, RICH), init, "it was not restarted");
}

pub(super) fn ports_change_live(cluster: &Cluster) {
    let init = kernel::init_of(cluster, PLAIN);
    let port = free_port();
    cluster.succeed(&["node", "update", PLAIN, "--port", &format!("{port}:{NODE_PORT}")]);
    page("127.0.0.1", port);
    cluster.succeed(&["node", "update", PLAIN, "--port", &format!("{port}-")]);
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
    assert_eq!(kernel::init_of(cluster, PLAIN), init, "it was not restarted");
}

pub(super) fn its_size_changes_with_a_restart(cluster: &Cluster) {
    let (init, other) = (kernel::init_of(cluster, RICH), kernel::init_of(cluster, PLAIN));
    let resize = ["node", "update", RICH, "--cpus", "1", "--memory", "700Mi"];
    let refused = cluster.run(&resize);
    assert!(!refused.status.success(), "no terminal to ask on");
    assert_eq!(kernel::init_of(cluster, RICH), init);

    let reported = answer(&cluster.command(&resize), "n");
    assert!(reported.contains("restart") && reported.contains("nothing was changed"), "{reported}");
    assert_eq!(kernel::init_of(cluster, RICH), init);

    answer(&cluster.command(&resize), "y");
    assert_ne!(kernel::init_of(cluster, RICH), init);
    assert_eq!(kernel::init_of(cluster, PLAIN), other, "only that node");
    let capacity = "{.status.capacity.cpu} {.status.capacity.memory}";
    wait_until("its new size is reported", PATIENCE, || {
        let reported = cluster.field(&["node", RICH], capacity);
        if reported == "1 700Mi" { Ok(()) } else { Err(reported) }
    });
    assert_eq!(fleet::readiness(cluster, RICH), "True");
    assert_eq!(cluster.field(&["node", RICH], "{.metadata.labels.disk}"), "ssd");
    fleet::probes(cluster);
}

pub(super) fn files_are_copied_there_and_back(cluster: &Cluster) {
    let directory = cluster.kubeconfig().with_file_name("copied");
    fs::create_dir_all(directory.join("inner")).unwrap();
    fs::write(directory.join("inner/file"), "content").unwrap();
    let path = directory.to_str().unwrap();
    cluster.succeed(&["node", "cp", RICH, path, "/root/there"]);
    assert_eq!(fleet::ssh(cluster, RICH, "cat /root/there/inner/file"), "content");
    cluster.succeed(&["cp", &format!("{RICH}:/root/there/inner/file"), &format!("{PLAIN}:/root/file")]);
    assert_eq!(fleet::ssh(cluster, PLAIN, "cat /root/file"), "content");
    let back = cluster.kubeconfig().with_file_name("back");
    cluster.succeed(&["node", "cp", PLAIN, ":/root/file", back.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(back).unwrap(), "content");
}

pub(super) fn one_node_is_paused(cluster: &Cluster) {
    let kubelet = |node: &str| {
        let reported = cluster.run(&["node", "status", node, "-o", "json"]).stdout;
        let reported: serde_json::Value = serde_json::from_slice(&reported).unwrap();
        reported["Kubelet"].as_str().unwrap().to_owned()
    };
    cluster.succeed(&["node", "pause", RICH]);
    assert_ne!(kubelet(RICH), "Running");
    let listed = |node: &str| fleet::list(cluster).into_iter().find(|row| row["Name"] == node).unwrap();
    assert_eq!((&listed(RICH)["Status"], &listed(PLAIN)["Status"]), (&"Paused".into(), &"Running".into()));
    assert_eq!(kubelet(PLAIN), "Running");
    let probes = fleet::probes(cluster);
    let probe = probes.iter().find(|probe| probe.node == RICH).unwrap();
    assert_eq!(page(&probe.ip, fleet::POD_PORT), RICH, "its pods go on");
    cluster.kubectl(&["get", "nodes"]);
    cluster.succeed(&["node", "unpause", RICH]);
    assert_eq!(kubelet(RICH), "Running");
    assert!(cluster.run(&["status"]).status.success());
}
