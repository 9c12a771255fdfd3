//! A `kind: Cluster` of kind.

use serde_json::{Value, json};

use super::{Cluster, Node, list, text};
use crate::Role;

pub(super) fn read(config: &Value) -> Cluster {
    let mut cluster =
        Cluster { name: text(&config["name"]).unwrap_or("kind".to_owned()), ..Cluster::default() };
    let networking = &config["networking"];
    let without_cni = networking["disableDefaultCNI"] == true;
    cluster.set_network(&[
        ("podSubnet", &networking["podSubnet"]),
        ("serviceSubnet", &networking["serviceSubnet"]),
        ("cni", &if without_cni { json!("none") } else { Value::Null }),
    ]);
    cluster.set_api_port(&networking["apiServerPort"]);
    if let Some(gates) = config["featureGates"].as_object() {
        cluster.set("featureGates", gates.clone().into());
    }
    if let Some(apis) = config["runtimeConfig"].as_object() {
        let apis: Vec<String> = apis
            .iter()
            .map(|(api, on)| format!("{api}={}", on.as_str().map_or(on.to_string(), str::to_owned)))
            .collect();
        cluster.set("extraConfig", json!([format!("apiserver.runtime-config={}", apis.join(","))]));
    }
    for theirs in list(&config["nodes"]) {
        let role = if theirs["role"] == "worker" { Role::Worker } else { Role::ControlPlane };
        let mut node = Node::new(role);
        for (name, value) in theirs["labels"].as_object().into_iter().flatten() {
            node.insert("labels", name, value.clone());
        }
        for mount in list(&theirs["extraMounts"]) {
            if let (Some(source), Some(target)) = (text(&mount["hostPath"]), text(&mount["containerPath"])) {
                let suffix = if mount["readOnly"] == true { ":ro" } else { "" };
                node.push("mounts", format!("{source}:{target}{suffix}"));
            }
        }
        for mapping in list(&theirs["extraPortMappings"]) {
            match port(mapping) {
                Some(port) => node.push("ports", port),
                None => {
                    cluster.comments.push("left out: a port mapping without a port of the host".to_owned());
                }
            }
        }
        cluster.nodes.push(node);
    }
    cluster
}

fn port(mapping: &Value) -> Option<String> {
    let of_node = mapping["containerPort"].as_u64()?;
    let of_host = mapping["hostPort"].as_u64().filter(|port| *port != 0)?;
    // kind publishes on all addresses by default.
    let address = text(&mapping["listenAddress"]).unwrap_or("0.0.0.0".to_owned());
    let is_udp = text(&mapping["protocol"]).is_some_and(|protocol| protocol.eq_ignore_ascii_case("udp"));
    let suffix = if is_udp { "/udp" } else { "" };
    Some(format!("{address}:{of_host}:{of_node}{suffix}"))
}
