//! Places of settings in the file.

use std::collections::BTreeMap;

use super::reader::{Fields, Reader};
use super::tree::{Tree, Value};
use crate::error::{Place, Requirement};
use crate::{NodeName, RangeUse, SpecError, USER_NAMESPACE_GATE};

/// The part of the file that has the key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Cluster,
    Defaults,
    Node(NodeName),
}

/// Places by key. An entry of a list or a map has its text after the key; a node as a whole has no key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Places(BTreeMap<(Part, String), Place>);

impl Places {
    /// Stores the places of fields and of their entries.
    pub(super) fn note(&mut self, reader: &Reader<'_>, part: &Part, fields: &Fields<'_>) {
        for (key, tree) in fields {
            self.insert(reader, part, key, tree);
            let items: Vec<&Tree> = match &tree.value {
                Value::List(items) => items.iter().collect(),
                Value::Map(pairs) => pairs.iter().map(|(key, _)| key).collect(),
                _ => Vec::new(),
            };
            for (item, text) in items.into_iter().filter_map(|item| Some((item, item.text()?))) {
                self.insert(reader, part, &item_key(key, text), item);
            }
        }
    }

    pub(super) fn note_node(&mut self, reader: &Reader<'_>, part: &Part, item: &Tree) {
        self.insert(reader, part, "", item);
    }

    fn insert(&mut self, reader: &Reader<'_>, part: &Part, key: &str, tree: &Tree) {
        self.0.insert((part.clone(), key.to_owned()), reader.place(tree));
    }

    fn get(&self, part: &Part, key: &str) -> Option<&Place> {
        self.0.get(&(part.clone(), key.to_owned()))
    }

    /// The place of a node's setting: in the node itself, else in the defaults.
    fn of_node(&self, node: &NodeName, key: &str, item: Option<&str>) -> Option<&Place> {
        let node = Part::Node(node.clone());
        let said = |key: &str| self.get(&node, key).or_else(|| self.get(&Part::Defaults, key));
        let item = item.and_then(|item| said(&item_key(key, item)));
        item.or_else(|| said(key)).or_else(|| self.get(&node, ""))
    }

    /// The place of an error, if it has one.
    pub(super) fn of(&self, error: &SpecError) -> Option<&Place> {
        let of_cluster = |key: &str| self.get(&Part::Cluster, key);
        let of_node = |node, key| self.of_node(node, key, None);
        match error {
            SpecError::NoControlPlane | SpecError::TooManyNodes { .. } => of_cluster("nodes"),
            SpecError::NodeElsewhere { name, .. } | SpecError::DuplicateNode { name } => {
                of_node(name, "name")
            }
            SpecError::NoAddressLeft { node } => of_node(node.as_ref()?, "count"),
            SpecError::StoppedControlPlane { node } => of_node(node, "state"),
            SpecError::Cores { node, .. } => of_node(node, "cpus"),
            SpecError::MemoryOverHost { node, .. } | SpecError::MemoryTooSmall { node, .. } => {
                of_node(node, "memory")
            }
            SpecError::DiskTooSmall { node, .. } => of_node(node, "disk"),
            SpecError::KubeletSkew { node, .. } | SpecError::ControlPlaneVersion { node, .. } => {
                // A bundle also sets the version.
                let own = |key| self.get(&Part::Node(node.clone()), key);
                let is_bundles = own("kubernetesVersion").is_none() && own("bundle").is_some();
                of_node(node, if is_bundles { "bundle" } else { "kubernetesVersion" })
            }
            SpecError::VersionAndBundle { node } => of_node(node, "bundle"),
            SpecError::OptionOfCluster { node, option }
            | SpecError::ReservedOption { node: Some(node), option, .. } => {
                self.of_node(node, "extraConfig", Some(&option.to_string()))
            }
            SpecError::ReservedOption { node: None, option, .. } => {
                let item = of_cluster(&item_key("extraConfig", &option.to_string()));
                item.or_else(|| of_cluster("extraConfig"))
            }
            SpecError::KubeletField { node, given, .. } | SpecError::ReservedField { node, given, .. } => {
                self.of_node(node, "kubelet", Some(given))
            }
            SpecError::IsolationGate { node } => {
                let of_gate = |key| self.of_node(node, key, Some(USER_NAMESPACE_GATE));
                of_gate("featureGates").or_else(|| of_node(node, "isolation"))
            }
            SpecError::IsolationNetwork { node } => of_node(node, "isolation"),
            SpecError::MountOver { node, mount, .. } => {
                self.of_node(node, "mounts", Some(&mount.to_string()))
            }
            SpecError::MountTwice { node, .. } => of_node(node, "mounts"),
            SpecError::PortTwice { node, port, .. } | SpecError::PortTaken { node, port, .. } => {
                self.of_node(node, "ports", Some(&port.to_string()))
            }
            SpecError::Unmet { requirement: Requirement { node: Some(node), key, item }, .. } => {
                self.of_node(node, key, item.as_deref())
            }
            SpecError::Unmet { requirement: Requirement { node: None, key, .. }, .. } => of_cluster(key),
            SpecError::Overlap { usage, other_usage, .. } => {
                of_cluster(of_network(*usage)).or_else(|| of_cluster(of_network(*other_usage)))
            }
            SpecError::RangeSize { usage, .. }
            | SpecError::UnusableRange { usage, .. }
            | SpecError::Taken { usage, .. } => of_cluster(of_network(*usage)),
            SpecError::NodePodPrefix { .. } | SpecError::PodSubnetTooSmall { .. } => {
                of_cluster("nodePodPrefix")
            }
            SpecError::DnsDomain { .. } => of_cluster("dnsDomain"),
            _ => None,
        }
    }
}

fn item_key(key: &str, item: &str) -> String {
    format!("{key} {item}")
}

fn of_network(usage: RangeUse) -> &'static str {
    match usage {
        RangeUse::Nodes => "subnet",
        RangeUse::Pods => "podSubnet",
        RangeUse::Services => "serviceSubnet",
    }
}
