//! The configuration of PID 1.

use std::collections::BTreeMap;
use std::path::PathBuf;

use flotilla_node_api::ServiceSpec;
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

/// How PID 1 runs a node. All fields have defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where the node's files are: `/`, except in tests.
    pub root: PathBuf,
    /// What to run. Empty: what every node has.
    pub services: Vec<ServiceSpec>,
    /// The program, by path or by name as found in the node's PATH.
    pub nft: PathBuf,
    /// The virtual IP, if the node may own it.
    pub virtual_ip: Option<Ipv4Net>,
    /// Variables that the services get on top of PATH and HOME.
    pub env: BTreeMap<String, String>,
    pub graces: Graces,
    /// How large a log may grow before it is put aside; two old ones are kept.
    pub log_bytes: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            root: "/".into(),
            services: Vec::new(),
            nft: "nft".into(),
            virtual_ip: None,
            env: BTreeMap::new(),
            graces: Graces::default(),
            log_bytes: 10 << 20,
        }
    }
}

impl Config {
    pub(crate) fn services(&self) -> Vec<ServiceSpec> {
        if self.services.is_empty() { ServiceSpec::of_every_node() } else { self.services.clone() }
    }
}

/// How long those who are told to end may take, in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Graces {
    /// A service that `systemctl` stops.
    pub stop: u64,
    /// Keepalived, until it has given up the address, which it does at once. Its end, a second later, is not waited for.
    pub address: u64,
    /// A service when the node goes down.
    pub service: u64,
    /// The pods when the node goes down.
    pub pods: u64,
    /// The same if only what survives a sudden death is left: etcd has every write on disk, the others keep nothing. Left
    /// alone they wait for each other, for time-outs and for clients that are gone.
    pub system: u64,
}

impl Default for Graces {
    fn default() -> Self {
        Self { stop: 5_000, address: 200, service: 2_000, pods: 5_000, system: 1_000 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_object_is_a_whole_configuration() {
        assert_eq!(serde_json::from_str::<Config>("{}").unwrap(), Config::default());
    }

    #[test]
    fn without_services_a_node_has_those_that_every_node_has() {
        assert_eq!(Config::default().services(), ServiceSpec::of_every_node());
        let one = vec![ServiceSpec::new(flotilla_node_api::Unit::named("agent"), ["agent"])];
        assert_eq!(Config { services: one.clone(), ..Config::default() }.services(), one);
    }

    #[test]
    fn a_misspelt_field_is_refused() {
        assert!(serde_json::from_str::<Config>(r#"{"rot": "/"}"#).is_err());
    }
}
