//! `flotilla bundle clean`: removes what no bundle needs.

use serde::{Deserialize, Serialize};

use crate::{Context, OpError};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cleaned {
    pub freed_bytes: u64,
}

pub fn run(cx: &Context<'_>) -> Result<Cleaned, OpError> {
    Ok(Cleaned { freed_bytes: cx.bundles.clean(cx.reporter)? })
}
