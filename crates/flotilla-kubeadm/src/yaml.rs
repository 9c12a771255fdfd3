//! Values as YAML.

use serde_json::Value;

/// A value as a YAML document. Strings stay on one line, however long: a folded certificate is hard to find again.
pub(crate) fn document(value: &Value) -> String {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(value, options).expect("a JSON value has a form in YAML")
}
