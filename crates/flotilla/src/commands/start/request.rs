//! From what was typed to a spec.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use flotilla_core::Condition;
use flotilla_engine::EngineError;
use flotilla_ops::OpError;
use flotilla_ops::start::{GivenNetwork, Sizes, Typed};
use flotilla_spec::error::SpecError;
use flotilla_spec::extra::POD_NETWORK_CIDR;
use flotilla_spec::network::parse_range;
use flotilla_spec::quantity::parse_disk;
use flotilla_spec::{
    ApiServerSpec, ClusterName, ClusterSpec, Cni, Component, Cpus, DriverName, ExtraOption, FeatureGates,
    HostMount, HostPort, Isolation, KubernetesVersion, Memory, NetworkSpec, NodeDefaults, NodeName, NodeSpec,
    Role,
};

use crate::args::{ControlPlaneArgs, StartArgs};

use super::wait;

/// What `--ha` means: the fewest control planes that tolerate the loss of one.
const HIGHLY_AVAILABLE: u32 = 3;

/// Words for the newest version. Scripts pass variables that may be empty.
const NEWEST: [&str; 3] = ["", "stable", "latest"];

/// What was typed.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) typed: Typed,
    pub(super) wait: BTreeSet<Condition>,
    /// What `--nodes` says.
    nodes: Option<u32>,
}

impl Parsed {
    /// Reads every argument and tells of all that are wrong at once.
    pub(super) fn parse(
        args: &StartArgs,
        name: &ClusterName,
        newest: &KubernetesVersion,
    ) -> Result<Self, OpError> {
        let mut problems = Vec::new();
        // The first problem gives the exit status, and scripts look for that of the driver.
        let driver = Some(args.driver.as_str()).filter(|driver| !driver.is_empty());
        let driver: Option<DriverName> = parsed(&mut problems, driver, str::parse);
        // Nodes that name no driver have this one.
        let driver = driver.filter(|driver| *driver != DriverName::default());
        let cpus = parsed(&mut problems, args.cpus.as_deref(), str::parse::<Cpus>);
        let memory = parsed(&mut problems, args.memory.as_deref(), str::parse::<Memory>);
        let disk = parsed(&mut problems, args.disk_size.as_deref(), parse_disk);
        let version = args.kubernetes_version.as_deref().filter(|word| !NEWEST.contains(word));
        let kubernetes_version = match version {
            Some(version) => parsed(&mut problems, Some(version), str::parse::<KubernetesVersion>),
            None => Some(newest.clone()),
        };
        let services = args.service_cluster_ip_range.as_deref();
        let given = GivenNetwork {
            node_pod_prefix: args.node_pod_prefix,
            service_subnet: parsed(&mut problems, services, parse_range),
            dns_domain: args.dns_domain.clone(),
            cni: parsed(&mut problems, args.cni.as_deref(), str::parse)
                .map(|cni: Cni| cni.manifest().map(|path| Cni::Manifest(from_here(path))).unwrap_or(cni)),
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
        let ips = args
            .apiserver_ips
            .iter()
            .filter_map(|ip| parsed(&mut problems, Some(ip), parse_address))
            .collect();
        let wait = wait::conditions(&args.wait).unwrap_or_else(|unknown| {
            problems.push(unknown);
            BTreeSet::new()
        });
        let isolation: Option<Isolation> = parsed(&mut problems, args.isolation.as_deref(), str::parse);
        problems.extend(runtime_problem(args.container_runtime.as_deref()));
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
        let node_defaults = NodeDefaults {
            driver,
            isolation: isolation.unwrap_or_default(),
            cpus,
            memory,
            disk,
            mounts,
            ..NodeDefaults::default()
        };
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
            api_server: ApiServerSpec { names: args.apiserver_names.clone(), ips, port: args.apiserver_port },
            certificate_authority: args.certificate_authority.as_deref().map(from_here),
            extra_config,
            feature_gates,
            taint_control_planes: *taint_control_planes,
            node_defaults,
            nodes,
        };
        let typed = Typed {
            spec,
            version: version.is_some(),
            count,
            control_planes: asked,
            attaches: !args.mount.is_empty() || !args.port.is_empty(),
            sizes: Sizes { cpus, memory, disk },
            isolation,
            network: given,
        };
        Ok(Self { typed, wait, nodes: args.nodes })
    }

    /// Said where fewer nodes were asked for than control planes.
    pub(super) fn raised(&self) -> Option<String> {
        let (nodes, count) = self.nodes.zip(self.typed.count)?;
        (nodes < count).then(|| {
            format!("{count} control planes need {count} nodes: --nodes {nodes} is raised to {count}")
        })
    }
}

fn parse_address(text: &str) -> Result<IpAddr, SpecError> {
    text.parse().map_err(|_| SpecError::BadAddress { given: text.to_owned() })
}

/// The path of a file, whoever reads it later and wherever.
fn from_here(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Why nodes cannot have that container runtime; none if they have it.
pub(crate) fn runtime_problem(given: Option<&str>) -> Option<SpecError> {
    let given = given.filter(|given| !["", "containerd"].contains(given))?;
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
