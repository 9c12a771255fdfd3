//! `flotilla bundle remove`

use flotilla_bundle::Shelf;
use serde_json::json;

use crate::args::WhichArgs;
use crate::failure::Failure;
use crate::screen::Screen;

pub(crate) fn run(shelf: &Shelf, args: &WhichArgs, screen: &Screen) -> Result<(), Failure> {
    let digest = shelf.remove(&args.which, screen.reporter())?;
    screen.result(&json!({"digest": digest}), || {
        format!("bundle {} is removed", digest.get(..12).unwrap_or(&digest))
    });
    Ok(())
}
