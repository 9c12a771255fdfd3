//! A cluster as it was typed: a spec, and which of its settings were given.

use flotilla_core::Cluster;
use flotilla_engine::EngineError;
use flotilla_spec::{ClusterSpec, Cni, Cpus, HostMount, HostPort, Isolation, Memory};
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use crate::OpError;

/// What a new cluster gets, and what one that exists must have already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Typed {
    /// The spec if the cluster is new.
    pub spec: ClusterSpec,
    /// Whether a Kubernetes version was given.
    pub version: bool,
    /// Total number of nodes, if given: at least that of control planes.
    pub count: Option<u32>,
    /// Number of control planes, if given.
    pub control_planes: Option<u32>,
    /// Whether mounts or ports were given.
    pub attaches: bool,
    pub sizes: Sizes,
    /// If given.
    #[serde(default)]
    pub isolation: Option<Isolation>,
    pub network: GivenNetwork,
}

/// What was said of the network, where leaving it out means something: the same words may be said on purpose.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GivenNetwork {
    pub node_pod_prefix: Option<u8>,
    pub service_subnet: Option<Ipv4Net>,
    pub dns_domain: Option<String>,
    pub cni: Option<Cni>,
}

/// What can change between two starts, where it was given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Sizes {
    pub cpus: Option<Cpus>,
    pub memory: Option<Memory>,
    pub disk: Option<u64>,
}

impl Typed {
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
                "isolation",
                Some("delete its nodes and add them again: `flotilla node add --isolation user|none`"),
                is_other(self.isolation.as_ref(), &known.node_defaults.isolation),
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
                "taint of its control planes",
                Some("`flotilla apply -f FILE` changes it"),
                asked.taint_control_planes && !known.taint_control_planes,
            ),
            (
                "certificate authority",
                None,
                asked.certificate_authority.is_some()
                    && asked.certificate_authority != known.certificate_authority,
            ),
            (
                "set of API server names",
                None,
                asked.api_server.has_names()
                    && (&asked.api_server.names, &asked.api_server.ips)
                        != (&known.api_server.names, &known.api_server.ips),
            ),
            ("API server port", None, asked.api_server.port.is_some_and(|port| port != cluster.api_port())),
        ];
        if let Some((what, change, _)) = differs.into_iter().find(|(.., differs)| *differs) {
            let cluster = known.name.clone();
            return Err(EngineError::Different { cluster, what: what.to_owned(), change }.into());
        }
        self.check_counts(known)?;
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

    /// Nodes come and go by commands of their own.
    fn check_counts(&self, known: &ClusterSpec) -> Result<(), EngineError> {
        let counts = [
            (
                "node",
                self.count,
                known.nodes.len(),
                "`flotilla node add` and `flotilla node delete` change the number",
            ),
            (
                "control plane",
                self.control_planes,
                known.control_planes().count(),
                "`flotilla node add --control-plane` and `flotilla node delete` change the number",
            ),
        ];
        for (what, wanted, has, change) in counts {
            if let Some(wanted) = wanted.filter(|wanted| usize::try_from(*wanted) != Ok(has)) {
                return Err(EngineError::OtherCount {
                    cluster: known.name.clone(),
                    what,
                    has,
                    wanted,
                    change,
                });
            }
        }
        Ok(())
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

/// What of the host the primary node has.
fn attachments(spec: &ClusterSpec) -> (&[HostMount], &[HostPort]) {
    let primary = spec.primary();
    (&primary.mounts, &primary.ports)
}
