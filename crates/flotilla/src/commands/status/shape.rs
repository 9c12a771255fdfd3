//! A node's status, in minikube's words and shapes.

use serde::Serialize;
use serde_json::{Value, json};

/// One node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct NodeStatus {
    name: String,
    pub(super) host: &'static str,
    pub(super) kubelet: &'static str,
    #[serde(rename = "APIServer")]
    pub(super) api_server: &'static str,
    pub(super) kubeconfig: &'static str,
    worker: bool,
}

/// What a worker has no say in.
const IRRELEVANT: &str = "Irrelevant";

impl NodeStatus {
    pub(super) fn stopped(name: &str, is_control_plane: bool) -> Self {
        let control_plane = if is_control_plane { "Stopped" } else { IRRELEVANT };
        Self {
            name: name.to_owned(),
            host: "Stopped",
            kubelet: "Stopped",
            api_server: control_plane,
            kubeconfig: control_plane,
            worker: !is_control_plane,
        }
    }

    /// 1 for the machine, 2 for Kubernetes in it, 4 for the kubeconfig.
    pub(super) fn exit_bits(&self) -> u8 {
        let well = |state: &str, good: &[&str]| good.contains(&state) || state == IRRELEVANT;
        let host = well(self.host, &["Running"]);
        let kubernetes = well(self.kubelet, &["Running"]) && well(self.api_server, &["Running"]);
        let kubeconfig = well(self.kubeconfig, &["Configured"]);
        u8::from(!host) | u8::from(!kubernetes) << 1 | u8::from(!kubeconfig) << 2
    }

    pub(super) fn text(&self) -> String {
        let Self { name, host, kubelet, api_server, kubeconfig, worker } = self;
        if *worker {
            return format!("{name}\ntype: Worker\nhost: {host}\nkubelet: {kubelet}\n");
        }
        format!(
            "{name}\ntype: Control Plane\nhost: {host}\nkubelet: {kubelet}\napiserver: {api_server}\n\
             kubeconfig: {kubeconfig}\n"
        )
    }
}

/// All nodes, as `--layout cluster` shows them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ClusterStatus {
    name: String,
    status_code: u16,
    status_name: &'static str,
    binary_version: &'static str,
    components: Value,
    nodes: Vec<Value>,
}

impl ClusterStatus {
    pub(super) fn of(name: &str, nodes: &[NodeStatus]) -> Self {
        let control_plane = nodes.iter().find(|node| !node.worker);
        let whole = control_plane.map_or("Stopped", |node| match node.host {
            "Running" => node.api_server,
            other => other,
        });
        let (status_code, status_name) = code(whole);
        let component = |name: &str, state: &str| {
            let (code, state) = code(state);
            json!({"Name": name, "StatusCode": code, "StatusName": state})
        };
        let kubeconfig = control_plane.map_or("Stopped", |node| node.kubeconfig);
        let nodes = nodes.iter().map(|node| {
            let (code, state) = code(node.host);
            let mut components = json!({"kubelet": component("kubelet", node.kubelet)});
            if !node.worker {
                components["apiserver"] = component("apiserver", node.api_server);
            }
            json!({"Name": node.name, "StatusCode": code, "StatusName": state, "Components": components})
        });
        Self {
            name: name.to_owned(),
            status_code,
            status_name,
            binary_version: concat!("v", env!("CARGO_PKG_VERSION")),
            components: json!({"kubeconfig": component("kubeconfig", kubeconfig)}),
            nodes: nodes.collect(),
        }
    }
}

/// minikube's numbers.
fn code(state: &str) -> (u16, &'static str) {
    match state {
        "Running" | "Configured" => (200, "OK"),
        "Stopped" => (405, "Stopped"),
        "Paused" => (418, "Paused"),
        _ => (500, "Error"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::fill_in;

    fn running() -> NodeStatus {
        NodeStatus {
            host: "Running",
            kubelet: "Running",
            api_server: "Running",
            kubeconfig: "Configured",
            ..NodeStatus::stopped("demo", true)
        }
    }

    #[test]
    fn the_exit_status_says_what_is_wrong() {
        assert_eq!(running().exit_bits(), 0);
        assert_eq!(NodeStatus::stopped("demo", true).exit_bits(), 7);
        assert_eq!(NodeStatus { api_server: "Paused", ..running() }.exit_bits(), 2);
        assert_eq!(NodeStatus { kubeconfig: "Misconfigured", ..running() }.exit_bits(), 4);
        let worker = NodeStatus { host: "Running", kubelet: "Running", ..NodeStatus::stopped("w", false) };
        assert_eq!(worker.exit_bits(), 0);
    }

    #[test]
    fn it_looks_like_minikubes() {
        insta::assert_snapshot!(running().text(), @"
        demo
        type: Control Plane
        host: Running
        kubelet: Running
        apiserver: Running
        kubeconfig: Configured
        ");
        insta::assert_snapshot!(serde_json::to_string(&running()).unwrap(), @r#"{"Name":"demo","Host":"Running","Kubelet":"Running","APIServer":"Running","Kubeconfig":"Configured","Worker":false}"#);
    }

    #[test]
    fn templates_are_filled_in() {
        let status = running();
        let filled = fill_in("{{.Name}}: {{.Host}}, {{.APIServer}}", &status).unwrap();
        assert_eq!(filled, "demo: Running, Running");
    }

    #[test]
    fn the_whole_cluster_has_minikubes_numbers() {
        let stopped = ClusterStatus::of("demo", &[NodeStatus::stopped("demo", true)]);
        assert_eq!((stopped.status_code, stopped.status_name), (405, "Stopped"));
        let paused = ClusterStatus::of("demo", &[NodeStatus { api_server: "Paused", ..running() }]);
        assert_eq!((paused.status_code, paused.status_name), (418, "Paused"));
        assert_eq!(ClusterStatus::of("demo", &[running()]).status_code, 200);
    }
}
