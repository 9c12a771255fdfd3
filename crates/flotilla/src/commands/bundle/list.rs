//! `flotilla bundle list`

use flotilla_core::event::size;
use flotilla_core::{BundleList, short_digest};
use flotilla_ops::bundles::list;
use flotilla_ops::{Context, OpError};
use serde_json::Value;

use super::to_json;
use crate::screen::{Screen, table};

pub(crate) fn run(cx: &Context<'_>, screen: &Screen) -> Result<(), OpError> {
    let BundleList { bundles, unreadable } = list::run(cx)?;
    for bundle in &unreadable {
        let short = short_digest(&bundle.digest);
        screen.warning(&bundle.why, &format!("remove it with: flotilla bundle remove {short}"));
    }
    if screen.is_json() {
        screen.json(&Value::Array(bundles.iter().map(to_json).collect()));
        return Ok(());
    }
    if bundles.is_empty() && unreadable.is_empty() {
        screen.note("no bundles yet", "build one with: flotilla bundle build");
        return Ok(());
    }
    let rows = bundles.iter().map(|bundle| {
        let fields = [
            bundle.kubernetes.as_str(),
            bundle.short_digest(),
            &size(bundle.sizes.on_disk),
            if bundle.imported { "imported" } else { &bundle.source },
            &bundle.created,
        ];
        fields.map(str::to_owned).to_vec()
    });
    screen.line(&table(&["KUBERNETES", "DIGEST", "SIZE", "SOURCE", "CREATED"], rows));
    Ok(())
}
