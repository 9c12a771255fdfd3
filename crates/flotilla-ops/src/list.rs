//! `flotilla list`: the clusters of the state directory.

use flotilla_core::explain::one_line;
use flotilla_core::{Cluster, Explain, Power};
use flotilla_engine::EngineError;
use flotilla_spec::{ClusterName, WantedPower};
use serde::{Deserialize, Serialize};

use crate::status::healthy_control_planes;
use crate::{Context, OpError};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Leaves out what has to be asked of machines.
    pub light: bool,
    /// Asks also how many control planes are healthy, where there are several.
    #[serde(default)]
    pub control_planes: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    pub name: ClusterName,
    pub state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    Valid(Box<Valid>),
    /// Its state cannot be used.
    Invalid {
        error: String,
        hints: Vec<String>,
        /// It has no state: a command is still running or was killed.
        is_unfinished: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Valid {
    pub cluster: Cluster,
    /// The URL of its API, as it is reached from here.
    pub server: String,
    /// None if it was not asked for.
    pub power: Option<ClusterPower>,
    /// The current context of the user's kubeconfig. A kubeconfig that cannot be read has none.
    pub is_current: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPower {
    pub nodes_running: usize,
    pub status: Status,
    /// Of several control planes; none if that was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy_control_planes: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    Running,
    /// Not all nodes run that should. minikube's `Degraded` is something else.
    Partial,
    Paused,
    Stopped,
    /// Its machines cannot be listed, or some of them are unknown.
    Unknown,
}

/// Reads, never waits for a lock, needs no more rights than to read the state directory.
pub async fn run(cx: &Context<'_>, request: Request) -> Result<Vec<Listed>, OpError> {
    let names = match cx.store.names() {
        Ok(names) => names,
        Err(error) => {
            // Whoever is not root learns how to be.
            if error.code().name == "HOST_PERMISSION" {
                cx.require_root().await?;
            }
            return Err(error.into());
        }
    };
    let mut listed = Vec::new();
    for name in names {
        let state = match cx.store.get(&name) {
            Ok(cluster) => State::Valid(Box::new(Valid {
                power: if request.light {
                    None
                } else {
                    Some(power(cx, &cluster, request.control_planes).await)
                },
                server: cx.fleet.api_url(&cluster).await,
                is_current: cx.kubeconfig.is_current(&name).unwrap_or(false),
                cluster,
            })),
            Err(error) => State::Invalid {
                error: one_line(&error),
                hints: error.hints(),
                is_unfinished: matches!(error, EngineError::NoCluster { .. }),
            },
        };
        listed.push(Listed { name, state });
    }
    Ok(listed)
}

/// How many nodes of a cluster run, and what that makes of it.
async fn power(cx: &Context<'_>, cluster: &Cluster, control_planes: bool) -> ClusterPower {
    let engine = cx.engine(cluster.name());
    let Ok(machines) = engine.machines(cluster).await else {
        return ClusterPower { nodes_running: 0, status: Status::Unknown, healthy_control_planes: None };
    };
    let power = |name| machines.get(name).map_or(Power::Off, |machine| machine.state().power);
    let is_on = |name| machines.get(name).filter(|machine| machine.state().power == Power::On);
    let nodes_running = cluster.spec.nodes.iter().filter(|node| is_on(&node.name).is_some()).count();
    let mut is_paused = false;
    for control_plane in cluster.spec.control_planes().filter_map(|node| is_on(&node.name)) {
        is_paused = is_paused || cx.bootstrapper.is_paused(control_plane.as_ref()).await;
    }
    let mut wanted = cluster.spec.nodes.iter().filter(|node| node.power == WantedPower::Running);
    let is_partial = wanted.any(|node| power(&node.name) == Power::Off);
    let is_unknown = machines.values().any(|it| matches!(it.state().power, Power::Unknown(_)));
    let status = match nodes_running {
        0 if is_unknown => Status::Unknown,
        0 => Status::Stopped,
        _ if is_paused => Status::Paused,
        _ if is_partial => Status::Partial,
        // All that should run may run.
        _ if is_unknown => Status::Unknown,
        _ => Status::Running,
    };
    let healthy_control_planes = if control_planes && cluster.spec.control_planes().count() > 1 {
        Some(healthy_control_planes(cx, &engine, cluster).await)
    } else {
        None
    };
    ClusterPower { nodes_running, status, healthy_control_planes }
}
