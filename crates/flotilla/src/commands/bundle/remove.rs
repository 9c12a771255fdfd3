//! `flotilla bundle remove`

use flotilla_bundle::BundleStore;
use flotilla_ops::OpError;
use serde_json::json;

use crate::args::WhichArgs;
use crate::screen::Screen;

pub(crate) fn run(bundle_store: &BundleStore, args: &WhichArgs, screen: &Screen) -> Result<(), OpError> {
    let digest = bundle_store.remove(&args.which, screen.reporter())?;
    screen.result(&json!({"digest": digest}), || {
        format!("removed bundle {}", digest.get(..12).unwrap_or(&digest))
    });
    Ok(())
}
