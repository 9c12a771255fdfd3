//! A row of `flotilla list`.

use flotilla_ops::list::{ClusterPower, Listed, State, Status};
use serde::Serialize;

/// A cluster of the state directory, as scripts see it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", untagged)]
pub(super) enum Row {
    Valid {
        name: String,
        status: Status,
        nodes: usize,
        nodes_running: usize,
        kubernetes_version: String,
        server: String,
        /// The current context of the user's kubeconfig.
        current: bool,
    },
    Invalid {
        name: String,
        status: &'static str,
        error: String,
    },
}

/// The word for a status, as people and scripts read it.
pub(super) fn word(status: Status) -> &'static str {
    match status {
        Status::Running => "Running",
        Status::Partial => "Partial",
        Status::Paused => "Paused",
        Status::Stopped => "Stopped",
        Status::Unknown => "Unknown",
    }
}

impl Row {
    pub(super) fn of(listed: &Listed) -> Self {
        let name = listed.name.to_string();
        match &listed.state {
            State::Valid(valid) => {
                let unknown =
                    ClusterPower { nodes_running: 0, status: Status::Unknown, healthy_control_planes: None };
                let ClusterPower { nodes_running, status, .. } = valid.power.unwrap_or(unknown);
                Self::Valid {
                    name,
                    status,
                    nodes: valid.cluster.spec.nodes.len(),
                    nodes_running,
                    kubernetes_version: valid.cluster.spec.kubernetes_version.to_string(),
                    server: valid.server.clone(),
                    current: valid.is_current,
                }
            }
            State::Invalid { error, .. } => Self::Invalid { name, status: "Invalid", error: error.clone() },
        }
    }

    pub(super) fn cells(self) -> Vec<String> {
        match self {
            Self::Valid { name, status, nodes, nodes_running, kubernetes_version, server, current } => vec![
                name,
                word(status).to_owned(),
                format!("{nodes_running}/{nodes}"),
                kubernetes_version,
                server,
                if current { "*".to_owned() } else { String::new() },
            ],
            Self::Invalid { name, status, .. } => vec![name, status.to_owned()],
        }
    }
}
