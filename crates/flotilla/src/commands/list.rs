//! `flotilla list`, `flotilla get clusters`, `flotilla profile list`

mod profile;

use flotilla_core::Power;
use flotilla_core::explain::one_line;
use flotilla_core::{Cluster, Explain};
use flotilla_engine::EngineError;
use flotilla_ops::OpError;
use flotilla_spec::{ClusterName, WantedPower};
use serde::Serialize;

use crate::cluster::Cx;
use crate::screen::table;

pub(crate) use profile::run as run_profiles;

/// A cluster of the state folder, as scripts see it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", untagged)]
enum Row {
    Valid {
        name: String,
        status: &'static str,
        nodes: usize,
        nodes_running: usize,
        kubernetes_version: String,
        server: String,
        /// The current context of the person's kubeconfig.
        current: bool,
    },
    Invalid {
        name: String,
        status: &'static str,
        error: String,
    },
}

/// What is known of a cluster without asking anything in its nodes.
struct Found {
    name: ClusterName,
    state: Result<Cluster, EngineError>,
}

/// Reads, never waits for a lock, needs no more rights than to read the state folder.
pub(crate) fn run(cx: &Cx) -> Result<(), OpError> {
    let found = find(cx)?;
    let rows: Vec<Row> = found.iter().map(|found| Row::of(cx, found)).collect();
    if cx.screen.is_json() {
        cx.screen.json(&rows);
    } else if !rows.is_empty() {
        let heading = ["NAME", "STATUS", "NODES", "VERSION", "SERVER", "CURRENT"];
        cx.screen.line(&table(&heading, rows.into_iter().map(Row::cells)));
    }
    tell(cx, &found);
    Ok(())
}

/// As kind lists them: the names alone.
pub(crate) fn run_names(cx: &Cx) -> Result<(), OpError> {
    let found = find(cx)?;
    if cx.screen.is_json() {
        cx.screen.json(&found.iter().map(|found| Row::of(cx, found)).collect::<Vec<_>>());
    } else {
        for Found { name, .. } in &found {
            cx.screen.line(name.as_ref());
        }
    }
    tell(cx, &found);
    Ok(())
}

fn find(cx: &Cx) -> Result<Vec<Found>, OpError> {
    let names = match cx.store.names() {
        Ok(names) => names,
        Err(error) => {
            // Who is not root learns how to be.
            if error.code().name == "HOST_PERMISSION" {
                cx.require_root()?;
            }
            return Err(error.into());
        }
    };
    let load = |name: ClusterName| Found { state: cx.store.get(&name), name };
    Ok(names.into_iter().map(load).collect())
}

/// Beside the data: that there is none, and what is wrong with clusters that cannot be read.
fn tell(cx: &Cx, found: &[Found]) {
    if found.is_empty() && !cx.screen.is_json() {
        cx.screen.note("there are no clusters", "make one with `flotilla start`");
    }
    for Found { name, state } in found {
        match state {
            Ok(_) => {}
            Err(EngineError::NoCluster { .. }) => {
                let text = format!("cluster {name} is unfinished: a command on it still runs, or was killed");
                let cure =
                    format!("`flotilla start -p {name}` makes it, `flotilla delete -p {name}` removes it");
                cx.screen.warning(&text, &cure);
            }
            Err(error) => cx.screen.warning(&one_line(error), &error.hints().join("; ")),
        }
    }
}

/// How many nodes of a cluster run, and what that makes of it.
fn power_of(cx: &Cx, cluster: &Cluster) -> (usize, &'static str) {
    let Ok(machines) = cx.wait(cx.engine().machines(cluster.name())) else { return (0, "Unknown") };
    let is_on = |name| machines.get(name).filter(|machine| machine.state().power == Power::On);
    let on = cluster.spec.nodes.iter().filter(|node| is_on(&node.name).is_some()).count();
    let mut control_planes = cluster.spec.control_planes().filter_map(|node| is_on(&node.name));
    let is_paused = control_planes.any(|one| cx.wait(cx.engine().bootstrapper.is_paused(one.as_ref())));
    let is_missed = |node: &&flotilla_spec::NodeSpec| node.power == WantedPower::Running;
    let wanted = cluster.spec.nodes.iter().filter(is_missed).count();
    let status = match on {
        0 => "Stopped",
        _ if is_paused => "Paused",
        _ if on < wanted => "Degraded",
        _ => "Running",
    };
    (on, status)
}

/// Whether the person's kubectl goes to it. A kubeconfig that cannot be read goes nowhere.
fn is_current(cx: &Cx, name: &ClusterName) -> bool {
    cx.kubeconfig().is_current(name).unwrap_or(false)
}

impl Row {
    fn of(cx: &Cx, found: &Found) -> Self {
        let name = found.name.to_string();
        match &found.state {
            Ok(cluster) => {
                let (nodes_running, status) = power_of(cx, cluster);
                Self::Valid {
                    name,
                    status,
                    nodes: cluster.spec.nodes.len(),
                    nodes_running,
                    kubernetes_version: cluster.spec.kubernetes_version.to_string(),
                    server: cluster.api_url(),
                    current: is_current(cx, &found.name),
                }
            }
            Err(error) => Self::Invalid { name, status: "Invalid", error: one_line(error) },
        }
    }

    fn cells(self) -> Vec<String> {
        match self {
            Self::Valid { name, status, nodes, nodes_running, kubernetes_version, server, current } => vec![
                name,
                status.to_owned(),
                format!("{nodes_running}/{nodes}"),
                kubernetes_version,
                server,
                if current { "*".to_owned() } else { String::new() },
            ],
            Self::Invalid { name, status, .. } => vec![name, status.to_owned()],
        }
    }
}
