//! `flotilla bundle list`

use flotilla_bundle::Shelf;
use flotilla_bundle::error::size;
use serde_json::Value;

use super::summary;
use crate::failure::Failure;
use crate::screen::{Screen, table};

pub(crate) fn run(shelf: &Shelf, screen: &Screen) -> Result<(), Failure> {
    let bundles = shelf.list()?;
    if screen.is_json() {
        screen.json(&Value::Array(bundles.iter().map(summary).collect()));
        return Ok(());
    }
    if bundles.is_empty() {
        screen.note("no bundles yet; make one with: flotilla bundle build");
        return Ok(());
    }
    let rows = bundles.iter().map(|bundle| {
        let manifest = &bundle.manifest;
        let fields = [
            manifest.kubernetes.as_str(),
            manifest.short_digest(),
            &size(manifest.sizes.on_disk),
            &manifest.source,
            &manifest.created,
        ];
        fields.map(str::to_owned).to_vec()
    });
    screen.line(&table(&["KUBERNETES", "DIGEST", "SIZE", "SOURCE", "CREATED"], rows));
    Ok(())
}
