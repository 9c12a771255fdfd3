//! `flotilla bundle build`

use flotilla_core::SourceChoice;
use flotilla_core::event::{Outcome, size};
use flotilla_ops::bundles::build::{self, Request};
use flotilla_ops::{Context, OpError};

use super::to_json;
use crate::args::{BuildArgs, SourceArg};
use crate::screen::Screen;

pub(crate) fn run(cx: &Context<'_>, args: BuildArgs, screen: &Screen) -> Result<(), OpError> {
    let request = Request {
        kubernetes: args.kubernetes_version,
        kubernetes_source: args.kubernetes_source,
        source: match args.source {
            SourceArg::Auto => SourceChoice::Auto,
            SourceArg::Build => SourceChoice::Build,
        },
        keep_cache: args.keep_cache,
    };
    let built = build::run(cx, &request)?;
    let bundle = &built.bundle;
    let named = format!("bundle {} for Kubernetes {}", bundle.short_digest(), bundle.kubernetes);
    let disk = size(bundle.sizes.on_disk);
    screen.result(&to_json(bundle), || match built.outcome {
        Outcome::Done => format!("built {named} ({disk})"),
        Outcome::Kept => format!("{named} already exists ({disk})"),
    });
    Ok(())
}
