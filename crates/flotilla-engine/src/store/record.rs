//! The stored form of a cluster, and the forms of earlier versions.
//!
//! - 1: `state.json` without a version, and the spec beside it in `cluster.yaml`.
//! - 2: all of it in `state.json`, with `schemaVersion` and `spec`.
//! - 3: nodes and `nodeDefaults` can name their driver.
//! - 4: nodes have their addresses beside their numbers, which is all that they had before.
//! - 5: nodes and `nodeDefaults` can have an `isolation`, and nodes with a user namespace have `ids`; a cluster can
//!   have the user's `certificateAuthority`.
//! - 6: `apiServer` can have a `port`.
//! - 7: nodes can be `relabelling`.
//!
//! A flotilla that does not know a field would drop it with its next save. So unknown fields are errors, and a new
//! field needs a new version.

use flotilla_spec::ClusterSpec;
use ipnet::Ipv4Net;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use flotilla_core::cluster::{Allocation, Allocations, Cluster, IdRange};

/// The newest version.
pub const SCHEMA_VERSION: u64 = 7;
/// The version of what has not changed since.
const PLAIN_VERSION: u64 = 2;

/// The first version whose nodes have addresses.
const WITH_ADDRESSES: u64 = 4;

const VERSION_KEY: &str = "schemaVersion";
const SPEC_KEY: &str = "spec";

/// Why something that was kept cannot be used.
#[derive(Debug)]
pub(super) enum Unreadable {
    /// With the version that it has.
    Newer(u64),
    Damaged(Box<dyn std::error::Error + Send + Sync>),
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Unreadable {
    fn from(error: E) -> Self {
        Self::Damaged(Box::new(error))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Versioned<'a, T> {
    schema_version: u64,
    #[serde(flatten)]
    content: &'a T,
}

#[derive(Serialize)]
struct State<'a> {
    #[serde(flatten)]
    allocations: &'a Allocations,
    spec: &'a ClusterSpec,
}

/// Text with the version in it.
pub(super) fn versioned<T: Serialize>(content: &T) -> String {
    with_version(PLAIN_VERSION, content)
}

pub(super) fn write(cluster: &Cluster) -> String {
    let Cluster { allocations, spec, .. } = cluster;
    with_version(SCHEMA_VERSION, &State { allocations, spec })
}

fn with_version<T: Serialize>(schema_version: u64, content: &T) -> String {
    serde_json::to_string_pretty(&Versioned { schema_version, content }).expect("it is plain data") + "\n"
}

/// Reads a cluster out of `state.json` and, for version 1, `cluster.yaml`; none if version 1 has no `cluster.yaml`.
pub(super) fn read(state: &str, spec: Option<&str>) -> Result<Option<Cluster>, Unreadable> {
    let mut fields = fields(state)?;
    let version = version(&fields)?;
    let spec: ClusterSpec = match (version, fields.remove(SPEC_KEY), spec) {
        (1, None, None) => return Ok(None),
        (1, None, Some(yaml)) => ClusterSpec::from_yaml(yaml)
            .map_err(|error| Unreadable::Damaged(format!("cluster.yaml: {error}").into()))?,
        (_, Some(spec), _) => serde_json::from_value(spec)?,
        (_, None, _) => return Err(Unreadable::Damaged(format!("it has no `{SPEC_KEY}`").into())),
    };
    if version < WITH_ADDRESSES {
        add_addresses(&mut fields, spec.network.node_pod_prefix)?;
    }
    Ok(Some(Cluster::new(spec, content(fields)?)))
}

/// Puts the addresses beside the nodes' numbers that followed from them in earlier versions.
fn add_addresses(fields: &mut Map<String, Value>, pod_prefix: u8) -> Result<(), Unreadable> {
    let range = |name: &str| fields.get(name)?.as_str()?.parse::<Ipv4Net>().ok();
    let ranges = range("subnet").zip(range("podSubnet"));
    let (Some((subnet, pod_subnet)), Some(Value::Object(nodes))) = (ranges, fields.get_mut("nodes")) else {
        // What is wrong with it is found when it is read.
        return Ok(());
    };
    for (node, value) in nodes {
        let Some(number) = value.as_u64() else { continue };
        let number = u32::try_from(number).ok();
        let of = |number| Allocation::of(number, subnet, pod_subnet, pod_prefix);
        let allocation = number.and_then(of).ok_or_else(|| {
            Unreadable::Damaged(
                format!("the ranges have no addresses for node {node}: its number is {value}").into(),
            )
        })?;
        *value = serde_json::to_value(allocation)?;
    }
    Ok(())
}

/// Reads what [`versioned`] has written, or version 1 had without a version.
pub(super) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Unreadable> {
    let fields = fields(text)?;
    version(&fields)?;
    content(fields)
}

fn fields(text: &str) -> Result<Map<String, Value>, Unreadable> {
    Ok(serde_json::from_str(text)?)
}

/// The version of what is read, if this flotilla knows it.
fn version(fields: &Map<String, Value>) -> Result<u64, Unreadable> {
    match fields.get(VERSION_KEY).map(|version| (version, version.as_u64())) {
        None => Ok(1),
        Some((_, Some(version @ 1..=SCHEMA_VERSION))) => Ok(version),
        Some((_, Some(version))) if version > SCHEMA_VERSION => Err(Unreadable::Newer(version)),
        Some((other, _)) => Err(Unreadable::Damaged(format!("`{VERSION_KEY}` is {other}").into())),
    }
}

fn content<T: DeserializeOwned>(mut fields: Map<String, Value>) -> Result<T, Unreadable> {
    fields.remove(VERSION_KEY);
    Ok(serde_json::from_value(Value::Object(fields))?)
}

/// Extracts the node and pod ranges from text that may be truncated, damaged or of a newer version, in JSON or YAML.
pub(super) fn salvage(text: &str) -> Vec<Ipv4Net> {
    let is_in_a_name = |char: char| char.is_ascii_alphanumeric();
    let is_in_a_range = |char: char| char.is_ascii_digit() || ['.', '/'].contains(&char);
    let mut found = Vec::new();
    for name in ["subnet", "podSubnet"] {
        for (at, _) in text.match_indices(name) {
            if text[..at].ends_with(is_in_a_name) {
                continue;
            }
            let value = text[at + name.len()..].trim_start_matches(['"', '\'', ':', ' ']);
            // A truncated value could be another range: `10.1.0.0/2` of `10.1.0.0/24`.
            let Some(end) = value.find(|char| !is_in_a_range(char)) else { continue };
            found.extend(value[..end].parse::<Ipv4Net>().ok().filter(|range| !found.contains(range)));
        }
    }
    found
}

/// The same for ids of user namespaces.
pub(super) fn salvage_ids(text: &str) -> Vec<IdRange> {
    let values = text.split("\"firstId\"").skip(1).map(|rest| rest.trim_start_matches([':', ' ']));
    let numbers = values.filter_map(|value| {
        // A truncated number would be another one.
        let end = value.find(|char: char| !char.is_ascii_digit())?;
        value[..end].parse().ok()
    });
    numbers.map(|first_id| IdRange { first_id, count: IdRange::SIZE }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_in_whatever_is_left_of_a_text() {
        let of = |text: &str| salvage_ids(text).iter().map(|ids| ids.first_id).collect::<Vec<_>>();
        let whole = r#"{"ids": {"a": {"firstId": 1879048192, "count": 65536}, "b": {"firstId":1879113728}}}"#;
        assert_eq!(of(whole), [1_879_048_192, 1_879_113_728]);
        assert_eq!(of(&whole[..whole.len() - 5]), [1_879_048_192]);
        for nothing in ["", "firstId", r#"{"firstId": "x"}"#] {
            assert_eq!(of(nothing), [0; 0]);
        }
    }

    #[test]
    fn ranges_are_found_in_whatever_is_left_of_a_text() {
        let of = |text: &str| salvage(text).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let whole =
            r#"{"schemaVersion": 9, "subnet": "10.213.0.0/24", "podSubnet": "10.244.0.0/16", "x": 1}"#;
        assert_eq!(of(whole), "10.213.0.0/24 10.244.0.0/16");
        let cut = whole.find("6\", \"x").unwrap();
        assert_eq!(of(&whole[..cut]), "10.213.0.0/24", "{}", &whole[..cut]);
        assert_eq!(
            of("network:\n  subnet: 10.1.0.0/24\n  podSubnet: '10.2.0.0/16'\n"),
            "10.1.0.0/24 10.2.0.0/16"
        );
        assert_eq!(of("  serviceSubnet: 10.96.0.0/12\n"), "", "clusters share it");
        assert_eq!(
            of(r#"{"subnet": "10.213.0.0/24", "spec": {"network": {"subnet": "10.213.0.0/24"}}}"#),
            "10.213.0.0/24"
        );
        for nothing in ["", "\0{garbage", "subnet", r#"{"subnet": 7, "podSubnet": "#] {
            assert_eq!(of(nothing), "");
        }
    }
}
