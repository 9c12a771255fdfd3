//! `flotilla bundle …`

mod build;
mod clean;
mod export;
mod import;
mod list;
mod remove;
mod show;
mod verify;

use flotilla_bundle::{Bundle, BundleStore};
use flotilla_core::Cancel;
use flotilla_ops::OpError;
use serde_json::{Value, json};

use crate::args::BundleCommand;
use crate::interrupt;
use crate::screen::Screen;

pub(crate) fn run(command: BundleCommand, screen: &Screen) -> Result<(), OpError> {
    let cancel = Cancel::new();
    match &command {
        // These change nothing: Ctrl-C ends them as it ends any program.
        BundleCommand::List(_) | BundleCommand::Show(_) | BundleCommand::Verify(_) => {}
        _ => interrupt::cancel_on_signal(&cancel, screen.bars_remover()).map_err(|source| {
            flotilla_bundle::BundleError::Io { action: "handle", path: "signals".into(), source }
        })?,
    }
    let bundle_store = BundleStore::open(screen.settings().home.clone(), cancel)?;
    match command {
        BundleCommand::Build(args) => build::run(&bundle_store, args, screen),
        BundleCommand::List(_) => list::run(&bundle_store, screen),
        BundleCommand::Show(args) => show::run(&bundle_store, &args, screen),
        BundleCommand::Verify(args) => verify::run(&bundle_store, &args, screen),
        BundleCommand::Clean(_) => clean::run(&bundle_store, screen),
        BundleCommand::Remove(args) => remove::run(&bundle_store, &args, screen),
        BundleCommand::Export(args) => export::run(&bundle_store, &args, screen),
        BundleCommand::Import(args) => import::run(&bundle_store, &args, screen),
    }
}

/// A bundle in a few words, for scripts.
fn summary(bundle: &Bundle) -> Value {
    let manifest = &bundle.manifest;
    json!({
        "kubernetes": manifest.kubernetes,
        "digest": manifest.digest,
        "architecture": manifest.architecture,
        "source": manifest.source,
        "imported": manifest.imported,
        "created": manifest.created,
        "sizes": {
            "bin": manifest.sizes.bin,
            "rootfs": manifest.sizes.rootfs,
            "store": manifest.sizes.store,
            "onDisk": bundle.on_disk(),
        },
        "path": bundle.path,
    })
}
