//! A `kind: Simple` of k3d.

use serde_json::{Value, json};

use super::{Cluster, Node, list, one_line, text};
use crate::Role;

/// More nodes are not written down: a cluster file cannot have them either.
const MOST: u64 = crate::file::MOST_NODES as u64;

pub(super) fn read(config: &Value) -> Cluster {
    let name = text(&config["metadata"]["name"]).unwrap_or("k3s-default".to_owned());
    let mut cluster = Cluster { name, ..Cluster::default() };
    cluster.set_network(&[("subnet", &config["subnet"])]);
    cluster.set_api_port(&config["kubeAPI"]["hostPort"]);
    let count = |key: &str, default| config[key].as_u64().unwrap_or(default).min(MOST);
    let servers = (0..count("servers", 1)).map(|_| Node::new(Role::ControlPlane));
    let agents = (0..count("agents", 0)).map(|_| Node::new(Role::Worker));
    cluster.nodes = servers.chain(agents).collect();
    let options = &config["options"];
    for (key, role) in [("serversMemory", Role::ControlPlane), ("agentsMemory", Role::Worker)] {
        if let Some(memory) = text(&options["runtime"][key]) {
            for node in cluster.nodes.iter_mut().filter(|node| node.role == role) {
                node.settings.push(("memory", json!(memory)));
            }
        }
    }
    for volume in list(&config["volumes"]) {
        let Some(mount) = text(&volume["volume"]) else { continue };
        if mount.starts_with('/') {
            each_chosen(&mut cluster.nodes, &volume["nodeFilters"], |node| {
                node.push("mounts", mount.clone());
            });
        } else {
            cluster.comments.push(format!("left out: volume {}: mounts need a full path", one_line(&mount)));
        }
    }
    for published in list(&config["ports"]) {
        let Some(port) = text(&published["port"]) else { continue };
        // The first node stands for the load balancer.
        let mut is_first = true;
        each_chosen(&mut cluster.nodes, &published["nodeFilters"], |node| {
            if std::mem::take(&mut is_first) {
                node.push("ports", port.trim_end_matches("/tcp").to_owned());
            }
        });
        let by_balancer = list(&published["nodeFilters"]).iter().any(|filter| filter == "loadbalancer");
        if by_balancer {
            let comment = format!("port {}: there is no load balancer; publish a NodePort", one_line(&port));
            cluster.comments.push(comment);
        }
    }
    for label in list(&options["k3s"]["nodeLabels"]) {
        let Some(text) = text(&label["label"]) else { continue };
        let (name, value) = text.split_once('=').unwrap_or((&text, ""));
        each_chosen(&mut cluster.nodes, &label["nodeFilters"], |node| {
            node.insert("labels", name, json!(value));
        });
    }
    cluster
}

/// The nodes of filters like `server:0`, `agent:*`, `all` and `loadbalancer`. Without a filter: all.
fn each_chosen(nodes: &mut [Node], filters: &Value, mut change: impl FnMut(&mut Node)) {
    let filters = list(filters);
    let mut numbers = [0, 0];
    for (index, node) in nodes.iter_mut().enumerate() {
        let (word, number) = match node.role {
            Role::ControlPlane => ("server", &mut numbers[0]),
            Role::Worker => ("agent", &mut numbers[1]),
        };
        let is_chosen = |filter: &str| {
            let mut parts = filter.split(':');
            let (group, which) = (parts.next().unwrap_or_default(), parts.next().unwrap_or("*"));
            let is_number = which == "*" || which.split(',').any(|which| which == number.to_string());
            match group {
                "all" => true,
                "loadbalancer" => index == 0,
                group => group.trim_end_matches('s') == word && is_number,
            }
        };
        if filters.is_empty() || filters.iter().filter_map(Value::as_str).any(is_chosen) {
            change(node);
        }
        *number += 1;
    }
}
