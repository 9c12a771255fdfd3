//! The cluster file that users write.
//!
//! It may omit defaults: [`ClusterFile::expanded`] fills them in. The stored form of a cluster has no omissions.

mod network;
mod nodes;
mod places;
mod reader;
#[cfg(test)]
mod tests;
mod tree;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use crate::check::{parse_server_name, parse_server_port};
use crate::document::{API_VERSION, KIND};
use crate::foreign;
use crate::text::one_of;
use crate::{
    ApiServerSpec, ClusterName, ClusterSpec, DriverName, ExtraOption, FeatureGates, HostSize,
    KubernetesVersion, NetworkSpec, NodeDefaults, NodeSpec, SpecError,
};
use network::FileNetwork;
use nodes::{SETTING_KEYS, Settings};
use places::{Part, Places};
use reader::Reader;
use tree::{Source, Tree};

/// The JSON schema of the file, for editors.
pub const SCHEMA: &str = include_str!("file/schema.json");

/// More nodes are refused as a typing error.
pub const MOST_NODES: u32 = 1000;

const CLUSTER_KEYS: [&str; 13] = [
    "apiVersion",
    "kind",
    "name",
    "kubernetesVersion",
    "driver",
    "network",
    "apiServer",
    "certificateAuthority",
    "extraConfig",
    "featureGates",
    "taintControlPlanes",
    "nodeDefaults",
    "nodes",
];
const API_SERVER_KEYS: [&str; 3] = ["names", "ips", "port"];

/// A cluster as the user described it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterFile {
    pub name: ClusterName,
    kubernetes_version: Option<KubernetesVersion>,
    network: FileNetwork,
    api_server: Option<ApiServerSpec>,
    certificate_authority: Option<PathBuf>,
    extra_config: Option<Vec<ExtraOption>>,
    feature_gates: Option<FeatureGates>,
    taint_control_planes: Option<bool>,
    node_defaults: Option<NodeDefaults>,
    /// With `nodeDefaults` applied.
    nodes: Vec<NodeSpec>,
    places: Places,
}

impl ClusterFile {
    /// Reads a file. `file` is its name in errors. Returns all errors, each with its place.
    pub fn read(file: &str, text: &str) -> Result<Self, Vec<SpecError>> {
        match Self::look(Source { file, text })? {
            (file, problems) if problems.is_empty() => Ok(file),
            (_, problems) => Err(in_order(problems)),
        }
    }

    /// Reads a file. If it has errors, returns them together with those that [`ClusterFile::check`] finds in the rest
    /// of it for a new cluster on that host.
    pub fn read_on(
        file: &str,
        text: &str,
        newest: &KubernetesVersion,
        host: &HostSize,
    ) -> Result<Self, Vec<SpecError>> {
        let (file, mut problems) = Self::look(Source { file, text })?;
        if problems.is_empty() {
            return Ok(file);
        }
        problems.extend(file.check(&file.expanded(newest), host).into_iter().filter(is_certain));
        Err(in_order(problems))
    }

    /// Reads what is valid and collects the errors of the rest, which counts as not given.
    fn look(source: Source<'_>) -> Result<(Self, Vec<SpecError>), Vec<SpecError>> {
        if let Some((tool, translated)) = foreign::translate(source.text) {
            return Err(vec![SpecError::ForeignFile { file: source.file.to_owned(), tool, translated }]);
        }
        let tree = tree::parse(source).map_err(|error| vec![error])?;
        let mut reader = Reader::new(source);
        let mut places = Places::default();
        let fields = reader.fields(&tree, &CLUSTER_KEYS);
        places.note(&reader, &Part::Cluster, &fields);
        for key in ["apiVersion", "kind", "name"] {
            // A key without a value counts as missing.
            let given = fields.get(key).copied();
            if tree.may_have_fields() && given.is_none_or(Tree::is_nothing) {
                reader.complain(given.unwrap_or(&tree), SpecError::MissingKey { key });
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
        // As files of the first versions have it: it is the default of `nodeDefaults`.
        let driver: Option<DriverName> = reader.parsed(fields.get("driver").copied(), str::parse);
        let mut network = FileNetwork::read(&mut reader, &mut places, fields.get("network").copied());
        let api_server = fields.get("apiServer").map(|tree| read_api_server(&mut reader, tree));
        let certificate_authority =
            reader.parsed(fields.get("certificateAuthority").copied(), |path| Ok(PathBuf::from(path)));
        let extra_config: Option<Vec<ExtraOption>> =
            reader.all_parsed(fields.get("extraConfig").copied(), str::parse);
        if let (Some(tree), Some(options)) = (fields.get("extraConfig"), &extra_config)
            && let Err(error) = network.take_option(options)
        {
            reader.complain(tree, error);
        }
        let feature_gates = fields.get("featureGates").map(|tree| {
            let gates = read_gates(&mut reader, Some(tree));
            FeatureGates::try_from(gates).expect("each was checked when it was read")
        });
        let taint_control_planes = reader.parsed(fields.get("taintControlPlanes").copied(), |given| {
            one_of(given, "yes or no", &[("true", true), ("false", false)])
        });
        let defaults = fields.get("nodeDefaults").map(|tree| {
            let fields = reader.fields(tree, &SETTING_KEYS);
            places.note(&reader, &Part::Defaults, &fields);
            Settings::read(&mut reader, &fields)
        });
        let defaults = match DriverName::unless_default(driver) {
            Some(driver) => {
                let mut given = defaults.unwrap_or_default();
                given.driver.get_or_insert(driver);
                Some(given)
            }
            None => defaults,
        };
        let nodes = fields.get("nodes").copied();
        // Without a name there is no cluster, but its nodes can still be checked.
        let name = name.unwrap_or_else(|| "cluster".parse().expect("it is a name"));
        let node_defaults = defaults.as_ref().map(Settings::of_later_nodes);
        let nodes = nodes::read(&mut reader, &mut places, &name, nodes, &defaults.unwrap_or_default());
        let file = Self {
            name,
            kubernetes_version,
            network,
            api_server,
            certificate_authority,
            extra_config,
            feature_gates,
            taint_control_planes,
            node_defaults,
            nodes,
            places,
        };
        Ok((file, reader.problems))
    }

    /// The complete spec of a new cluster, with defaults and this Kubernetes version for omitted settings.
    pub fn expanded(&self, newest: &KubernetesVersion) -> ClusterSpec {
        let plain = ClusterSpec {
            name: self.name.clone(),
            kubernetes_version: newest.clone(),
            network: NetworkSpec::default(),
            api_server: ApiServerSpec::default(),
            certificate_authority: None,
            extra_config: Vec::new(),
            feature_gates: FeatureGates::default(),
            taint_control_planes: false,
            node_defaults: NodeDefaults::default(),
            nodes: Vec::new(),
        };
        self.expanded_over(&plain)
    }

    /// The complete spec for an existing cluster: omitted settings of the cluster stay unchanged, nodes match the
    /// file.
    pub fn expanded_over(&self, known: &ClusterSpec) -> ClusterSpec {
        ClusterSpec {
            name: self.name.clone(),
            kubernetes_version: self.kubernetes_version.clone().unwrap_or(known.kubernetes_version.clone()),
            network: self.network.over(&known.network),
            api_server: match &self.api_server {
                Some(given) => ApiServerSpec { port: given.port.or(known.api_server.port), ..given.clone() },
                None => known.api_server.clone(),
            },
            certificate_authority: self
                .certificate_authority
                .clone()
                .or_else(|| known.certificate_authority.clone()),
            extra_config: self.extra_config.clone().unwrap_or(known.extra_config.clone()),
            feature_gates: self.feature_gates.clone().unwrap_or(known.feature_gates.clone()),
            taint_control_planes: self.taint_control_planes.unwrap_or(known.taint_control_planes),
            node_defaults: self.node_defaults.clone().unwrap_or(known.node_defaults.clone()),
            nodes: self.nodes.clone(),
        }
    }

    /// Whether a new cluster may have any range for its services.
    pub fn leaves_services_open(&self) -> bool {
        !self.network.names_services()
    }

    /// All errors of the resulting cluster on that host, each with its place in the file.
    pub fn check(&self, spec: &ClusterSpec, host: &HostSize) -> Vec<SpecError> {
        let mut findings = spec.check(host);
        if let Some(node) = spec.control_planes().next().filter(|_| spec.is_headless()) {
            findings.push(SpecError::StoppedControlPlane { node: node.name.clone() });
        }
        self.all_placed(findings)
    }

    /// An error with its place, if it has one.
    pub fn placed(&self, error: SpecError) -> SpecError {
        match self.places.of(&error) {
            Some(place) => error.at(place.clone()),
            None => error,
        }
    }

    /// Errors with their places, sorted by line. An error of several nodes of the same line is reported once.
    pub fn all_placed(&self, errors: Vec<SpecError>) -> Vec<SpecError> {
        let mut placed = in_order(errors.into_iter().map(|error| self.placed(error)).collect());
        placed.dedup_by_key(|error| error.to_string());
        placed
    }
}

/// Sorts errors by line.
fn in_order(mut problems: Vec<SpecError>) -> Vec<SpecError> {
    problems.sort_by_key(|error| match error {
        SpecError::At { place, .. } => place.position(),
        _ => Default::default(),
    });
    problems
}

/// Whether the finding holds even though other parts of the file are invalid: an invalid role, state or version may
/// have been the missing one.
fn is_certain(finding: &SpecError) -> bool {
    match finding {
        SpecError::At { error, .. } => is_certain(error),
        SpecError::NoControlPlane | SpecError::StoppedControlPlane { .. } => false,
        _ => true,
    }
}

fn read_api_server(reader: &mut Reader<'_>, tree: &Tree) -> ApiServerSpec {
    let fields = reader.fields(tree, &API_SERVER_KEYS);
    let names = reader.all_parsed(fields.get("names").copied(), parse_server_name);
    let ips = reader.all_parsed(fields.get("ips").copied(), |ip| {
        ip.parse::<IpAddr>().map_err(|_| SpecError::BadAddress { given: ip.to_owned() })
    });
    let port = reader.parsed(fields.get("port").copied(), parse_server_port);
    ApiServerSpec { names: names.unwrap_or_default(), ips: ips.unwrap_or_default(), port }
}

fn read_gates(reader: &mut Reader<'_>, tree: Option<&Tree>) -> BTreeMap<String, bool> {
    reader.entries(tree, |name, on| {
        let bad = |_| SpecError::FeatureGate { given: format!("{name}={on}") };
        let gate = BTreeMap::from([(name.to_owned(), on.parse().map_err(bad)?)]);
        FeatureGates::try_from(gate.clone()).map(|_| gate)
    })
}
