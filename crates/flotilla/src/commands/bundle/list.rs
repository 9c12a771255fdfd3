//! `flotilla bundle list`

use flotilla_bundle::{BundleStore, Listing};
use flotilla_core::event::size;
use flotilla_core::explain::one_line;
use serde_json::Value;

use super::summary;
use crate::screen::{Screen, table};
use flotilla_ops::OpError;

pub(crate) fn run(bundle_store: &BundleStore, screen: &Screen) -> Result<(), OpError> {
    let Listing { bundles, unreadable } = bundle_store.list()?;
    for (digest, error) in &unreadable {
        let short = digest.get(..12).unwrap_or(digest);
        screen.warning(&one_line(error), &format!("remove it with: flotilla bundle remove {short}"));
    }
    if screen.is_json() {
        screen.json(&Value::Array(bundles.iter().map(summary).collect()));
        return Ok(());
    }
    if bundles.is_empty() && unreadable.is_empty() {
        screen.note("no bundles yet", "build one with: flotilla bundle build");
        return Ok(());
    }
    let rows = bundles.iter().map(|bundle| {
        let manifest = &bundle.manifest;
        let fields = [
            manifest.kubernetes.as_str(),
            manifest.short_digest(),
            &size(bundle.on_disk()),
            if manifest.imported { "imported" } else { &manifest.source },
            &manifest.created,
        ];
        fields.map(str::to_owned).to_vec()
    });
    screen.line(&table(&["KUBERNETES", "DIGEST", "SIZE", "SOURCE", "CREATED"], rows));
    Ok(())
}
