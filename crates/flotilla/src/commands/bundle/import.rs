//! `flotilla bundle import`

use flotilla_ops::bundles::import::{self, Request};
use flotilla_ops::{Context, OpError};

use super::to_json;
use crate::args::ImportArgs;
use crate::screen::Screen;

pub(crate) fn run(cx: &Context<'_>, args: ImportArgs, screen: &Screen) -> Result<(), OpError> {
    let bundle = import::run(cx, &Request { file: args.file, digest: args.digest })?;
    screen.result(&to_json(&bundle), || {
        format!("imported bundle {} for Kubernetes {}", bundle.short_digest(), bundle.kubernetes)
    });
    Ok(())
}
