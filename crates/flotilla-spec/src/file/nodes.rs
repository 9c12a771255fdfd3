//! The nodes of the file.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::places::{Part, Places};
use super::reader::{Fields, Reader};
use super::tree::Tree;
use super::{MOST_NODES, read_gates};
use crate::quantity::parse_disk;
use crate::text::one_of;
use crate::{
    ClusterName, Cpus, DriverName, ExtraOption, FeatureGates, HostMount, HostPort, Isolation,
    KubeletSettings, KubernetesVersion, Labels, Memory, NodeDefaults, NodeName, NodeSpec, Role, SpecError,
    Taint, WantedPower,
};

/// Keys of `nodeDefaults` and of a node.
pub(super) const SETTING_KEYS: [&str; 14] = [
    "driver",
    "isolation",
    "cpus",
    "memory",
    "disk",
    "labels",
    "taints",
    "kubernetesVersion",
    "bundle",
    "kubelet",
    "extraConfig",
    "featureGates",
    "mounts",
    "ports",
];
/// Keys of a node only.
pub(super) const KEYS: [&str; 4] = ["name", "count", "role", "state"];

/// Settings of `nodeDefaults` or of a node.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    pub(super) driver: Option<DriverName>,
    isolation: Option<Isolation>,
    cpus: Option<Cpus>,
    memory: Option<Memory>,
    disk: Option<u64>,
    labels: BTreeMap<String, String>,
    taints: Option<Vec<Taint>>,
    kubernetes_version: Option<KubernetesVersion>,
    bundle: Option<String>,
    kubelet: BTreeMap<String, Json>,
    extra_config: Option<Vec<ExtraOption>>,
    feature_gates: BTreeMap<String, bool>,
    mounts: Option<Vec<HostMount>>,
    ports: Option<Vec<HostPort>>,
}

impl Settings {
    pub(super) fn read(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Self {
        let field = |key: &str| fields.get(key).copied();
        Self {
            driver: reader.parsed(field("driver"), str::parse),
            isolation: reader.parsed(field("isolation"), str::parse),
            cpus: reader.parsed(field("cpus"), str::parse),
            memory: reader.parsed(field("memory"), str::parse),
            disk: reader.parsed(field("disk"), parse_disk),
            labels: reader.entries(field("labels"), |key, value| {
                let pair = BTreeMap::from([(key.to_owned(), value.to_owned())]);
                Labels::try_from(pair).map(BTreeMap::from)
            }),
            taints: reader.all_parsed(field("taints"), str::parse),
            kubernetes_version: reader.parsed(field("kubernetesVersion"), str::parse),
            bundle: reader.parsed(field("bundle"), |given| Ok(given.to_owned())),
            kubelet: read_kubelet(reader, field("kubelet")),
            extra_config: reader.all_parsed(field("extraConfig"), str::parse),
            feature_gates: read_gates(reader, field("featureGates")),
            mounts: reader.all_parsed(field("mounts"), str::parse),
            ports: reader.all_parsed(field("ports"), str::parse),
        }
    }

    /// The defaults that are stored for `node add`.
    pub(super) fn of_later_nodes(&self) -> NodeDefaults {
        let these = self.clone();
        NodeDefaults {
            driver: DriverName::unless_default(these.driver),
            isolation: these.isolation.unwrap_or_default(),
            cpus: these.cpus,
            memory: these.memory,
            disk: these.disk,
            labels: these.labels.try_into().expect(EACH_WAS_READ),
            taints: these.taints.unwrap_or_default(),
            kubernetes_version: these.kubernetes_version,
            bundle: these.bundle,
            extra_config: these.extra_config.unwrap_or_default(),
            feature_gates: these.feature_gates.try_into().expect(EACH_WAS_READ),
            kubelet: these.kubelet.try_into().expect(EACH_WAS_READ),
            mounts: these.mounts.unwrap_or_default(),
        }
    }

    /// A node with these settings over the defaults. Maps are merged, everything else is replaced.
    fn node(&self, name: NodeName, role: Role, defaults: &Self) -> NodeSpec {
        let of_all = defaults.clone();
        // A version or a bundle of the node replaces both defaults.
        let source = if self.kubernetes_version.is_some() || self.bundle.is_some() { self } else { defaults };
        NodeSpec {
            driver: DriverName::unless_default(self.driver.clone().or(of_all.driver)),
            isolation: self.isolation.or(of_all.isolation).unwrap_or_default(),
            cpus: self.cpus.or(of_all.cpus).unwrap_or_default(),
            memory: self.memory.or(of_all.memory).unwrap_or_default(),
            disk: self.disk.or(of_all.disk),
            labels: Labels::try_from(joined(&self.labels, of_all.labels)).expect(EACH_WAS_READ),
            taints: self.taints.clone().or(of_all.taints).unwrap_or_default(),
            kubernetes_version: source.kubernetes_version.clone(),
            bundle: source.bundle.clone(),
            kubelet: KubeletSettings::try_from(joined(&self.kubelet, of_all.kubelet)).expect(EACH_WAS_READ),
            extra_config: self.extra_config.clone().or(of_all.extra_config).unwrap_or_default(),
            feature_gates: FeatureGates::try_from(joined(&self.feature_gates, of_all.feature_gates))
                .expect(EACH_WAS_READ),
            mounts: self.mounts.clone().or(of_all.mounts).unwrap_or_default(),
            ports: self.ports.clone().or(of_all.ports).unwrap_or_default(),
            ..NodeSpec::plain(name, role)
        }
    }
}

const EACH_WAS_READ: &str = "each entry was checked when it was read";

fn joined<T: Clone>(own: &BTreeMap<String, T>, mut of_all: BTreeMap<String, T>) -> BTreeMap<String, T> {
    of_all.extend(own.clone());
    of_all
}

fn read_kubelet(reader: &mut Reader<'_>, tree: Option<&Tree>) -> BTreeMap<String, Json> {
    let mut settings = BTreeMap::new();
    for (key, value) in tree.map(|tree| reader.pairs(tree)).unwrap_or_default() {
        let name = key.text().unwrap_or_default().to_owned();
        let setting = BTreeMap::from([(name, reader.json(value))]);
        match KubeletSettings::try_from(setting.clone()) {
            Ok(_) => settings.extend(setting),
            Err(error) => reader.complain(key, error),
        }
    }
    settings
}

/// All nodes, with `count` expanded. A file without nodes has one.
pub(super) fn read(
    reader: &mut Reader<'_>,
    places: &mut Places,
    cluster: &ClusterName,
    tree: Option<&Tree>,
    defaults: &Settings,
) -> Vec<NodeSpec> {
    let known: Vec<&str> = KEYS.into_iter().chain(SETTING_KEYS).collect();
    let items = tree.map(|tree| reader.list(tree)).unwrap_or_default();
    if items.is_empty() {
        let name = NodeName::default_for(cluster, 1);
        return vec![Settings::default().node(name, Role::ControlPlane, defaults)];
    }
    let mut nodes = Vec::new();
    for item in items {
        let fields = reader.fields(item, &known);
        let field = |key: &str| fields.get(key).copied();
        // Short or full, as on the command line.
        let given = reader.parsed(field("name"), |name| NodeName::typed(cluster, name));
        let count = reader.parsed(field("count"), |given| {
            let number = given.parse().ok().filter(|number| (1..=MOST_NODES).contains(number));
            number.ok_or_else(|| SpecError::Number { given: given.to_owned(), most: MOST_NODES })
        });
        if let (Some(tree), Some(_)) = (field("count"), field("name")) {
            reader.complain(tree, SpecError::NameAndCount);
        }
        let role = reader.parsed(field("role"), |given| {
            one_of(given, "role", &[("control-plane", Role::ControlPlane), ("worker", Role::Worker)])
        });
        let power = reader.parsed(field("state"), |given| {
            one_of(given, "state", &[("running", WantedPower::Running), ("stopped", WantedPower::Stopped)])
        });
        let settings = Settings::read(reader, &fields);
        let count = if given.is_some() { None } else { count };
        for _ in 0..count.unwrap_or(1) {
            // The number is the position in the list, so that a node keeps its name when others get one.
            let number = u32::try_from(nodes.len() + 1).unwrap_or(u32::MAX);
            let name = given.clone().unwrap_or_else(|| NodeName::default_for(cluster, number));
            let role = role.unwrap_or(if number == 1 { Role::ControlPlane } else { Role::Worker });
            let part = Part::Node(name.clone());
            places.note(reader, &part, &fields);
            places.note_node(reader, &part, item);
            let mut node = settings.node(name, role, defaults);
            node.power = power.unwrap_or_default();
            nodes.push(node);
        }
    }
    nodes
}
