//! `flotilla bundle export`

use flotilla_bundle::BundleStore;
use flotilla_ops::OpError;

use super::summary;
use crate::args::ExportArgs;
use crate::screen::Screen;

pub(crate) fn run(bundle_store: &BundleStore, args: &ExportArgs, screen: &Screen) -> Result<(), OpError> {
    let bundle = bundle_store.find(&args.which)?;
    bundle_store.export(&bundle, &args.file, screen.reporter())?;
    let digest = &bundle.manifest.digest;
    screen.result(&summary(&bundle), || {
        let file = args.file.display();
        format!("exported bundle sha256:{digest} to {file}\nimport it with: flotilla bundle import {file} --digest {digest}")
    });
    Ok(())
}
