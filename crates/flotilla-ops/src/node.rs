//! Single nodes of a cluster: `flotilla node …`.

pub mod add;
pub mod delete;
pub mod settings;
pub mod start;
pub mod stop;
pub mod update;

use flotilla_core::{Changed, Cluster};
use flotilla_engine::EngineError;
use flotilla_spec::{ClusterName, NodeName, WantedPower};
use serde::{Deserialize, Serialize};

use crate::{OpError, lookup};

/// What became of some nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodesChanged {
    pub cluster: ClusterName,
    pub nodes: Vec<NodeName>,
    pub changed: Changed,
}

/// The nodes' full names; one that the cluster does not have is an error.
fn names(cluster: &Cluster, wanted: &[String]) -> Result<Vec<NodeName>, OpError> {
    let mut names = Vec::new();
    for wanted in wanted {
        let name = lookup::node(cluster, Some(wanted))?.spec.name;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

/// Refuses to start workers where no control plane is to run.
fn require_running_control_plane(cluster: &Cluster) -> Result<(), OpError> {
    if cluster.spec.control_planes().any(|node| node.power == WantedPower::Running) {
        return Ok(());
    }
    Err(EngineError::Stopped(cluster.name().clone()).into())
}
