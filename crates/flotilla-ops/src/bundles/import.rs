//! `flotilla bundle import`: takes in a bundle that was exported elsewhere.

use std::path::PathBuf;

use flotilla_core::BundleSummary;
use serde::{Deserialize, Serialize};

use crate::{Context, OpError};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub file: PathBuf,
    /// What its digest has to be, if that is known.
    pub digest: Option<String>,
}

pub fn run(cx: &Context<'_>, request: &Request) -> Result<BundleSummary, OpError> {
    Ok(cx.bundles.import(&request.file, request.digest.as_deref(), cx.reporter)?)
}
