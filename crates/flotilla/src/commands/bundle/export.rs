//! `flotilla bundle export`

use flotilla_bundle::Shelf;

use super::summary;
use crate::args::ExportArgs;
use crate::failure::Failure;
use crate::screen::Screen;

pub(crate) fn run(shelf: &Shelf, args: &ExportArgs, screen: &Screen) -> Result<(), Failure> {
    let bundle = shelf.find(&args.which)?;
    shelf.export(&bundle, &args.file, screen.reporter())?;
    let digest = &bundle.manifest.digest;
    screen.result(&summary(&bundle), || {
        let file = args.file.display();
        format!("{file} holds bundle sha256:{digest}\ntake it in with: flotilla bundle import {file} --digest {digest}")
    });
    Ok(())
}
