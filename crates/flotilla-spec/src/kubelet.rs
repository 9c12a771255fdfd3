//! A node's own kubelet settings.

mod fields;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::SpecError;
use crate::text::nearest;
use fields::FIELDS;

pub(crate) use fields::MINOR;

/// Header fields, which are not settings.
const NOT_SETTINGS: [&str; 2] = ["apiVersion", "kind"];

/// Fields of a `KubeletConfiguration`, by name: `maxPods: 50`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, Value>")]
pub struct KubeletSettings(BTreeMap<String, Value>);

impl KubeletSettings {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Fields that no kubelet up to v1.37 has and that it would ignore, with the most similar known one.
    pub(crate) fn unknown(&self) -> impl Iterator<Item = (&str, Option<String>)> {
        let names = self.0.keys().map(String::as_str);
        names.filter(|name| !FIELDS.contains(name)).map(|name| (name, nearest(name, &FIELDS)))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

impl TryFrom<BTreeMap<String, Value>> for KubeletSettings {
    type Error = SpecError;

    fn try_from(settings: BTreeMap<String, Value>) -> Result<Self, SpecError> {
        let is_name = |name: &String| {
            name.starts_with(|c: char| c.is_ascii_lowercase())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
                && !NOT_SETTINGS.contains(&name.as_str())
        };
        match settings.keys().find(|name| !is_name(name)) {
            Some(name) => Err(SpecError::KubeletSetting { given: name.clone() }),
            None => Ok(Self(settings)),
        }
    }
}

impl From<KubeletSettings> for BTreeMap<String, Value> {
    fn from(settings: KubeletSettings) -> Self {
        settings.0
    }
}

impl fmt::Display for KubeletSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings: Vec<_> = self.iter().map(|(name, value)| format!("{name}={value}")).collect();
        f.pad(&settings.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_has_the_name_of_a_field() {
        let read = |text: &str| serde_json::from_str::<KubeletSettings>(text);
        let settings = read(r#"{"maxPods": 50, "evictionHard": {"memory.available": "1Gi"}}"#).unwrap();
        assert_eq!(settings.to_string(), r#"evictionHard={"memory.available":"1Gi"},maxPods=50"#);
        for text in [r#"{"kind": "X"}"#, r#"{"apiVersion": "X"}"#, r#"{"max-pods": 1}"#, r#"{"": 1}"#] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_slip_is_reported_from_a_field() {
        let settings = BTreeMap::from(
            ["maxPods", "maxPod", "maxpods", "wonder"].map(|name| (name.to_owned(), 1.into())),
        );
        let unknown = KubeletSettings::try_from(settings).unwrap();
        let meant: Vec<_> =
            unknown.unknown().map(|(name, meant)| (name, meant.unwrap_or_default())).collect();
        let max_pods = "maxPods".to_owned();
        assert_eq!(meant, [("maxPod", max_pods.clone()), ("maxpods", max_pods), ("wonder", String::new())]);
    }
}
