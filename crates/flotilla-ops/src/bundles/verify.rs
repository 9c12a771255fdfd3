//! `flotilla bundle verify`: compares every file of a bundle with its manifest.

use flotilla_core::VerifiedBundle;
use serde::{Deserialize, Serialize};

use crate::{Context, OpError};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// A Kubernetes version, or how a digest begins.
    pub which: String,
}

pub fn run(cx: &Context<'_>, request: &Request) -> Result<VerifiedBundle, OpError> {
    Ok(cx.bundles.verify(&request.which, cx.reporter)?)
}
