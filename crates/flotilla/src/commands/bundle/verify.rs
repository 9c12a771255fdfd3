//! `flotilla bundle verify`

use flotilla_bundle::Shelf;
use flotilla_bundle::inventory::Kind;

use super::summary;
use crate::args::WhichArgs;
use crate::failure::Failure;
use crate::screen::Screen;

pub(crate) fn run(shelf: &Shelf, args: &WhichArgs, screen: &Screen) -> Result<(), Failure> {
    let bundle = shelf.find(&args.which)?;
    shelf.verify(&bundle, screen.reporter())?;
    let digest = bundle.manifest.short_digest();
    let files = bundle.manifest.files.iter().filter(|entry| matches!(entry.kind, Kind::File { .. })).count();
    screen.result(&summary(&bundle), || {
        format!("bundle {digest} is whole: {files} files are as they were made")
    });
    Ok(())
}
