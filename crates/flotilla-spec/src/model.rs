//! A cluster as it is wanted, in the form the engine works with.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::document::{self, Document};
use crate::name::is_dns_name;
use crate::quantity::{self, MIB};
use crate::{
    ClusterName, Cpus, ExtraOption, FeatureGates, HostSize, KubernetesVersion, Labels, Memory, NetworkSpec,
    NodeName, SpecError, Taint,
};

/// Below it the node's own programs do not fit: their anonymous memory alone is 390 MB and 70 MB.
const LEAST_CONTROL_PLANE_MEMORY: u64 = 1024 * MIB;
const LEAST_WORKER_MEMORY: u64 = 256 * MIB;

/// Kubernetes' images and a little room for pods.
const LEAST_DISK: u64 = 2048 * MIB;

/// What one name (`-p NAME`) stands for.
///
/// Serde writes and reads it as it stands in a cluster's file, with `apiVersion` and `kind`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Document", into = "Document")]
pub struct ClusterSpec {
    pub name: ClusterName,
    pub kubernetes_version: KubernetesVersion,
    pub driver: DriverName,
    pub network: NetworkSpec,
    pub api_server: ApiServerSpec,
    /// minikube's `--extra-config`, for every node.
    pub extra_config: Vec<ExtraOption>,
    pub feature_gates: FeatureGates,
    /// The first control plane in it is the primary one.
    pub nodes: Vec<NodeSpec>,
}

impl ClusterSpec {
    /// The control plane that the others join. A checked spec has one.
    pub fn primary(&self) -> &NodeSpec {
        let mut nodes = self.nodes.iter();
        nodes.find(|node| node.role == Role::ControlPlane).expect("a checked spec has a control plane")
    }

    /// Everything that is wrong with it on that host, in itself: what others have of the host's network is
    /// asked of [`NetworkSpec::taken`].
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
            findings.extend(node.problems(host));
        }
        findings.extend(self.network.check());
        findings.extend(self.api_server.problems());
        findings
    }

    /// Its file.
    pub fn to_yaml(&self) -> String {
        document::write(self)
    }

    /// Reads its file. What [`ClusterSpec::check`] looks for is not looked for here.
    pub fn from_yaml(text: &str) -> Result<Self, SpecError> {
        document::read(text)
    }
}

/// One machine of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeSpec {
    pub name: NodeName,
    pub role: Role,
    #[serde(default)]
    pub cpus: Cpus,
    #[serde(default)]
    pub memory: Memory,
    /// Bytes. Drivers whose machines have disks of their own make one of this size.
    #[serde(default, with = "quantity::disk", skip_serializing_if = "Option::is_none")]
    pub disk: Option<u64>,
    /// Set when it registers.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    // Files of the first versions say `power`.
    #[serde(default, rename = "state", alias = "power")]
    pub power: WantedPower,
}

impl NodeSpec {
    /// One without limits, labels or taints, that is to run.
    pub fn plain(name: NodeName, role: Role) -> Self {
        Self {
            name,
            role,
            cpus: Cpus::default(),
            memory: Memory::default(),
            disk: None,
            labels: Labels::default(),
            taints: Vec::new(),
            power: WantedPower::Running,
        }
    }

    fn problems(&self, host: &HostSize) -> Vec<SpecError> {
        let node = &self.name;
        let mut findings = Vec::new();
        if let Some(wanted) = self.cpus.count_on(host).filter(|wanted| *wanted > host.cpus) {
            findings.push(SpecError::Cores { node: node.clone(), wanted, host: host.cpus });
        }
        if let Some(wanted) = self.memory.bytes_on(host) {
            let least = self.role.least_memory();
            if wanted > host.memory {
                findings.push(SpecError::MemoryOverHost { node: node.clone(), wanted, host: host.memory });
            }
            if wanted < least {
                findings.push(SpecError::MemoryTooSmall {
                    node: node.clone(),
                    role: self.role,
                    wanted,
                    least,
                });
            }
        }
        if let Some(wanted) = self.disk.filter(|wanted| *wanted < LEAST_DISK) {
            findings.push(SpecError::DiskTooSmall { node: node.clone(), wanted, least: LEAST_DISK });
        }
        findings
    }
}

/// What a machine is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    ControlPlane,
    Worker,
}

impl Role {
    fn least_memory(self) -> u64 {
        match self {
            Self::ControlPlane => LEAST_CONTROL_PLANE_MEMORY,
            Self::Worker => LEAST_WORKER_MEMORY,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ControlPlane => "control plane",
            Self::Worker => "worker",
        })
    }
}

/// Whether a machine is to run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WantedPower {
    #[default]
    Running,
    Stopped,
}

/// Who makes the machines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriverName {
    #[default]
    Native,
}

impl fmt::Display for DriverName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Native => "native",
        })
    }
}

/// What the API server answers to beside the names and addresses it has anyway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApiServerSpec {
    /// DNS names; the first label may be `*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<IpAddr>,
}

impl ApiServerSpec {
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.ips.is_empty()
    }

    fn problems(&self) -> impl Iterator<Item = SpecError> {
        let bad = self.names.iter().filter(|name| !is_dns_name(name.strip_prefix("*.").unwrap_or(name)));
        bad.map(|name| SpecError::ApiServerName { given: name.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SpecErrorKind;

    const HOST: HostSize = HostSize { cpus: 4, memory: 8 * 1024 * MIB };

    fn node(name: &str, role: Role) -> NodeSpec {
        NodeSpec::plain(name.parse().unwrap(), role)
    }

    fn cluster(nodes: Vec<NodeSpec>) -> ClusterSpec {
        ClusterSpec {
            name: "demo".parse().unwrap(),
            kubernetes_version: "v1.37.1".parse().unwrap(),
            driver: DriverName::Native,
            network: NetworkSpec::default(),
            api_server: ApiServerSpec::default(),
            extra_config: Vec::new(),
            feature_gates: FeatureGates::default(),
            nodes,
        }
    }

    fn told(findings: &[SpecError]) -> String {
        let lines = findings.iter().map(|error| {
            let hint = error.hint().unwrap_or_default();
            format!("{:?}: {error} ({hint})", error.kind())
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_plain_cluster_is_sound_and_its_first_control_plane_is_primary() {
        let nodes = vec![
            node("a", Role::Worker),
            node("b", Role::ControlPlane),
            NodeSpec { cpus: Cpus::Max, memory: Memory::Max, ..node("c", Role::ControlPlane) },
        ];
        let spec = cluster(nodes);
        assert_eq!(spec.check(&HOST), []);
        assert_eq!(spec.primary().name.as_ref(), "b");
    }

    #[test]
    fn everything_wrong_with_a_cluster_is_told_at_once() {
        let size = |text: &str| text.parse::<Memory>().unwrap();
        let mut spec = cluster(vec![
            NodeSpec { cpus: "5".parse().unwrap(), memory: size("9g"), ..node("demo", Role::ControlPlane) },
            NodeSpec { memory: size("1023m"), disk: Some(1024 * MIB), ..node("demo", Role::ControlPlane) },
            NodeSpec { memory: size("100"), ..node("demo", Role::Worker) },
        ]);
        spec.network.dns_domain = String::new();
        spec.api_server.names = ["a.b", "*.a.b", "*", "a.*.b", "A"].map(str::to_owned).to_vec();
        insta::assert_snapshot!(told(&spec.check(&HOST)), @r#"
        Cores: node demo wants 5 CPUs, the host has 4 (give it at most 4, or `max`)
        Memory: node demo wants 9216 MiB of memory, the host has 8192 MiB (give it at most 8192m, or `max`)
        Config: two nodes have the name demo ()
        Memory: node demo has 1023 MiB of memory, a control plane needs 1024 MiB (give it at least 1024m)
        Disk: node demo has a disk of 1024 MiB, it needs 2048 MiB (give it at least 2048m)
        Memory: node demo has 100 MiB of memory, a worker needs 256 MiB (give it at least 256m)
        Usage: "" is not a DNS domain ()
        Usage: "*" is not a name the API server can answer to ()
        Usage: "a.*.b" is not a name the API server can answer to ()
        Usage: "A" is not a name the API server can answer to ()
        "#);
    }

    #[test]
    fn a_cluster_without_control_plane_is_a_broken_configuration() {
        let findings = cluster(vec![node("demo", Role::Worker)]).check(&HOST);
        assert_eq!(findings, [SpecError::NoControlPlane]);
        assert_eq!(findings[0].kind(), SpecErrorKind::Config);
        assert_eq!(cluster(Vec::new()).check(&HOST), [SpecError::NoControlPlane]);
    }

    #[test]
    fn the_least_memory_is_enough() {
        let control_plane = NodeSpec { memory: Memory::Bytes(1024 * MIB), ..node("a", Role::ControlPlane) };
        let worker = NodeSpec { memory: Memory::Bytes(256 * MIB), ..node("b", Role::Worker) };
        assert_eq!(cluster(vec![control_plane, worker]).check(&HOST), []);
    }

    #[test]
    fn a_host_too_small_for_max_is_told() {
        let host = HostSize { cpus: 1, memory: 512 * MIB };
        let findings =
            cluster(vec![NodeSpec { memory: Memory::Max, ..node("a", Role::ControlPlane) }]).check(&host);
        assert!(matches!(findings[..], [SpecError::MemoryTooSmall { .. }]), "{findings:?}");
    }
}
