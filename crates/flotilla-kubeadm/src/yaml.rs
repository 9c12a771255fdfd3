//! Values as YAML, and back.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// A value as a YAML document. Strings stay on one line, however long: a folded certificate is hard to find again.
pub(crate) fn document(value: &Value) -> String {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(value, options).expect("a JSON value has a form in YAML")
}

/// What a file with secrets says. An error tells the place, but does not show it.
pub(crate) fn parse_secret<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Box<serde_saphyr::Error>> {
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_slice_with_options(bytes, options).map_err(Box::new)
}
