//! `flotilla list`, `flotilla get clusters`, `flotilla profile list`

mod profile;

use flotilla_ops::OpError;
use flotilla_ops::list::{self, ClusterPower, Listed, Request, State, Status};
use serde::Serialize;

use crate::cluster::Cx;
use crate::screen::table;

pub(crate) use profile::run as run_profiles;

/// A cluster of the state directory, as scripts see it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", untagged)]
enum Row {
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

pub(crate) fn run(cx: &Cx) -> Result<(), OpError> {
    let listed = cx.wait(list::run(&cx.context(), Request::default()))?;
    let rows: Vec<Row> = listed.iter().map(Row::of).collect();
    if cx.screen.is_json() {
        cx.screen.json(&rows);
    } else if !rows.is_empty() {
        let heading = ["NAME", "STATUS", "NODES", "VERSION", "SERVER", "CURRENT"];
        cx.screen.line(&table(&heading, rows.into_iter().map(Row::cells)));
    }
    tell(cx, &listed);
    Ok(())
}

/// As kind lists them: the names alone.
pub(crate) fn run_names(cx: &Cx) -> Result<(), OpError> {
    let request = Request { light: !cx.screen.is_json() };
    let listed = cx.wait(list::run(&cx.context(), request))?;
    if cx.screen.is_json() {
        cx.screen.json(&listed.iter().map(Row::of).collect::<Vec<_>>());
    } else {
        for Listed { name, .. } in &listed {
            cx.screen.line(name.as_ref());
        }
    }
    tell(cx, &listed);
    Ok(())
}

/// Beside the data: that there is none, and what is wrong with clusters that cannot be read.
fn tell(cx: &Cx, listed: &[Listed]) {
    if listed.is_empty() && !cx.screen.is_json() {
        cx.screen.note("no clusters", "create one with `flotilla start`");
    }
    for Listed { name, state } in listed {
        match state {
            State::Valid(_) => {}
            State::Invalid { is_unfinished: true, .. } => {
                let text = format!("cluster {name} is unfinished: a command is still running or was killed");
                let cure =
                    format!("run `flotilla start -p {name}` to resume, or `flotilla delete -p {name}`");
                cx.screen.warning(&text, &cure);
            }
            State::Invalid { error, hints, .. } => cx.screen.warning(error, &hints.join("; ")),
        }
    }
}

/// The word for a status, as people and scripts read it.
fn word(status: Status) -> &'static str {
    match status {
        Status::Running => "Running",
        Status::Degraded => "Degraded",
        Status::Paused => "Paused",
        Status::Stopped => "Stopped",
        Status::Unknown => "Unknown",
    }
}

impl Row {
    fn of(listed: &Listed) -> Self {
        let name = listed.name.to_string();
        match &listed.state {
            State::Valid(valid) => {
                let unknown = ClusterPower { nodes_running: 0, status: Status::Unknown };
                let ClusterPower { nodes_running, status } = valid.power.unwrap_or(unknown);
                Self::Valid {
                    name,
                    status,
                    nodes: valid.cluster.spec.nodes.len(),
                    nodes_running,
                    kubernetes_version: valid.cluster.spec.kubernetes_version.to_string(),
                    server: valid.cluster.api_url(),
                    current: valid.is_current,
                }
            }
            State::Invalid { error, .. } => Self::Invalid { name, status: "Invalid", error: error.clone() },
        }
    }

    fn cells(self) -> Vec<String> {
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
