//! `flotilla export`: the file that makes the same cluster on any host.

use flotilla_spec::ClusterName;
use serde::{Deserialize, Serialize};

use crate::{Context, OpError, lookup};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub cluster: ClusterName,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exported {
    /// As it was asked for: what flotilla chose stays open.
    pub file: String,
    /// No control plane is to run, but other nodes are. The file lets the control planes run.
    pub is_headless: bool,
}

pub async fn run(cx: &Context<'_>, request: &Request) -> Result<Exported, OpError> {
    let spec = lookup::cluster(cx, &request.cluster).await?.spec;
    Ok(Exported { file: spec.exported().to_yaml().trim_end().to_owned(), is_headless: spec.is_headless() })
}
