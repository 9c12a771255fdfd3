//! `flotilla bundle import`

use flotilla_bundle::BundleStore;
use flotilla_ops::OpError;

use super::summary;
use crate::args::ImportArgs;
use crate::screen::Screen;

pub(crate) fn run(bundle_store: &BundleStore, args: &ImportArgs, screen: &Screen) -> Result<(), OpError> {
    let bundle = bundle_store.import(&args.file, args.digest.as_deref(), screen.reporter())?;
    let manifest = &bundle.manifest;
    screen.result(&summary(&bundle), || {
        format!("imported bundle {} for Kubernetes {}", manifest.short_digest(), manifest.kubernetes)
    });
    Ok(())
}
