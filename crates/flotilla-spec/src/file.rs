//! The file in which a person describes a cluster.
//!
//! It leaves out what need not be said: [`ClusterFile::expanded`] makes the whole cluster of it. What a cluster is kept
//! in is the same file with everything said.

mod reader;
mod tree;

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::Ipv4Net;

use crate::document::{API_VERSION, KIND};
use crate::error::Place;
use crate::network::parse_range;
use crate::quantity::parse_disk;
use crate::{
    ApiServerSpec, ClusterName, ClusterSpec, Cpus, DriverName, ExtraOption, FeatureGates, HostSize,
    KubernetesVersion, Labels, Memory, NetworkSpec, NodeName, NodeSpec, RangeUse, Role, SpecError, Taint,
    WantedPower,
};
use reader::{Fields, Reader, text_of};
use tree::{Source, Tree};

/// The JSON schema of the file, for editors.
pub const SCHEMA: &str = include_str!("file/schema.json");

/// More nodes than that are a slip of the finger.
const MOST_NODES: u32 = 1000;

const CLUSTER_KEYS: [&str; 11] = [
    "apiVersion",
    "kind",
    "name",
    "kubernetesVersion",
    "driver",
    "network",
    "apiServer",
    "extraConfig",
    "featureGates",
    "nodeDefaults",
    "nodes",
];
const NETWORK_KEYS: [&str; 5] = ["subnet", "podSubnet", "nodePodPrefix", "serviceSubnet", "dnsDomain"];
const API_SERVER_KEYS: [&str; 2] = ["names", "ips"];
const SETTING_KEYS: [&str; 5] = ["cpus", "memory", "disk", "labels", "taints"];
const NODE_KEYS: [&str; 4] = ["name", "count", "role", "state"];

/// A cluster as a person wrote it down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterFile {
    pub name: ClusterName,
    kubernetes_version: Option<KubernetesVersion>,
    driver: Option<DriverName>,
    network: FileNetwork,
    api_server: Option<ApiServerSpec>,
    extra_config: Option<Vec<ExtraOption>>,
    feature_gates: Option<FeatureGates>,
    /// With the defaults in them.
    nodes: Vec<NodeSpec>,
    places: Places,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct FileNetwork {
    subnet: Option<Ipv4Net>,
    pod_subnet: Option<Ipv4Net>,
    node_pod_prefix: Option<u8>,
    service_subnet: Option<Ipv4Net>,
    dns_domain: Option<String>,
}

/// Where in the file things stand: the key, and for a node's its name.
type Places = BTreeMap<(Option<NodeName>, String), Place>;

/// What nodes can have in common.
#[derive(Debug, Clone, Default)]
struct Settings {
    cpus: Option<Cpus>,
    memory: Option<Memory>,
    disk: Option<u64>,
    labels: BTreeMap<String, String>,
    taints: Option<Vec<Taint>>,
}

impl ClusterFile {
    /// Reads a file. `file` is what errors call it. Everything that is wrong is told, each with its place.
    pub fn read(file: &str, text: &str) -> Result<Self, Vec<SpecError>> {
        let source = Source { file, text };
        let tree = tree::parse(source).map_err(|error| vec![error])?;
        let mut reader = Reader::new(source);
        let mut places = Places::new();
        let fields = reader.fields(&tree, &CLUSTER_KEYS);
        for key in ["apiVersion", "kind", "name"] {
            if tree.may_have_fields() && !fields.contains_key(key) {
                reader.complain(&tree, SpecError::MissingKey { key });
            }
        }
        reader.parsed(fields.get("apiVersion").copied(), |given| match given {
            API_VERSION => Ok(()),
            other => Err(SpecError::ApiVersion { given: other.to_owned(), known: API_VERSION }),
        });
        reader.parsed(fields.get("kind").copied(), |given| match given {
            KIND => Ok(()),
            other => Err(SpecError::Kind { given: other.to_owned(), known: KIND }),
        });
        let name: Option<ClusterName> = reader.parsed(fields.get("name").copied(), str::parse);
        let kubernetes_version = reader.parsed(fields.get("kubernetesVersion").copied(), str::parse);
        let driver = reader.parsed(fields.get("driver").copied(), parse_driver);
        let network = read_network(&mut reader, &mut places, fields.get("network").copied());
        let api_server = fields.get("apiServer").map(|tree| read_api_server(&mut reader, tree));
        let extra_config = reader.all_parsed(fields.get("extraConfig").copied(), str::parse);
        let feature_gates = fields.get("featureGates").and_then(|tree| read_gates(&mut reader, tree));
        let defaults = fields.get("nodeDefaults").map(|tree| {
            let fields = reader.fields(tree, &SETTING_KEYS);
            note(&reader, &mut places, None, &fields);
            read_settings(&mut reader, &fields)
        });
        let nodes = fields.get("nodes").copied();
        // Without a name there is no cluster, but its nodes can still be looked at.
        let cluster = name.clone().unwrap_or_else(|| "cluster".parse().expect("it is a name"));
        let nodes = read_nodes(&mut reader, &mut places, &cluster, nodes, &defaults.unwrap_or_default());
        match name {
            Some(name) if reader.problems.is_empty() => Ok(Self {
                name,
                kubernetes_version,
                driver,
                network,
                api_server,
                extra_config,
                feature_gates,
                nodes,
                places,
            }),
            _ => Err(reader.in_order()),
        }
    }

    /// The whole cluster, as a new one: what the file leaves open is as always, and the version is this one.
    pub fn expanded(&self, newest: &KubernetesVersion) -> ClusterSpec {
        let plain = ClusterSpec {
            name: self.name.clone(),
            kubernetes_version: newest.clone(),
            driver: DriverName::default(),
            network: NetworkSpec::default(),
            api_server: ApiServerSpec::default(),
            extra_config: Vec::new(),
            feature_gates: FeatureGates::default(),
            nodes: Vec::new(),
        };
        self.expanded_over(&plain)
    }

    /// The whole cluster, where one is there: what the file leaves open stays as it is. Nodes are as the file says.
    pub fn expanded_over(&self, known: &ClusterSpec) -> ClusterSpec {
        let (network, old) = (&self.network, &known.network);
        ClusterSpec {
            name: self.name.clone(),
            kubernetes_version: self.kubernetes_version.clone().unwrap_or(known.kubernetes_version.clone()),
            driver: self.driver.unwrap_or(known.driver),
            network: NetworkSpec {
                subnet: network.subnet.or(old.subnet),
                pod_subnet: network.pod_subnet.or(old.pod_subnet),
                node_pod_prefix: network.node_pod_prefix.unwrap_or(old.node_pod_prefix),
                service_subnet: network.service_subnet.unwrap_or(old.service_subnet),
                dns_domain: network.dns_domain.clone().unwrap_or(old.dns_domain.clone()),
            },
            api_server: self.api_server.clone().unwrap_or(known.api_server.clone()),
            extra_config: self.extra_config.clone().unwrap_or(known.extra_config.clone()),
            feature_gates: self.feature_gates.clone().unwrap_or(known.feature_gates.clone()),
            nodes: self.nodes.clone(),
        }
    }

    /// Everything that is wrong with the cluster it makes on that host, each with its place in the file.
    pub fn check(&self, spec: &ClusterSpec, host: &HostSize) -> Vec<SpecError> {
        let mut findings = spec.check(host);
        let mut control_planes = self.nodes.iter().filter(|node| node.role == Role::ControlPlane);
        let first = control_planes.next();
        findings.extend(control_planes.map(|node| SpecError::SecondControlPlane { node: node.name.clone() }));
        let runs = self.nodes.iter().any(|node| node.power == WantedPower::Running);
        if let Some(node) = first.filter(|node| runs && node.power == WantedPower::Stopped) {
            findings.push(SpecError::StoppedControlPlane { node: node.name.clone() });
        }
        findings.into_iter().map(|error| self.placed(error)).collect()
    }

    /// An error with its place, if it has one.
    fn placed(&self, error: SpecError) -> SpecError {
        let of_network = |usage: &RangeUse| match usage {
            RangeUse::Nodes => "subnet",
            RangeUse::Pods => "podSubnet",
            RangeUse::Services => "serviceSubnet",
        };
        let (node, key) = match &error {
            SpecError::DuplicateNode { name } => (Some(name), "name"),
            SpecError::SecondControlPlane { node } => (Some(node), "role"),
            SpecError::StoppedControlPlane { node } => (Some(node), "state"),
            SpecError::Cores { node, .. } => (Some(node), "cpus"),
            SpecError::MemoryOverHost { node, .. } | SpecError::MemoryTooSmall { node, .. } => {
                (Some(node), "memory")
            }
            SpecError::DiskTooSmall { node, .. } => (Some(node), "disk"),
            SpecError::Overlap { usage, other_usage, .. } => {
                let is_given = self.place(None, of_network(usage)).is_some();
                (None, of_network(if is_given { usage } else { other_usage }))
            }
            SpecError::RangeSize { usage, .. }
            | SpecError::UnusableRange { usage, .. }
            | SpecError::Taken { usage, .. } => (None, of_network(usage)),
            SpecError::NodePodPrefix { .. } | SpecError::PodSubnetTooSmall { .. } => (None, "nodePodPrefix"),
            SpecError::DnsDomain { .. } => (None, "dnsDomain"),
            _ => return error,
        };
        // What the node does not say itself it has from the defaults.
        let place = self.place(node, key).or_else(|| self.place(None, key)).or_else(|| self.place(node, ""));
        match place {
            Some(place) => error.at(place.clone()),
            None => error,
        }
    }

    fn place(&self, node: Option<&NodeName>, key: &str) -> Option<&Place> {
        self.places.get(&(node.cloned(), key.to_owned()))
    }
}

/// Notes where fields stand.
fn note(reader: &Reader<'_>, places: &mut Places, node: Option<&NodeName>, fields: &Fields<'_>) {
    for (key, tree) in fields {
        places.insert((node.cloned(), (*key).to_owned()), reader.place(tree));
    }
}

fn parse_driver(given: &str) -> Result<DriverName, SpecError> {
    one_of(given, "driver", &[("native", DriverName::Native)])
}

fn one_of<T: Copy>(given: &str, what: &'static str, words: &[(&str, T)]) -> Result<T, SpecError> {
    let found = words.iter().find(|(word, _)| *word == given);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        SpecError::UnknownWord {
            what,
            given: given.to_owned(),
            known: known.join(", "),
            nearest: reader::nearest(given, &known),
        }
    })
}

fn read_network(reader: &mut Reader<'_>, places: &mut Places, tree: Option<&Tree>) -> FileNetwork {
    let Some(tree) = tree else { return FileNetwork::default() };
    let fields = reader.fields(tree, &NETWORK_KEYS);
    note(reader, places, None, &fields);
    let field = |key: &str| fields.get(key).copied();
    FileNetwork {
        subnet: reader.parsed(field("subnet"), parse_range),
        pod_subnet: reader.parsed(field("podSubnet"), parse_range),
        node_pod_prefix: reader.parsed(field("nodePodPrefix"), |given| {
            let digits = given.strip_prefix('/').unwrap_or(given);
            digits.parse().map_err(|_| SpecError::Number { given: given.to_owned(), most: 32 })
        }),
        service_subnet: reader.parsed(field("serviceSubnet"), parse_range),
        dns_domain: reader.parsed(field("dnsDomain"), |given| Ok(given.to_owned())),
    }
}

fn read_api_server(reader: &mut Reader<'_>, tree: &Tree) -> ApiServerSpec {
    let fields = reader.fields(tree, &API_SERVER_KEYS);
    let names = reader.all_parsed(fields.get("names").copied(), |name| Ok(name.to_owned()));
    let ips = reader.all_parsed(fields.get("ips").copied(), |ip| {
        ip.parse::<IpAddr>().map_err(|_| SpecError::BadAddress { given: ip.to_owned() })
    });
    ApiServerSpec { names: names.unwrap_or_default(), ips: ips.unwrap_or_default() }
}

fn read_gates(reader: &mut Reader<'_>, tree: &Tree) -> Option<FeatureGates> {
    let mut gates = BTreeMap::new();
    for (key, value) in reader.pairs(tree) {
        let name = text_of(key).unwrap_or_default();
        let on = reader.parsed(Some(value), |given| {
            let bad = || SpecError::FeatureGate { given: format!("{name}={given}") };
            given.parse::<bool>().map_err(|_| bad())
        });
        gates.extend(on.map(|on| (name.to_owned(), on)));
    }
    match FeatureGates::try_from(gates) {
        Ok(gates) => Some(gates),
        Err(error) => {
            reader.complain(tree, error);
            None
        }
    }
}

fn read_settings(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Settings {
    let field = |key: &str| fields.get(key).copied();
    let mut labels = BTreeMap::new();
    for (key, value) in field("labels").map(|tree| reader.pairs(tree)).unwrap_or_default() {
        let key = text_of(key).unwrap_or_default();
        let pair = reader.parsed(Some(value), |value| {
            let pair = BTreeMap::from([(key.to_owned(), value.to_owned())]);
            Labels::try_from(pair).map(BTreeMap::from)
        });
        labels.extend(pair.unwrap_or_default());
    }
    Settings {
        cpus: reader.parsed(field("cpus"), str::parse),
        memory: reader.parsed(field("memory"), str::parse),
        disk: reader.parsed(field("disk"), parse_disk),
        labels,
        taints: reader.all_parsed(field("taints"), str::parse),
    }
}

/// The nodes, one for each that is counted. A file without any has one.
fn read_nodes(
    reader: &mut Reader<'_>,
    places: &mut Places,
    cluster: &ClusterName,
    tree: Option<&Tree>,
    defaults: &Settings,
) -> Vec<NodeSpec> {
    let known: Vec<&str> = NODE_KEYS.into_iter().chain(SETTING_KEYS).collect();
    let items = tree.map(|tree| reader.list(tree)).unwrap_or_default();
    if items.is_empty() {
        return vec![node_of(
            NodeName::default_for(cluster, 1),
            Role::ControlPlane,
            &Settings::default(),
            defaults,
        )];
    }
    let mut nodes = Vec::new();
    for item in items {
        let fields = reader.fields(item, &known);
        let field = |key: &str| fields.get(key).copied();
        let given: Option<NodeName> = reader.parsed(field("name"), str::parse);
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
        let settings = read_settings(reader, &fields);
        for _ in 0..count.unwrap_or(1) {
            // Its place in the list is its number, so that it keeps its name when others are named.
            let number = u32::try_from(nodes.len() + 1).unwrap_or(u32::MAX);
            let name = given.clone().unwrap_or_else(|| NodeName::default_for(cluster, number));
            let role = role.unwrap_or(if number == 1 { Role::ControlPlane } else { Role::Worker });
            note(reader, places, Some(&name), &fields);
            places.insert((Some(name.clone()), String::new()), reader.place(item));
            let mut node = node_of(name, role, &settings, defaults);
            node.power = power.unwrap_or_default();
            nodes.push(node);
        }
    }
    nodes
}

/// A node of its own settings over those of all. Labels add up, everything else is replaced.
fn node_of(name: NodeName, role: Role, own: &Settings, defaults: &Settings) -> NodeSpec {
    let mut labels = defaults.labels.clone();
    labels.extend(own.labels.clone());
    NodeSpec {
        cpus: own.cpus.or(defaults.cpus).unwrap_or_default(),
        memory: own.memory.or(defaults.memory).unwrap_or_default(),
        disk: own.disk.or(defaults.disk),
        labels: Labels::try_from(labels).expect("each of them was read"),
        taints: own.taints.clone().or_else(|| defaults.taints.clone()).unwrap_or_default(),
        ..NodeSpec::plain(name, role)
    }
}

#[cfg(test)]
mod tests;
