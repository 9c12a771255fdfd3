//! Certificate authorities that a user brings.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Their files, by the path below kubeadm's directory `pki`. They are copied into the first control planes of a new
/// cluster, which find them as if kubeadm had made them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Authorities(pub BTreeMap<String, String>);

impl Authorities {
    /// The authorities that a cluster has, as certificates and their keys. The first one has to be there.
    pub const PAIRS: [(&str, &str); 3] =
        [("ca.crt", "ca.key"), ("front-proxy-ca.crt", "front-proxy-ca.key"), ("etcd/ca.crt", "etcd/ca.key")];
    /// What service accounts' tokens are signed with: the public and the private key.
    pub const SIGNER: (&str, &str) = ("sa.pub", "sa.key");

    /// All files that there can be.
    pub fn files() -> impl Iterator<Item = &'static str> {
        Self::PAIRS.into_iter().chain([Self::SIGNER]).flat_map(|(public, private)| [public, private])
    }

    /// Whether only its owner may read a file.
    pub fn is_secret(file: &str) -> bool {
        Path::new(file).extension().is_some_and(|extension| extension == "key")
    }
}

/// Keys are shown nowhere.
impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
