//! From what was typed to a spec.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::str::FromStr;

use flotilla_core::Cluster;
use flotilla_core::Condition;
use flotilla_engine::EngineError;
use flotilla_ops::OpError;
use flotilla_spec::error::SpecError;
use flotilla_spec::extra::POD_NETWORK_CIDR;
use flotilla_spec::network::parse_range;
use flotilla_spec::quantity::parse_disk;
use flotilla_spec::{
    ApiServerSpec, ClusterName, ClusterSpec, Cni, Component, Cpus, DriverName, ExtraOption, FeatureGates,
    HostMount, HostPort, KubernetesVersion, Memory, NetworkSpec, NodeDefaults, NodeName, NodeSpec, Role,
};
use ipnet::Ipv4Net;

use crate::args::{ControlPlaneArgs, RuntimeArgs, StartArgs};

use super::wait;

/// What `--ha` means: the fewest control planes that bear the loss of one.
const HIGHLY_AVAILABLE: u32 = 3;

/// A spec, and which of it was asked for.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) spec: ClusterSpec,
    pub(super) wait: BTreeSet<Condition>,
    version: bool,
    /// How many nodes, if that was said: no fewer than control planes.
    count: Option<u32>,
    /// What was said.
    asked_nodes: Option<u32>,
    /// How many of them are control planes, if that was said.
    control_planes: Option<u32>,
    /// Whether mounts or ports were named.
    attaches: bool,
    sizes: Sizes,
    network: GivenNetwork,
}

/// What was said of the network, where leaving it out means something: the same words may be said on purpose.
#[derive(Debug)]
struct GivenNetwork {
    node_pod_prefix: Option<u8>,
    service_subnet: Option<Ipv4Net>,
    dns_domain: Option<String>,
    cni: Option<Cni>,
}

/// What can change between two starts, where it was given.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    cpus: Option<Cpus>,
    memory: Option<Memory>,
    disk: Option<u64>,
}

impl Wanted {
    /// Reads every argument and tells of all that are wrong at once.
    pub(super) fn parse(args: &StartArgs, name: &ClusterName, newest: &str) -> Result<Self, OpError> {
        let mut problems = Vec::new();
        let cpus = parsed(&mut problems, args.cpus.as_deref(), str::parse::<Cpus>);
        let memory = parsed(&mut problems, args.memory.as_deref(), str::parse::<Memory>);
        let disk = parsed(&mut problems, args.disk_size.as_deref(), parse_disk);
        let version = args.kubernetes_version.as_deref().filter(|word| !["stable", "latest"].contains(word));
        let kubernetes_version =
            parsed(&mut problems, Some(version.unwrap_or(newest)), str::parse::<KubernetesVersion>);
        let services = args.service_cluster_ip_range.as_deref();
        let given = GivenNetwork {
            node_pod_prefix: args.node_pod_prefix,
            service_subnet: parsed(&mut problems, services, parse_range),
            dns_domain: args.dns_domain.clone(),
            cni: parsed(&mut problems, args.cni.as_deref(), str::parse).map(cni_from_here),
        };
        let plain = NetworkSpec::default();
        let mut network = NetworkSpec {
            subnet: parsed(&mut problems, args.subnet.as_deref(), parse_range),
            pod_subnet: parsed(&mut problems, args.pod_subnet.as_deref(), parse_range),
            node_pod_prefix: given.node_pod_prefix.unwrap_or(plain.node_pod_prefix),
            service_subnet: given.service_subnet.unwrap_or(plain.service_subnet),
            dns_domain: given.dns_domain.clone().unwrap_or(plain.dns_domain),
            cni: given.cni.clone().unwrap_or(plain.cni),
        };
        let mounts: Vec<HostMount> = all_parsed(&mut problems, &args.mount);
        let ports: Vec<HostPort> = all_parsed(&mut problems, &args.port);
        let extra_config: Vec<ExtraOption> = all_parsed(&mut problems, &args.extra_config);
        let is_range = |option: &&ExtraOption| {
            option.component() == Component::Kubeadm && option.key() == POD_NETWORK_CIDR
        };
        if let Some(option) = extra_config.iter().find(is_range) {
            network.pod_subnet = parsed(&mut problems, Some(option.value()), parse_range);
        }
        let feature_gates = parsed(&mut problems, args.feature_gates.as_deref(), str::parse::<FeatureGates>)
            .unwrap_or_default();
        let bad_address = |text: &str| SpecError::BadAddress { given: text.to_owned() };
        let ips = args
            .apiserver_ips
            .iter()
            .filter_map(|ip| {
                parsed(&mut problems, Some(ip), |ip| ip.parse::<IpAddr>().map_err(|_| bad_address(ip)))
            })
            .collect();
        let wait = wait::conditions(&args.wait).unwrap_or_else(|unknown| {
            problems.push(unknown);
            BTreeSet::new()
        });
        let driver: Option<DriverName> = parsed(&mut problems, Some(args.driver.name()), str::parse);
        // Nodes that name no driver have this one.
        let driver = driver.filter(|driver| *driver != DriverName::default());
        problems.extend(runtime_problem(&args.runtime));
        let (Some(kubernetes_version), true) = (kubernetes_version, problems.is_empty()) else {
            return Err(EngineError::Spec(problems).into());
        };
        if args.nodes == Some(0) {
            return Err(SpecError::NoNodes.into());
        }
        let ControlPlaneArgs { control_planes, ha, taint_control_planes } = &args.control_plane;
        let asked = if *ha { Some(HIGHLY_AVAILABLE) } else { *control_planes };
        let control_planes = asked.unwrap_or(1);
        let count = args.nodes.map(|count| count.max(control_planes));
        // For nodes that are added later as well.
        let node_defaults = NodeDefaults { driver, cpus, memory, disk, mounts, ..NodeDefaults::default() };
        let nodes = (1..=count.unwrap_or(control_planes))
            .map(|number| {
                let role = if number <= control_planes { Role::ControlPlane } else { Role::Worker };
                // A port of the host leads to one node.
                let ports = if number == 1 { ports.clone() } else { Vec::new() };
                NodeSpec { ports, ..node_defaults.node(NodeName::default_for(name, number), role) }
            })
            .collect();
        let spec = ClusterSpec {
            name: name.clone(),
            kubernetes_version,
            network,
            api_server: ApiServerSpec { names: args.apiserver_names.clone(), ips },
            extra_config,
            feature_gates,
            taint_control_planes: *taint_control_planes,
            node_defaults,
            nodes,
        };
        Ok(Self {
            spec,
            wait,
            version: version.is_some(),
            count,
            asked_nodes: args.nodes,
            control_planes: asked,
            attaches: !args.mount.is_empty() || !args.port.is_empty(),
            sizes: Sizes { cpus, memory, disk },
            network: given,
        })
    }

    /// The spec of a cluster that is there, with what may change and was asked for. What may not is refused.
    pub(super) fn merged_into(&self, cluster: &Cluster) -> Result<ClusterSpec, OpError> {
        let (known, allocations) = (&cluster.spec, &cluster.allocations);
        let (asked, given) = (&self.spec, &self.network);
        let network = &asked.network;
        let differs = [
            (
                "Kubernetes version",
                None,
                self.version && asked.kubernetes_version != known.kubernetes_version,
            ),
            ("subnet", None, network.subnet.is_some_and(|subnet| subnet != allocations.subnet)),
            ("pod subnet", None, network.pod_subnet.is_some_and(|subnet| subnet != allocations.pod_subnet)),
            ("service range", None, is_other(given.service_subnet.as_ref(), &known.network.service_subnet)),
            ("DNS domain", None, is_other(given.dns_domain.as_ref(), &known.network.dns_domain)),
            ("pod prefix", None, is_other(given.node_pod_prefix.as_ref(), &known.network.node_pod_prefix)),
            ("pod network", None, is_other(given.cni.as_ref(), &known.network.cni)),
            (
                "set of mounts or ports",
                Some("`flotilla node update` changes them"),
                self.attaches && attachments(asked) != attachments(known),
            ),
            (
                "extra configuration",
                None,
                !asked.extra_config.is_empty() && asked.extra_config != known.extra_config,
            ),
            (
                "set of feature gates",
                None,
                !asked.feature_gates.is_empty() && asked.feature_gates != known.feature_gates,
            ),
            (
                "number of nodes",
                Some("`flotilla node add` and `flotilla node delete` change it"),
                self.count.is_some_and(|count| usize::try_from(count) != Ok(known.nodes.len())),
            ),
            (
                "number of control planes",
                Some("`flotilla node add --control-plane` and `flotilla node delete` change it"),
                self.control_planes
                    .is_some_and(|count| usize::try_from(count) != Ok(known.control_planes().count())),
            ),
            (
                "taint of its control planes",
                Some("`flotilla apply -f FILE` changes it"),
                asked.taint_control_planes && !known.taint_control_planes,
            ),
            (
                "set of API server names",
                None,
                !asked.api_server.is_empty() && asked.api_server != known.api_server,
            ),
        ];
        if let Some((what, change, _)) = differs.into_iter().find(|(.., differs)| *differs) {
            let cluster = known.name.clone();
            return Err(EngineError::Different { cluster, what: what.to_owned(), change }.into());
        }
        let mut merged = known.clone();
        let Sizes { cpus, memory, disk } = self.sizes;
        // A node that was given another size than all has its own, and keeps it.
        let of_all = &known.node_defaults;
        for node in &mut merged.nodes {
            if node.cpus == of_all.cpus.unwrap_or_default() {
                node.cpus = cpus.unwrap_or(node.cpus);
            }
            if node.memory == of_all.memory.unwrap_or_default() {
                node.memory = memory.unwrap_or(node.memory);
            }
            if node.disk == of_all.disk {
                node.disk = disk.or(node.disk);
            }
        }
        merged.node_defaults.cpus = cpus.or(of_all.cpus);
        merged.node_defaults.memory = memory.or(of_all.memory);
        merged.node_defaults.disk = disk.or(of_all.disk);
        Ok(merged)
    }

    /// Told where fewer nodes were asked for than control planes.
    pub(super) fn raised(&self) -> Option<String> {
        let Self { asked_nodes: Some(nodes), count: Some(count), .. } = self else { return None };
        (nodes < count).then(|| {
            format!("{count} control planes are {count} nodes: --nodes {nodes} is raised to {count}")
        })
    }

    pub(super) fn sizes_given(&self) -> bool {
        let Sizes { cpus, memory, disk } = self.sizes;
        cpus.is_some() || memory.is_some() || disk.is_some()
    }
}

/// Whether something was said, and is not what is there.
fn is_other<T: PartialEq>(given: Option<&T>, known: &T) -> bool {
    given.is_some_and(|given| given != known)
}

/// A manifest's path, whoever reads it later and wherever.
fn cni_from_here(cni: Cni) -> Cni {
    match cni.manifest().map(std::path::absolute) {
        Some(Ok(path)) => Cni::Manifest(path),
        _ => cni,
    }
}

/// What of the host the primary node has.
fn attachments(spec: &ClusterSpec) -> (&[HostMount], &[HostPort]) {
    let primary = spec.primary();
    (&primary.mounts, &primary.ports)
}

/// Why nodes cannot have that container runtime; none if they have it.
pub(crate) fn runtime_problem(args: &RuntimeArgs) -> Option<SpecError> {
    let given = args.container_runtime.as_deref().filter(|given| !["", "containerd"].contains(given))?;
    Some(SpecError::ContainerRuntime { given: given.to_owned() })
}

/// Reads each of several values.
pub(crate) fn all_parsed<T: FromStr<Err = SpecError>>(
    problems: &mut Vec<SpecError>,
    texts: &[String],
) -> Vec<T> {
    texts.iter().filter_map(|text| parsed(problems, Some(text), str::parse)).collect()
}

/// Reads a value that was given; what is wrong with it joins the other problems.
pub(crate) fn parsed<T>(
    problems: &mut Vec<SpecError>,
    text: Option<&str>,
    parse: impl Fn(&str) -> Result<T, SpecError>,
) -> Option<T> {
    match parse(text?) {
        Ok(value) => Some(value),
        Err(error) => {
            problems.push(error);
            None
        }
    }
}
