//! Versions of Kubernetes.

use std::cmp::Ordering;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{SpecError, text};

/// How many minor versions a kubelet may be older.
const OLDER_KUBELETS: u32 = 3;

/// A full version of Kubernetes, written with its `v`: a release's or a checkout's.
///
/// Ordered by its numbers. `v1.38.0-rc.1` comes before `v1.38.0`; `v1.37.1-5+0123456789abcd`, five commits
/// after the tag, comes after `v1.37.1`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KubernetesVersion {
    major: u32,
    minor: u32,
    patch: u32,
    /// The parts after the `-`.
    stage: Vec<Part>,
    /// The part after the `+`.
    build: Option<String>,
}

/// A piece between dots. Numbers come before words, as in semantic versions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Part {
    Number(u64),
    Word(String),
}

impl KubernetesVersion {
    pub fn minor(&self) -> u32 {
        self.minor
    }

    /// The minor versions of kubelets that a control plane of this version supports: its own and three older ones.
    /// <https://kubernetes.io/releases/version-skew-policy/>
    pub fn takes_kubelets(&self) -> RangeInclusive<u32> {
        self.minor.saturating_sub(OLDER_KUBELETS)..=self.minor
    }

    /// Whether a control plane of this version supports that kubelet.
    pub fn takes_kubelet(&self, kubelet: &Self) -> bool {
        kubelet.major == self.major && self.takes_kubelets().contains(&kubelet.minor)
    }

    /// Before, at or after the release with these numbers.
    fn side(&self) -> Ordering {
        match self.stage.first() {
            Some(Part::Word(_)) => Ordering::Less,
            Some(Part::Number(_)) => Ordering::Greater,
            None => Ordering::Equal,
        }
    }
}

impl Ord for KubernetesVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        let numbers = |version: &Self| (version.major, version.minor, version.patch, version.side());
        numbers(self)
            .cmp(&numbers(other))
            .then_with(|| self.stage.cmp(&other.stage))
            .then_with(|| self.build.cmp(&other.build))
    }
}

impl PartialOrd for KubernetesVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl FromStr for KubernetesVersion {
    type Err = SpecError;

    fn from_str(given: &str) -> Result<Self, SpecError> {
        parse(given.strip_prefix('v').unwrap_or(given))
            .ok_or_else(|| SpecError::Version { given: given.to_owned() })
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = format!("v{}.{}.{}", self.major, self.minor, self.patch);
        for (index, part) in self.stage.iter().enumerate() {
            text.push(if index == 0 { '-' } else { '.' });
            match part {
                Part::Number(number) => text.push_str(&number.to_string()),
                Part::Word(word) => text.push_str(word),
            }
        }
        if let Some(build) = &self.build {
            text.push('+');
            text.push_str(build);
        }
        f.pad(&text)
    }
}

impl Serialize for KubernetesVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for KubernetesVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text::parsed(deserializer, str::parse)
    }
}

fn parse(text: &str) -> Option<KubernetesVersion> {
    let (text, build) = match text.split_once('+') {
        Some((text, build)) => (text, Some(build)),
        None => (text, None),
    };
    let (numbers, stage) = match text.split_once('-') {
        Some((numbers, stage)) => (numbers, Some(stage)),
        None => (text, None),
    };
    let mut numbers = numbers.split('.').map(number);
    let version = KubernetesVersion {
        major: numbers.next()??,
        minor: numbers.next()??,
        patch: numbers.next()??,
        stage: stage.map_or(Some(Vec::new()), |stage| stage.split('.').map(part).collect())?,
        build: match build {
            Some(build) if build.split('.').all(is_word) => Some(build.to_owned()),
            Some(_) => return None,
            None => None,
        },
    };
    numbers.next().is_none().then_some(version)
}

/// Digits without leading zeros, so that the text is unique.
fn number<N: FromStr>(text: &str) -> Option<N> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| plain)
}

fn part(text: &str) -> Option<Part> {
    match number(text) {
        Some(number) => Some(Part::Number(number)),
        None => is_word(text).then(|| Part::Word(text.to_owned())),
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn version(text: &str) -> KubernetesVersion {
        text.parse().unwrap()
    }

    #[test]
    fn a_version_is_written_with_its_v() {
        for (given, written) in [
            ("v1.37.1", "v1.37.1"),
            ("1.37.1", "v1.37.1"),
            ("v1.37.1-5+abcdef0123", "v1.37.1-5+abcdef0123"),
            ("v1.38.0-alpha.1.23+0123456789abcd-dirty", "v1.38.0-alpha.1.23+0123456789abcd-dirty"),
        ] {
            assert_eq!(version(given).to_string(), written);
        }
        assert_eq!(version("v1.37.1").minor(), 37);
    }

    #[test]
    fn half_a_version_is_none() {
        for text in [
            "",
            "v",
            "1.37",
            "v1.37",
            "v1.37.1.2",
            "v1.37.x",
            "vv1.37.1",
            "v1.037.1",
            "v1.+3.1",
            "v1.37.1-",
            "v1.37.1+",
        ] {
            assert_eq!(text.parse::<KubernetesVersion>(), Err(SpecError::Version { given: text.to_owned() }));
        }
        for text in ["stable", "latest", "v1.37.1-a..b", "v1.37.1+a b", "v1.99999999999.1"] {
            assert!(text.parse::<KubernetesVersion>().is_err(), "{text}");
        }
    }

    #[test]
    fn versions_are_ordered_by_number() {
        let ordered = [
            "v1.9.10",
            "v1.37.0",
            "v1.37.1",
            "v1.37.1-5+a",
            "v1.37.1-12+b",
            "v1.37.2",
            "v1.38.0-alpha.2",
            "v1.38.0-alpha.2.7+a",
            "v1.38.0-alpha.10",
            "v1.38.0-rc.0",
            "v1.38.0",
        ];
        let mut sorted = ordered.map(version);
        sorted.reverse();
        sorted.sort();
        assert_eq!(sorted.map(|version| version.to_string()), ordered);
    }

    #[test]
    fn a_control_plane_takes_kubelets_of_its_minor_version_and_three_before_it() {
        let cluster = version("v1.37.1");
        for taken in ["v1.37.0", "v1.37.1", "v1.37.9", "v1.37.1-5+a", "v1.36.4", "v1.34.0"] {
            assert!(cluster.takes_kubelet(&version(taken)), "{taken}");
        }
        for refused in ["v1.38.0", "v1.38.0-alpha.1", "v1.33.9", "v2.36.0", "v0.37.1"] {
            assert!(!cluster.takes_kubelet(&version(refused)), "{refused}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_version_or_an_error(text in "v?[0-9]{0,3}[.][0-9]{0,3}[.][0-9]{0,3}.{0,8}") {
            if let Ok(version) = text.parse::<KubernetesVersion>() {
                let written = version.to_string();
                prop_assert_eq!(written.trim_start_matches('v'), text.trim_start_matches('v'));
            }
        }
    }
}
