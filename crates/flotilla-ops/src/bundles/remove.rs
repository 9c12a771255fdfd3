//! `flotilla bundle remove`: removes a bundle that no cluster uses.

use std::collections::BTreeSet;

use flotilla_core::{BundleRemoval, Code, Explain};
use flotilla_engine::EngineError;
use flotilla_spec::ClusterName;
use serde::{Deserialize, Serialize};

use crate::{Context, OpError};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// A Kubernetes version, or how a digest begins.
    pub which: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    pub digest: String,
}

/// A bundle cannot be removed.
#[derive(Debug, thiserror::Error)]
#[error("{bundle} is used by {}", .users.join(", "))]
struct InUse {
    bundle: String,
    users: Vec<String>,
}

impl Explain for InUse {
    fn code(&self) -> Code {
        Code { name: "BUNDLE_IN_USE", exit_status: 11 }
    }

    fn hints(&self) -> Vec<String> {
        vec!["delete those clusters first: flotilla delete -p NAME".to_owned()]
    }
}

pub async fn run(cx: &Context<'_>, request: &Request) -> Result<Removed, OpError> {
    // From here on nobody begins to use it.
    let removal = cx.bundles.begin_removal(&request.which, cx.reporter)?;
    let digest = removal.digest().to_owned();
    let users = users(cx, removal.as_ref()).await?;
    if !users.is_empty() {
        return Err(InUse { bundle: digest, users }.into());
    }
    removal.finish()?;
    Ok(Removed { digest })
}

/// Who needs the bundle: machines that exist, nodes that are still to be made, a cluster for its next node.
async fn users(cx: &Context<'_>, removal: &dyn BundleRemoval) -> Result<Vec<String>, OpError> {
    let mut users = Vec::new();
    for cluster in cx.store.names()? {
        users.extend(users_in(cx, &cluster, removal.digest()).await?);
    }
    if removal.is_held() {
        users.push("a command that creates nodes".to_owned());
    }
    Ok(users)
}

async fn users_in(cx: &Context<'_>, cluster: &ClusterName, digest: &str) -> Result<Vec<String>, OpError> {
    let machines = cx.fleet.bundles(cluster).await.map_err(EngineError::from)?;
    let needing = machines.into_iter().filter(|(_, bundles)| bundles.iter().any(|bundle| bundle == digest));
    let mut nodes: BTreeSet<_> = needing.map(|(node, _)| node).collect();
    // The machines of a damaged state say themselves what they need.
    let known = cx.store.load(cluster).ok().flatten();
    if let Some(known) = &known {
        let of_spec = known.spec.nodes.iter().map(|node| &node.name);
        nodes.extend(of_spec.filter(|node| known.allocations.bundle_of(node) == digest).cloned());
    }
    let is_for_new_nodes = known.is_some_and(|known| known.allocations.bundle == digest);
    Ok(if nodes.is_empty() && is_for_new_nodes {
        vec![format!("cluster {cluster}")]
    } else {
        nodes.iter().map(|node| format!("node {node} of cluster {cluster}")).collect()
    })
}
