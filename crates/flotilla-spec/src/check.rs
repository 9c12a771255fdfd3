//! What is wrong with a cluster when its values meet each other or the host.

use std::collections::BTreeSet;

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

/// Below it the node's own programs do not fit: their anonymous memory alone is 390 MB and 70 MB.
const LEAST_CONTROL_PLANE_MEMORY: u64 = 1024 * MIB;
const LEAST_WORKER_MEMORY: u64 = 256 * MIB;

/// Kubernetes' images and a little room for pods.
const LEAST_DISK: u64 = 2048 * MIB;

/// So many times the host's memory was never meant. Less than that works until it is used.
pub(crate) const NONSENSE: u64 = 16;

impl ClusterSpec {
    /// Everything that is wrong with it on that host, in itself: what others have of the host's network is
    /// asked of [`NetworkSpec::taken`](crate::NetworkSpec::taken).
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
            findings.extend(node.mount_problems());
        }
        findings.extend(reserved(None, &self.extra_config));
        findings.extend(self.port_problems());
        let ranges = self.network.check();
        if ranges.is_empty() {
            // Of ranges that cannot be, nobody need know how many nodes would fit.
            findings.extend(self.network.too_many_nodes(self.nodes.len()));
        }
        findings.extend(ranges);
        findings.extend(self.api_server.problems());
        findings
    }

    /// Those of the problems of a changed spec that this one, which exists, does not have already: what an earlier version
    /// accepted keeps nobody from changing something else.
    pub fn new_problems(&self, problems: Vec<SpecError>, host: &HostSize) -> Vec<SpecError> {
        let known = self.check(host);
        let is_known = |problem: &SpecError| match problem {
            SpecError::At { error, .. } => known.contains(error),
            other => known.contains(other),
        };
        problems.into_iter().filter(|problem| !is_known(problem)).collect()
    }

    /// What is unusual, but can be: what will work on that host for as long as nobody uses all of it, and control
    /// planes of which one more serves nobody.
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

    /// Why a node cannot have a kubelet of that version; none if it can. The version of a bundle that a node names is
    /// known to who has looked into it.
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

    /// Settings that the node's kubelet would pass over. One that is newer than what we know, or the person's own, may
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

    /// Ports of the host that are to lead to two places.
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
        twice.collect()
    }
}

/// Options that break what flotilla relies on. A node's own of other components are refused anyway.
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
        self.names.iter().filter_map(|name| parse_server_name(name).err())
    }
}

/// A name that the API server's certificate can have.
pub(crate) fn parse_server_name(given: &str) -> Result<String, SpecError> {
    let is_name = is_dns_name(given.strip_prefix("*.").unwrap_or(given));
    if is_name { Ok(given.to_owned()) } else { Err(SpecError::ApiServerName { given: given.to_owned() }) }
}
