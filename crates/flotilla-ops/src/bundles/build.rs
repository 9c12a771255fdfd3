//! `flotilla bundle build`: builds a bundle, or finds that it exists.

use flotilla_core::BuiltBundle;

use super::remark;
use crate::{Context, OpError};

pub use flotilla_core::BuildRequest as Request;

pub fn run(cx: &Context<'_>, request: &Request) -> Result<BuiltBundle, OpError> {
    let built = cx.bundles.build(request, cx.reporter)?;
    let bundle = &built.bundle;
    if let Some(text) = remark(&bundle.kubernetes, bundle.short_digest(), built.origin) {
        cx.note(text);
    }
    Ok(built)
}
