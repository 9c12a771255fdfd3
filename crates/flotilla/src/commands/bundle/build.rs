//! `flotilla bundle build`

use flotilla_bundle::{BundleStore, Request, SourceChoice};
use flotilla_core::Event;
use flotilla_core::event::Outcome;
use flotilla_core::event::size;
use flotilla_ops::OpError;
use flotilla_ops::bundles::remark;

use super::summary;
use crate::args::{BuildArgs, SourceArg};
use crate::screen::Screen;

pub(crate) fn run(bundle_store: &BundleStore, args: BuildArgs, screen: &Screen) -> Result<(), OpError> {
    let request = Request {
        kubernetes: args.kubernetes_version,
        kubernetes_source: args.kubernetes_source,
        source: match args.source {
            SourceArg::Auto => SourceChoice::Auto,
            SourceArg::Build => SourceChoice::Build,
        },
        keep_cache: args.keep_cache,
    };
    let made = bundle_store.ensure(&request, screen.reporter())?;
    let manifest = &made.bundle.manifest;
    if let Some(text) = remark(&manifest.kubernetes, manifest.short_digest(), made.origin) {
        screen.reporter().report(Event::Note { text });
    }
    let bundle = format!("bundle {} for Kubernetes {}", manifest.short_digest(), manifest.kubernetes);
    let disk = size(made.bundle.on_disk());
    screen.result(&summary(&made.bundle), || match made.outcome {
        Outcome::Done => format!("built {bundle} ({disk})"),
        Outcome::Kept => format!("{bundle} already exists ({disk})"),
    });
    Ok(())
}
