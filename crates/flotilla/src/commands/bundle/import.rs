//! `flotilla bundle import`

use flotilla_bundle::BundleStore;

use super::summary;
use crate::args::ImportArgs;
use crate::failure::Failure;
use crate::screen::Screen;

pub(crate) fn run(bundle_store: &BundleStore, args: &ImportArgs, screen: &Screen) -> Result<(), Failure> {
    let bundle = bundle_store.import(&args.file, args.digest.as_deref(), screen.reporter())?;
    let manifest = &bundle.manifest;
    screen.result(&summary(&bundle), || {
        format!("bundle {} for Kubernetes {} is here", manifest.short_digest(), manifest.kubernetes)
    });
    Ok(())
}
