//! `flotilla bundle verify`

use flotilla_core::VerifiedBundle;
use flotilla_ops::bundles::verify::{self, Request};
use flotilla_ops::{Context, OpError};

use super::to_json;
use crate::args::WhichArgs;
use crate::screen::Screen;

pub(crate) fn run(cx: &Context<'_>, args: WhichArgs, screen: &Screen) -> Result<(), OpError> {
    let VerifiedBundle { bundle, files } = verify::run(cx, &Request { which: args.which })?;
    let digest = bundle.short_digest();
    screen.result(&to_json(&bundle), || format!("verified bundle {digest}: {files} files match"));
    Ok(())
}
