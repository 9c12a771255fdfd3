//! Labels and taints of a node.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{SpecError, text};

/// Labels, by key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct Labels(BTreeMap<String, String>);

impl Labels {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Takes over the labels of others. Of two values of a key, theirs stays.
    pub fn add(&mut self, others: &Self) {
        self.0.extend(others.0.clone());
    }
}

impl TryFrom<BTreeMap<String, String>> for Labels {
    type Error = SpecError;

    fn try_from(labels: BTreeMap<String, String>) -> Result<Self, SpecError> {
        for (key, value) in &labels {
            if !is_key(key) || !is_value(value) {
                return Err(SpecError::Label { given: format!("{key}={value}") });
            }
        }
        Ok(Self(labels))
    }
}

impl From<Labels> for BTreeMap<String, String> {
    fn from(labels: Labels) -> Self {
        labels.0
    }
}

/// Reads `disk=ssd,zone=a`.
impl FromStr for Labels {
    type Err = SpecError;

    fn from_str(given: &str) -> Result<Self, SpecError> {
        let pairs = given.split(',').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) =
                pair.split_once('=').ok_or_else(|| SpecError::Label { given: pair.to_owned() })?;
            Ok((key.to_owned(), value.to_owned()))
        });
        Self::try_from(pairs.collect::<Result<BTreeMap<_, _>, SpecError>>()?)
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<_> = self.iter().map(|(key, value)| format!("{key}={value}")).collect();
        f.write_str(&pairs.join(","))
    }
}

/// A taint: `key=value:NoSchedule`; the value may be missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taint {
    key: String,
    value: String,
    effect: Effect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

impl Effect {
    const ALL: [(Self, &str); 3] = [
        (Self::NoSchedule, "NoSchedule"),
        (Self::PreferNoSchedule, "PreferNoSchedule"),
        (Self::NoExecute, "NoExecute"),
    ];
}

impl Taint {
    /// The taint of control planes in Kubernetes: only system pods tolerate it.
    pub fn of_control_planes() -> Self {
        let key = "node-role.kubernetes.io/control-plane".to_owned();
        Self { key, value: String::new(), effect: Effect::NoSchedule }
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn value(&self) -> &str {
        &self.value
    }

    pub fn effect(&self) -> &'static str {
        Effect::ALL.iter().find(|(effect, _)| *effect == self.effect).expect("all are in the list").1
    }
}

impl FromStr for Taint {
    type Err = SpecError;

    fn from_str(given: &str) -> Result<Self, SpecError> {
        let bad = || SpecError::Taint { given: given.to_owned() };
        let (what, effect) = given.rsplit_once(':').ok_or_else(bad)?;
        let (key, value) = what.split_once('=').unwrap_or((what, ""));
        let effect = Effect::ALL.iter().find(|(_, name)| *name == effect).ok_or_else(bad)?.0;
        if !is_key(key) || !is_value(value) {
            return Err(bad());
        }
        Ok(Self { key: key.to_owned(), value: value.to_owned(), effect })
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value, .. } = self;
        if value.is_empty() {
            write!(f, "{key}:{}", self.effect())
        } else {
            write!(f, "{key}={value}:{}", self.effect())
        }
    }
}

impl Serialize for Taint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Taint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text::parsed(deserializer, str::parse)
    }
}

/// Kubernetes' rule: an optional DNS prefix and `/`, then a name.
fn is_key(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(crate::name::is_dns_name) && !name.is_empty() && is_value(name)
}

/// At most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends; may be empty.
fn is_value(value: &str) -> bool {
    let ends = |edge: Option<char>| edge.is_none_or(|c| c.is_ascii_alphanumeric());
    value.len() <= 63
        && ends(value.chars().next())
        && ends(value.chars().last())
        && value.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_and_written() {
        let labels: Labels = "zone=a,example.org/disk=ssd,empty=".parse().unwrap();
        assert_eq!(labels.to_string(), "empty=,example.org/disk=ssd,zone=a");
        assert!("".parse::<Labels>().unwrap().is_empty());
        for bad in ["zone", "=a", "a b=c", "a=b c", "a/b/c=d", "-a=b", "a=b-"] {
            assert!(bad.parse::<Labels>().is_err(), "{bad}");
        }
    }

    #[test]
    fn taints_are_read_and_written() {
        for good in ["gpu=yes:NoSchedule", "example.org/batch:NoExecute", "x:PreferNoSchedule"] {
            assert_eq!(good.parse::<Taint>().unwrap().to_string(), good);
        }
        for bad in ["gpu", "gpu=yes", "gpu=yes:Never", ":NoSchedule", "a b:NoSchedule"] {
            assert!(bad.parse::<Taint>().is_err(), "{bad}");
        }
    }
}
