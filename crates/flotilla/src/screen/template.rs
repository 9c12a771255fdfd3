//! Templates such as `{{.Name}}: {{.Host}}`, the part of Go's that minikube's users know.

use flotilla_engine::EngineError;
use flotilla_spec::error::SpecError;
use serde::Serialize;

/// Fills a template with the fields of a value.
pub(crate) fn fill_in(template: &str, value: &impl Serialize) -> Result<String, EngineError> {
    let fields = serde_json::to_value(value).expect("what we show is plain data");
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (field, behind) = after.split_once("}}").unwrap_or((after, ""));
        let field = field.trim();
        let value = field.strip_prefix('.').and_then(|name| fields.get(name));
        let Some(value) = value else {
            let known = fields.as_object().into_iter().flatten().map(|(name, _)| format!(".{name}"));
            let known = known.collect::<Vec<_>>().join(", ");
            let given = field.to_owned();
            return Err(EngineError::Spec(vec![SpecError::UnknownField { given, known }]));
        };
        text.push_str(before);
        text.push_str(&value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        rest = behind;
    }
    text.push_str(rest);
    Ok(text.replace("\\n", "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_are_filled_in_and_the_rest_is_kept() {
        let value = json!({"Name": "demo", "Count": 3});
        assert_eq!(fill_in("{{.Name}}: {{ .Count }}\\n", &value).unwrap(), "demo: 3\n");
        assert_eq!(fill_in("plain", &value).unwrap(), "plain");
    }

    #[test]
    fn an_unknown_field_is_told_with_those_that_are_known() {
        let error = fill_in("{{.Nothing}}", &json!({"Name": "demo"})).unwrap_err();
        assert_eq!(error.to_string(), "unknown template field \".Nothing\": expected one of .Name");
    }
}
