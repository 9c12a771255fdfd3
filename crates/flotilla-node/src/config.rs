//! The configuration of PID 1.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

/// How PID 1 runs a node. All fields have defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where the node's files are: `/`, except in tests.
    pub root: PathBuf,
    /// The program, by path or by name as found in the node's PATH. The same holds for the others.
    pub containerd: PathBuf,
    pub kubelet: PathBuf,
    pub keepalived: PathBuf,
    pub nft: PathBuf,
    /// The virtual IP, if the node may own it.
    pub virtual_ip: Option<Ipv4Net>,
    /// Variables that the services get on top of PATH and HOME.
    pub env: BTreeMap<String, String>,
    /// Time limit for pods to terminate at shutdown. The other steps take at most 4 s.
    pub pod_grace_ms: u64,
    /// How large a log may grow before it is put aside; two old ones are kept.
    pub log_bytes: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            root: "/".into(),
            containerd: "containerd".into(),
            kubelet: "kubelet".into(),
            keepalived: "keepalived".into(),
            nft: "nft".into(),
            virtual_ip: None,
            env: BTreeMap::new(),
            pod_grace_ms: 5_000,
            log_bytes: 10 << 20,
        }
    }
}

impl Config {
    pub(crate) fn pod_grace(&self) -> Duration {
        Duration::from_millis(self.pod_grace_ms)
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
    fn a_misspelt_field_is_refused() {
        assert!(serde_json::from_str::<Config>(r#"{"rot": "/"}"#).is_err());
    }
}
