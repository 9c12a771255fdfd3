//! Clusters and nodes by the names that people give them.

use flotilla_core::{Cluster, Node};
use flotilla_engine::EngineError;
use flotilla_spec::{ClusterName, NodeName};

use crate::{Context, OpError};

/// A cluster that must exist, for commands that only read it.
pub async fn cluster(cx: &Context<'_>, name: &ClusterName) -> Result<Cluster, OpError> {
    cx.require_root().await?;
    Ok(cx.store.get(name)?)
}

/// A node by its full or short name; the primary one if none is named.
pub fn node(cluster: &Cluster, wanted: Option<&str>) -> Result<Node, EngineError> {
    let names = || cluster.spec.nodes.iter().map(|node| &node.name);
    let found = match wanted {
        None => Some(&cluster.spec.primary().name),
        // A full name is no other node's short one.
        Some(wanted) => names()
            .find(|name| name.as_ref() == wanted)
            .or_else(|| names().find(|name| name.short(cluster.name()) == wanted)),
    };
    let no_node = || EngineError::no_node(cluster, wanted.unwrap_or_default());
    found.and_then(|name: &NodeName| cluster.node(name)).ok_or_else(no_node)
}
