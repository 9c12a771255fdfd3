//! `flotilla bundle build`

use flotilla_bundle::error::size;
use flotilla_bundle::{Request, Shelf, SourceChoice};
use flotilla_engine::Event;
use flotilla_engine::event::Outcome;

use super::summary;
use crate::args::{BuildArgs, SourceArg};
use crate::failure::Failure;
use crate::screen::Screen;

pub(crate) fn run(shelf: &Shelf, args: BuildArgs, screen: &Screen) -> Result<(), Failure> {
    let request = Request {
        kubernetes: args.kubernetes_version,
        kubernetes_source: args.kubernetes_source,
        source: match args.source {
            SourceArg::Auto => SourceChoice::Auto,
            SourceArg::Build => SourceChoice::Build,
        },
    };
    let made = shelf.ensure(&request, screen.reporter())?;
    let manifest = &made.bundle.manifest;
    let what = match made.outcome {
        Outcome::Done => "is built",
        Outcome::Kept => "is already there",
    };
    if !made.current {
        let text =
            "this bundle was made by another version of flotilla; `--source build` makes a new one".into();
        screen.reporter().report(Event::Note { text });
    }
    let (version, digest, disk) =
        (&manifest.kubernetes, manifest.short_digest(), size(manifest.sizes.on_disk));
    screen.result(&summary(&made.bundle), || {
        format!("bundle {digest} for Kubernetes {version} {what} ({disk})")
    });
    Ok(())
}
