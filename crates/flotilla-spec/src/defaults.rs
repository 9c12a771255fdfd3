//! Default settings of the nodes of a cluster.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::quantity;
use crate::{
    Cpus, DriverName, ExtraOption, FeatureGates, HostMount, Isolation, KubeletSettings, KubernetesVersion,
    Labels, Memory, NodeName, NodeSpec, Role, Taint,
};

/// The settings that `node add` starts with. Ports are not among them, because a port of the host leads to one node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeDefaults {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<DriverName>,
    #[serde(default, skip_serializing_if = "Isolation::is_none")]
    pub isolation: Isolation,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<Cpus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    #[serde(default, with = "quantity::disk", skip_serializing_if = "Option::is_none")]
    pub disk: Option<u64>,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<KubernetesVersion>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra_config: Vec<ExtraOption>,
    #[serde(default, skip_serializing_if = "FeatureGates::is_empty")]
    pub feature_gates: FeatureGates,
    #[serde(default, skip_serializing_if = "KubeletSettings::is_empty")]
    pub kubelet: KubeletSettings,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<HostMount>,
}

impl NodeDefaults {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// A node with these defaults. A control plane gets the version of its cluster.
    pub fn node(&self, name: NodeName, role: Role) -> NodeSpec {
        let of_all = self.clone();
        let is_worker = role == Role::Worker;
        NodeSpec {
            driver: of_all.driver,
            isolation: of_all.isolation,
            cpus: of_all.cpus.unwrap_or_default(),
            memory: of_all.memory.unwrap_or_default(),
            disk: of_all.disk,
            labels: of_all.labels,
            taints: of_all.taints,
            kubernetes_version: of_all.kubernetes_version.filter(|_| is_worker),
            bundle: of_all.bundle.filter(|_| is_worker),
            extra_config: of_all.extra_config,
            feature_gates: of_all.feature_gates,
            kubelet: of_all.kubelet,
            mounts: of_all.mounts,
            ..NodeSpec::plain(name, role)
        }
    }

    /// The defaults that can stand in a file above these nodes. A node in a file states only what it has, so defaults
    /// that a node lacks would be added to it.
    pub(crate) fn above(&self, nodes: &[NodeSpec]) -> Self {
        let of_all = self.clone();
        let have = |has: &dyn Fn(&NodeSpec) -> bool| nodes.iter().all(has);
        let have_source = have(&|node| node.kubernetes_version.is_some() || node.bundle.is_some());
        Self {
            driver: of_all.driver.filter(|_| have(&|node| node.driver.is_some())),
            isolation: if have(&|node| node.isolation == of_all.isolation) {
                of_all.isolation
            } else {
                Isolation::None
            },
            cpus: of_all.cpus,
            memory: of_all.memory,
            disk: of_all.disk.filter(|_| have(&|node| node.disk.is_some())),
            labels: shared(of_all.labels, |key| have(&|node| has_key(&node.labels, key))),
            taints: kept(of_all.taints, have(&|node| !node.taints.is_empty())),
            kubernetes_version: of_all.kubernetes_version.filter(|_| have_source),
            bundle: of_all.bundle.filter(|_| have_source),
            extra_config: kept(of_all.extra_config, have(&|node| !node.extra_config.is_empty())),
            feature_gates: shared(of_all.feature_gates, |key| {
                have(&|node| has_key(&node.feature_gates, key))
            }),
            kubelet: shared(of_all.kubelet, |key| have(&|node| has_key(&node.kubelet, key))),
            mounts: kept(of_all.mounts, have(&|node| !node.mounts.is_empty())),
        }
    }
}

fn kept<T>(list: Vec<T>, keep: bool) -> Vec<T> {
    if keep { list } else { Vec::new() }
}

fn has_key<Map: Clone, T>(map: &Map, key: &str) -> bool
where
    BTreeMap<String, T>: From<Map>,
{
    BTreeMap::from(map.clone()).contains_key(key)
}

/// The entries of a map that `keep` accepts.
fn shared<Map, T>(map: Map, keep: impl Fn(&str) -> bool) -> Map
where
    BTreeMap<String, T>: From<Map>,
    Map: TryFrom<BTreeMap<String, T>> + Default,
{
    let mut entries = BTreeMap::from(map);
    entries.retain(|key, _| keep(key));
    entries.try_into().unwrap_or_default()
}
