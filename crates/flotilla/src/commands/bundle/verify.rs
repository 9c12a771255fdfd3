//! `flotilla bundle verify`

use flotilla_bundle::BundleStore;
use flotilla_bundle::inventory::Kind;
use flotilla_ops::OpError;

use super::summary;
use crate::args::WhichArgs;
use crate::screen::Screen;

pub(crate) fn run(bundle_store: &BundleStore, args: &WhichArgs, screen: &Screen) -> Result<(), OpError> {
    let bundle = bundle_store.find(&args.which)?;
    bundle_store.verify(&bundle, screen.reporter())?;
    let digest = bundle.manifest.short_digest();
    let files = bundle.manifest.files.iter().filter(|entry| matches!(entry.kind, Kind::File { .. })).count();
    screen.result(&summary(&bundle), || format!("verified bundle {digest}: {files} files match"));
    Ok(())
}
