//! `flotilla bundle verify`

use flotilla_bundle::Shelf;

use super::summary;
use crate::args::WhichArgs;
use crate::failure::Failure;
use crate::screen::Screen;

pub(crate) fn run(shelf: &Shelf, args: &WhichArgs, screen: &Screen) -> Result<(), Failure> {
    let bundle = shelf.find(&args.which)?;
    shelf.verify(&bundle, screen.reporter())?;
    let (digest, files) = (bundle.manifest.short_digest(), bundle.manifest.files.len());
    screen.result(&summary(&bundle), || format!("bundle {digest} is whole: {files} files are as they were made"));
    Ok(())
}
