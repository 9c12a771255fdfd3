//! `flotilla bundle export`: writes a bundle to a file, for a host without a network.

use std::path::PathBuf;

use flotilla_core::BundleSummary;
use serde::{Deserialize, Serialize};

use crate::{Context, OpError};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// A Kubernetes version, or how a digest begins.
    pub which: String,
    pub file: PathBuf,
}

pub fn run(cx: &Context<'_>, request: &Request) -> Result<BundleSummary, OpError> {
    Ok(cx.bundles.export(&request.which, &request.file, cx.reporter)?)
}
