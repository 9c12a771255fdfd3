//! `flotilla bundle show`: what is in a bundle.

use flotilla_core::BundleDetails;
use serde::{Deserialize, Serialize};

use crate::{Context, OpError};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// A Kubernetes version, or how a digest begins.
    pub which: String,
}

pub fn run(cx: &Context<'_>, request: &Request) -> Result<BundleDetails, OpError> {
    Ok(cx.bundles.show(&request.which)?)
}
