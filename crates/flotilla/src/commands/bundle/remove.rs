//! `flotilla bundle remove`

use flotilla_bundle::Shelf;

use super::summary;
use crate::args::WhichArgs;
use crate::failure::Failure;
use crate::screen::Screen;

pub(crate) fn run(shelf: &Shelf, args: &WhichArgs, screen: &Screen) -> Result<(), Failure> {
    let bundle = shelf.find(&args.which)?;
    shelf.remove(&bundle, screen.reporter())?;
    let manifest = &bundle.manifest;
    screen.result(&summary(&bundle), || {
        format!("bundle {} for Kubernetes {} is removed", manifest.short_digest(), manifest.kubernetes)
    });
    Ok(())
}
