//! `flotilla bundle …`

mod build;
mod clean;
mod export;
mod import;
mod list;
mod remove;
mod show;
mod verify;

use flotilla_core::BundleSummary;
use flotilla_ops::OpError;
use serde_json::{Value, json};

use crate::args::BundleCommand;
use crate::cluster::handle_signals;
use crate::screen::Screen;
use crate::wiring::Wiring;

pub(crate) fn run(command: BundleCommand, screen: &Screen, wiring: &Wiring) -> Result<(), OpError> {
    match &command {
        // These change nothing: Ctrl-C ends them as it ends any program.
        BundleCommand::List(_) | BundleCommand::Show(_) | BundleCommand::Verify(_) => {}
        _ => handle_signals(screen, wiring)?,
    }
    let cx = &wiring.context(screen.reporter());
    match command {
        BundleCommand::Build(args) => build::run(cx, args, screen),
        BundleCommand::List(_) => list::run(cx, screen),
        BundleCommand::Show(args) => show::run(cx, args, screen),
        BundleCommand::Verify(args) => verify::run(cx, args, screen),
        BundleCommand::Clean(_) => clean::run(cx, screen),
        BundleCommand::Remove(args) => remove::run(cx, args, screen),
        BundleCommand::Export(args) => export::run(cx, args, screen),
        BundleCommand::Import(args) => import::run(cx, args, screen),
    }
}

/// A bundle in a few words, for scripts.
fn to_json(bundle: &BundleSummary) -> Value {
    json!(bundle)
}
