//! Checks a cluster for settings that conflict with each other or with the host.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use crate::extra;
use crate::kubelet;
use crate::name::is_dns_name;
use crate::quantity::MIB;
use crate::{
    ApiServerSpec, ClusterSpec, Component, ExtraOption, HostSize, KubernetesVersion, NodeName, NodeSpec,
    Role, SpecError, WantedPower,
};

#[cfg(test)]
mod tests;

/// Minimum memory of a node: its own programs use 390 MB (control plane) and 70 MB (worker) of anonymous memory.
const LEAST_CONTROL_PLANE_MEMORY: u64 = 1024 * MIB;
const LEAST_WORKER_MEMORY: u64 = 256 * MIB;

/// Room for the images of Kubernetes and some pods.
const LEAST_DISK: u64 = 2048 * MIB;

/// Without it a kubelet does not start in a user namespace.
pub const USER_NAMESPACE_GATE: &str = "KubeletInUserNamespace";

/// More than this many times the host's memory is refused as a mistake. Less works until it is used.
pub(crate) const NONSENSE: u64 = 16;

impl ClusterSpec {
    /// All errors of the spec itself on that host. [`NetworkSpec::taken`](crate::NetworkSpec::taken) checks it
    /// against other networks.
    pub fn check(&self, host: &HostSize) -> Vec<SpecError> {
        let mut findings = Vec::new();
        if !self.nodes.iter().any(|node| node.role == Role::ControlPlane) {
            findings.push(SpecError::NoControlPlane);
        }
        let mut seen = BTreeSet::new();
        let mut twice = BTreeSet::new();
        for node in &self.nodes {
            if !seen.insert(&node.name) && twice.insert(&node.name) {
                findings.push(SpecError::DuplicateNode { name: node.name.clone() });
            }
            findings.extend(node.size_problems(host));
            findings.extend(node.kubernetes_version.as_ref().and_then(|kubelet| self.skew(node, kubelet)));
            findings.extend(node.option_problems());
            findings.extend(self.kubelet_problems(node));
            findings.extend(self.isolation_problems(node));
            findings.extend(node.mount_problems());
        }
        findings.extend(reserved(None, &self.extra_config));
        findings.extend(self.port_problems());
        let ranges = self.network.check();
        if ranges.is_empty() {
            // The number of nodes is checked only for valid ranges.
            findings.extend(self.network.too_many_nodes(self.nodes.len()));
        }
        findings.extend(ranges);
        findings.extend(self.api_server.problems());
        findings
    }

    /// The problems of a changed spec that this spec does not have: settings that an earlier version accepted must
    /// not block other changes.
    pub fn new_problems(&self, problems: Vec<SpecError>, host: &HostSize) -> Vec<SpecError> {
        let known = self.check(host);
        let is_known = |problem: &SpecError| match problem {
            SpecError::At { error, .. } => known.contains(error),
            other => known.contains(other),
        };
        problems.into_iter().filter(|problem| !is_known(problem)).collect()
    }

    /// Settings that work but are questionable: more memory than the host has, an even number of control planes.
    pub fn warnings(&self, host: &HostSize) -> Vec<SpecError> {
        let count = self.control_planes().count();
        let even = count.is_multiple_of(2).then_some(SpecError::EvenControlPlanes { count });
        self.memory_warnings(host).into_iter().chain(even).collect()
    }

    fn memory_warnings(&self, host: &HostSize) -> Vec<SpecError> {
        let over = self.nodes.iter().filter_map(|node| node.memory_over(host));
        let warnings: Vec<_> = over.collect();
        if !warnings.is_empty() {
            return warnings;
        }
        let running = self.nodes.iter().filter(|node| node.power == WantedPower::Running);
        let limits = running.filter_map(|node| node.memory.bytes_on(host));
        let wanted = limits.fold(0, u64::saturating_add);
        let together = SpecError::MemoryTogether { wanted, host: host.memory };
        (wanted > host.memory).then_some(together).into_iter().collect()
    }

    /// Why a node cannot have a kubelet of that version; none if it can. The version of a node's own bundle is known
    /// only after reading the bundle.
    pub fn skew(&self, node: &NodeSpec, kubelet: &KubernetesVersion) -> Option<SpecError> {
        let (name, cluster) = (node.name.clone(), self.kubernetes_version.clone());
        if node.role == Role::ControlPlane {
            let error = SpecError::ControlPlaneVersion { node: name, wanted: kubelet.clone(), cluster };
            (*kubelet != self.kubernetes_version).then_some(error)
        } else {
            let is_taken = cluster.takes_kubelet(kubelet);
            (!is_taken).then(|| SpecError::KubeletSkew { node: name, kubelet: kubelet.clone(), cluster })
        }
    }

    /// Settings that the node's kubelet would ignore. A kubelet that is newer than our list, or the user's own, may
    /// have others.
    fn kubelet_problems(&self, node: &NodeSpec) -> Vec<SpecError> {
        let version = node.kubernetes_version.as_ref().unwrap_or(&self.kubernetes_version);
        if node.bundle.is_some() || version.minor() > kubelet::MINOR {
            return Vec::new();
        }
        let unknown = node.kubelet.unknown().map(|(given, nearest)| SpecError::KubeletField {
            node: node.name.clone(),
            given: given.to_owned(),
            nearest,
        });
        unknown.collect()
    }

    /// Settings that a node with a user namespace cannot have.
    fn isolation_problems(&self, node: &NodeSpec) -> Vec<SpecError> {
        if node.isolation.is_none() {
            return Vec::new();
        }
        let name = || node.name.clone();
        let gates = [&node.feature_gates, &self.feature_gates];
        let gate = gates.iter().find_map(|gates| gates.iter().find(|(gate, _)| *gate == USER_NAMESPACE_GATE));
        let off = gate.is_some_and(|(_, on)| !on).then(|| SpecError::IsolationGate { node: name() });
        let ebpf = self.network.cni.needs_ebpf().then(|| SpecError::IsolationNetwork { node: name() });
        off.into_iter().chain(ebpf).collect()
    }

    /// Ports of the host that two nodes publish.
    fn port_problems(&self) -> Vec<SpecError> {
        let ports = self.nodes.iter().flat_map(|node| node.ports.iter().map(move |port| (&node.name, port)));
        let ports: Vec<_> = ports.collect();
        let colliding = ports.iter().enumerate().filter_map(|(index, (node, port))| {
            let (other, other_port) = ports[..index].iter().find(|(_, other)| other.collides(port))?;
            Some(SpecError::PortTwice {
                node: (*node).clone(),
                port: **port,
                other: (*other).clone(),
                other_port: **other_port,
            })
        });
        colliding.collect()
    }
}

impl NodeSpec {
    fn size_problems(&self, host: &HostSize) -> Vec<SpecError> {
        let node = &self.name;
        let mut findings = Vec::new();
        if let Some(wanted) = self.cpus.count_on(host).filter(|wanted| *wanted > host.cpus) {
            findings.push(SpecError::Cores { node: node.clone(), wanted, host: host.cpus });
        }
        if let Some(wanted) = self.memory.bytes_on(host) {
            let (role, least) = (self.role, self.role.least_memory());
            if wanted / NONSENSE > host.memory {
                findings.extend(self.memory_over(host));
            }
            if wanted < least {
                findings.push(SpecError::MemoryTooSmall { node: node.clone(), role, wanted, least });
            }
        }
        if let Some(wanted) = self.disk.filter(|wanted| *wanted < LEAST_DISK) {
            findings.push(SpecError::DiskTooSmall { node: node.clone(), wanted, least: LEAST_DISK });
        }
        findings
    }

    fn memory_over(&self, host: &HostSize) -> Option<SpecError> {
        let wanted = self.memory.bytes_on(host).filter(|wanted| *wanted > host.memory)?;
        Some(SpecError::MemoryOverHost { node: self.name.clone(), wanted, host: host.memory })
    }

    fn option_problems(&self) -> Vec<SpecError> {
        let node = &self.name;
        let others = self.extra_config.iter().filter(|option| option.component() != Component::Kubelet);
        let refused =
            others.map(|option| SpecError::OptionOfCluster { node: node.clone(), option: option.clone() });
        let twice = self.kubernetes_version.is_some() && self.bundle.is_some();
        let both = twice.then(|| SpecError::VersionAndBundle { node: node.clone() });
        let fields = self.kubelet.iter().filter_map(|(given, _)| {
            let why = extra::reserved::kubelet_field(given)?;
            Some(SpecError::ReservedField { node: node.clone(), given: given.to_owned(), why })
        });
        let options = reserved(Some(node), &self.extra_config);
        both.into_iter().chain(refused).chain(options).chain(fields).collect()
    }

    fn mount_problems(&self) -> Vec<SpecError> {
        let mut seen = BTreeSet::new();
        let again = self.mounts.iter().filter(|mount| !seen.insert(&mount.target));
        let twice = again
            .map(|mount| SpecError::MountTwice { node: self.name.clone(), target: mount.target.clone() });
        twice.chain(self.conflicting_mounts()).collect()
    }

    /// Mounts over what the node itself owns. Earlier releases accepted them.
    pub fn conflicting_mounts(&self) -> impl Iterator<Item = SpecError> {
        self.mounts.iter().filter_map(|mount| {
            let owned = mount.conflict()?;
            Some(SpecError::MountOver { node: self.name.clone(), mount: mount.clone(), owned })
        })
    }
}

/// Options that break what flotilla relies on. Options of other components are refused for a node in any case.
fn reserved<'a>(
    node: Option<&'a NodeName>,
    options: &'a [ExtraOption],
) -> impl Iterator<Item = SpecError> + use<'a> {
    let own = options.iter().filter(move |option| node.is_none() || option.component() == Component::Kubelet);
    own.filter_map(move |option| {
        let why = option.conflict()?;
        Some(SpecError::ReservedOption { node: node.cloned(), option: option.clone(), why })
    })
}

impl Role {
    fn least_memory(self) -> u64 {
        match self {
            Self::ControlPlane => LEAST_CONTROL_PLANE_MEMORY,
            Self::Worker => LEAST_WORKER_MEMORY,
        }
    }
}

impl ApiServerSpec {
    fn problems(&self) -> impl Iterator<Item = SpecError> {
        let port = self.port.and_then(|port| parse_server_port(&port.to_string()).err());
        self.names.iter().filter_map(|name| parse_server_name(name).err()).chain(port)
    }
}

/// Ports of a node that other parts of Kubernetes listen at, and those of services.
const KUBERNETES_PORTS: [(RangeInclusive<u16>, &str); 6] = [
    (2379..=2381, "etcd"),
    (10_248..=10_250, "the kubelet"),
    (10_256..=10_256, "kube-proxy"),
    (10_257..=10_257, "the controller manager"),
    (10_259..=10_259, "the scheduler"),
    (30_000..=32_767, "services of type NodePort"),
];

/// Reads the port of the API server.
pub(crate) fn parse_server_port(given: &str) -> Result<u16, SpecError> {
    let port = given.parse().ok().filter(|port| *port > 0);
    let port = port.ok_or_else(|| SpecError::Number { given: given.to_owned(), most: u16::MAX.into() })?;
    match KUBERNETES_PORTS.iter().find(|(ports, _)| ports.contains(&port)) {
        Some((_, owner)) => Err(SpecError::ApiServerPort { port, owner }),
        None => Ok(port),
    }
}

/// Reads a name for the API server's certificate.
pub(crate) fn parse_server_name(given: &str) -> Result<String, SpecError> {
    let is_name = is_dns_name(given.strip_prefix("*.").unwrap_or(given));
    if is_name { Ok(given.to_owned()) } else { Err(SpecError::ApiServerName { given: given.to_owned() }) }
}
