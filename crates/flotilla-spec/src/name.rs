//! Names of clusters and nodes.
//!
//! A name becomes a host name, a kubeconfig context, a directory and a control group, so only characters that all of
//! them accept are allowed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{SpecError, text};

/// Longest name of a cluster: names of its nodes and links are longer.
const CLUSTER_MAX: usize = 40;

/// Longest label of a host name (RFC 1035). The default name of a node is the cluster's name and a number.
const NODE_MAX: usize = 63;

/// What is wrong with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameProblem {
    Empty,
    TooLong { max: usize },
    Character(char),
    Start,
    End,
}

impl fmt::Display for NameProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("is empty"),
            Self::TooLong { max } => write!(f, "is longer than {max} characters"),
            Self::Character(char) => write!(f, "contains {char:?}: only a-z, 0-9 and '-' are allowed"),
            Self::Start => f.write_str("does not begin with a letter"),
            Self::End => f.write_str("does not end with a letter or a digit"),
        }
    }
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl FromStr for $name {
            type Err = SpecError;

            fn from_str(name: &str) -> Result<Self, SpecError> {
                checked($what, name, $max).map(Self)
            }
        }

        impl TryFrom<String> for $name {
            type Error = SpecError;

            fn try_from(name: String) -> Result<Self, SpecError> {
                name.parse()
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                text::parsed(deserializer, str::parse)
            }
        }
    };
}

name_type! {
    /// The name of a cluster: 1 to 40 of a-z, 0-9 and `-`, a letter first, no `-` last.
    ClusterName, "cluster", CLUSTER_MAX
}

name_type! {
    /// The name of a node: like a cluster's, but up to 63 characters.
    NodeName, "node", NODE_MAX
}

impl NodeName {
    /// The name minikube would give: the cluster's own for the first node, then `<cluster>-m02`, `-m03`, …
    ///
    /// Nodes are counted from 1.
    pub fn default_for(cluster: &ClusterName, index: u32) -> Self {
        if index == 1 { Self(cluster.0.clone()) } else { Self(format!("{cluster}-m{index:02}")) }
    }

    /// The short name: `m02` for `demo-m02` in cluster `demo`, otherwise the full name.
    pub fn short(&self, cluster: &ClusterName) -> &str {
        self.0
            .strip_prefix(cluster.as_ref())
            .and_then(|rest| rest.strip_prefix('-'))
            .filter(|rest| is_short(rest))
            .unwrap_or(&self.0)
    }

    /// Reads a short or full name: `m02` is `demo-m02` in cluster `demo`.
    pub fn typed(cluster: &ClusterName, text: &str) -> Result<Self, SpecError> {
        if is_short(text) { format!("{cluster}-{text}").parse() } else { text.parse() }
    }
}

/// Whether it is the last part of a default name: `m02`.
fn is_short(text: &str) -> bool {
    let is_number = |rest: &str| rest.len() >= 2 && rest.bytes().all(|byte| byte.is_ascii_digit());
    text.strip_prefix('m').is_some_and(is_number)
}

/// Whether it is a DNS name for Kubernetes: lower case, labels of 1 to 63 characters, at most 253 in total.
pub(crate) fn is_dns_name(name: &str) -> bool {
    name.len() <= 253
        && name.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && label.chars().all(is_allowed)
                && !label.starts_with('-')
                && !label.ends_with('-')
        })
}

fn checked(what: &'static str, name: &str, max: usize) -> Result<String, SpecError> {
    match problem_of(name, max) {
        None => Ok(name.to_owned()),
        Some(problem) => {
            Err(SpecError::Name { what, name: name.to_owned(), problem, better: repaired(name, max) })
        }
    }
}

fn problem_of(name: &str, max: usize) -> Option<NameProblem> {
    if name.is_empty() {
        Some(NameProblem::Empty)
    } else if let Some(char) = name.chars().find(|&char| !is_allowed(char)) {
        Some(NameProblem::Character(char))
    } else if !name.starts_with(|char: char| char.is_ascii_lowercase()) {
        Some(NameProblem::Start)
    } else if name.ends_with('-') {
        Some(NameProblem::End)
    } else if name.len() > max {
        Some(NameProblem::TooLong { max })
    } else {
        None
    }
}

fn is_allowed(char: char) -> bool {
    char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-'
}

/// A similar valid name, if lower case and replaced characters are enough.
fn repaired(name: &str, max: usize) -> Option<String> {
    let mut better = String::new();
    for char in name.chars().map(|char| char.to_ascii_lowercase()) {
        if char.is_ascii_alphanumeric() {
            better.push(char);
        } else if !better.is_empty() && !better.ends_with('-') {
            better.push('-');
        }
    }
    better.truncate(max);
    let better = better.trim_end_matches('-');
    problem_of(better, max).is_none().then(|| better.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reported(name: &str) -> String {
        let error = name.parse::<ClusterName>().unwrap_err();
        format!("{error}\nhint: {}", error.hint().unwrap_or_default())
    }

    #[test]
    fn plain_names_are_taken() {
        for name in ["a", "demo", "demo-2", "d3", "no", &"a".repeat(40)] {
            assert_eq!(name.parse::<ClusterName>().unwrap().as_ref(), name);
        }
    }

    #[test]
    fn a_bad_name_is_reported_with_a_better_one() {
        insta::assert_snapshot!(reported("My_Cluster"), @r#"
        cluster name "My_Cluster" contains 'M': only a-z, 0-9 and '-' are allowed
        hint: try `my-cluster`
        "#);
        insta::assert_snapshot!(reported("demo-"), @r#"
        cluster name "demo-" does not end with a letter or a digit
        hint: try `demo`
        "#);
        insta::assert_snapshot!(reported("2nd"), @r#"
        cluster name "2nd" does not begin with a letter
        hint:
        "#);
        insta::assert_snapshot!(reported(""), @r#"
        cluster name "" is empty
        hint:
        "#);
        let long = "a".repeat(41);
        assert!(reported(&long).contains("is longer than 40 characters"));
    }

    #[test]
    fn a_name_with_terminal_codes_in_it_is_shown_escaped() {
        assert!(!reported("a\u{1b}[31m").contains('\u{1b}'));
    }

    #[test]
    fn default_names_are_minikubes() {
        let cluster: ClusterName = "demo".parse().unwrap();
        let name = |index| NodeName::default_for(&cluster, index).to_string();
        assert_eq!([1, 2, 12, 100].map(name), ["demo", "demo-m02", "demo-m12", "demo-m100"]);
    }

    #[test]
    fn default_names_of_the_longest_cluster_name_are_names() {
        let cluster: ClusterName = "a".repeat(40).parse().unwrap();
        let name = NodeName::default_for(&cluster, u32::MAX);
        assert_eq!(name.as_ref().parse(), Ok(name));
    }

    #[test]
    fn only_default_names_have_a_short_form() {
        let cluster: ClusterName = "demo".parse().unwrap();
        let short = |name: &str| name.parse::<NodeName>().unwrap().short(&cluster).to_owned();
        assert_eq!(short("demo-m02"), "m02");
        assert_eq!(short("demo-m100"), "m100");
        for full in ["demo", "demo-master", "demo-m", "demo-m2", "other-m02", "demom02"] {
            assert_eq!(short(full), full);
        }
    }

    #[test]
    fn a_short_name_that_is_typed_is_the_clusters() {
        let cluster: ClusterName = "demo".parse().unwrap();
        let typed = |text: &str| NodeName::typed(&cluster, text).unwrap().to_string();
        assert_eq!(["m02", "m100"].map(typed), ["demo-m02", "demo-m100"]);
        for full in ["demo", "demo-m02", "m", "m2", "m0x", "master", "other-m02"] {
            assert_eq!(typed(full), full);
        }
        assert!(NodeName::typed(&cluster, "M02").is_err());
    }

    #[test]
    fn dns_names_have_proper_labels() {
        for good in ["cluster.local", "a", "1.b-c"] {
            assert!(is_dns_name(good), "{good}");
        }
        let long = "a".repeat(64);
        for bad in ["", ".", "a..b", "a.", "-a.b", "a-.b", "A.b", "a_b", "*.a", &long] {
            assert!(!is_dns_name(bad), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_proposed_is_a_name(name in ".{0,80}") {
            if let Err(SpecError::Name { better: Some(better), .. }) = name.parse::<ClusterName>() {
                prop_assert!(better.parse::<ClusterName>().is_ok());
            }
        }

        #[test]
        fn what_is_shown_short_can_be_typed(name in "(demo-)?[a-z]{0,2}m[0-9]{0,4}") {
            let (cluster, name) = ("demo".parse().unwrap(), name.parse::<NodeName>().unwrap());
            // A name that looks like a short name is read as one.
            if !is_short(name.as_ref()) {
                prop_assert_eq!(NodeName::typed(&cluster, name.short(&cluster)), Ok(name));
            }
        }

        #[test]
        fn names_are_dns_names(name in "[a-z][a-z0-9-]{0,38}[a-z0-9]") {
            prop_assert!(name.parse::<ClusterName>().is_ok());
            prop_assert!(is_dns_name(&name));
        }
    }
}
