//! `flotilla bundle list`: the bundles of this host.

use flotilla_core::BundleList;

use crate::{Context, OpError};

pub fn run(cx: &Context<'_>) -> Result<BundleList, OpError> {
    Ok(cx.bundles.list()?)
}
