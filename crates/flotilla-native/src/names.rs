//! Names of kernel objects: derived from the cluster's name and the state directory, so that clusters of the same
//! name in two state directories do not collide.

use std::path::Path;

use flotilla_spec::{ClusterName, NodeName};
use sha2::{Digest, Sha256};

/// How the names of ports of bridges begin.
pub(super) const PORT: &str = "vflo";

/// How the names of tables of ports end.
const PORTS: &str = "-ports";

/// The names of one cluster's things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names {
    cluster: ClusterName,
    /// Eight digits; a link's name has room for 15 letters.
    id: String,
}

impl Names {
    pub(super) fn of(home: &Path, cluster: &ClusterName) -> Self {
        let home = std::fs::canonicalize(home).unwrap_or_else(|_| home.to_owned());
        let id = short_hash(&[home.as_os_str().as_encoded_bytes(), cluster.as_ref().as_bytes()]);
        Self { cluster: cluster.clone(), id }
    }

    /// The control group that the nodes' groups are in.
    pub(super) fn group(&self) -> String {
        format!("flotilla/{}-{}", self.cluster, self.id)
    }

    pub(super) fn node_group(&self, node: &NodeName) -> String {
        format!("{}/{node}", self.group())
    }

    pub(super) fn bridge(&self) -> String {
        format!("flo{}", self.id)
    }

    /// The end in the bridge of a node's link.
    pub(super) fn port(&self, node: &NodeName) -> String {
        format!("{PORT}{}", self.hash_of(node))
    }

    /// The other end of a node's link, until it is in the node.
    pub(super) fn loose_end(&self, node: &NodeName) -> String {
        format!("lflo{}", self.hash_of(node))
    }

    fn hash_of(&self, node: &NodeName) -> String {
        short_hash(&[self.id.as_bytes(), node.as_ref().as_bytes()])
    }

    /// The alias of a cluster's links: this, or this followed by `/`.
    pub(super) fn owner(&self) -> String {
        format!("flotilla/{}/{}", self.id, self.cluster)
    }

    /// The alias of a node's link.
    pub(super) fn owner_of_port(&self, node: &NodeName) -> String {
        format!("{}/{node}", self.owner())
    }

    /// The table of packet rules, and the mark of our rules in tables of others.
    pub(super) fn table(&self) -> String {
        format!("flotilla-{}", self.id)
    }

    /// The table of the host's ports that lead to nodes.
    pub(super) fn ports_table(&self) -> String {
        format!("{}{PORTS}", self.table())
    }

    /// Whether a table is that of some cluster's ports.
    pub(super) fn is_ports_table(table: &str) -> bool {
        table.starts_with("flotilla-") && table.ends_with(PORTS)
    }
}

fn short_hash(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
        hash.update([0]);
    }
    let digest = hash.finalize();
    let first = digest.first_chunk().expect("a digest has 32 bytes");
    format!("{:08x}", u32::from_be_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_and_differ() {
        let cluster: ClusterName = "a-name-as-long-as-a-name-may-well-be".parse().unwrap();
        let names = Names::of(Path::new("/home/a/.flotilla"), &cluster);
        let other = Names::of(Path::new("/home/b/.flotilla"), &cluster);
        let (one, two) = (NodeName::default_for(&cluster, 1), NodeName::default_for(&cluster, 2));
        for link in [names.bridge(), names.port(&one), names.loose_end(&one)] {
            assert!(link.len() <= 15, "{link}");
        }
        assert_ne!(names.bridge(), other.bridge());
        assert_ne!(names.port(&one), names.port(&two));
        assert_ne!(names.port(&one), other.port(&one));
        assert_eq!(names, Names::of(Path::new("/home/a/.flotilla"), &cluster));
    }
}
