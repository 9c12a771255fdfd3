//! A cluster as it was typed: a spec, and which of it was asked for.

use flotilla_core::Cluster;
use flotilla_engine::EngineError;
use flotilla_spec::{ClusterSpec, Cni, Cpus, HostMount, HostPort, Memory};
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use crate::OpError;

/// What a new cluster gets, and what one that exists must have already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Typed {
    /// The cluster, if there is none yet.
    pub spec: ClusterSpec,
    /// Whether a Kubernetes version was asked for.
    pub version: bool,
    /// How many nodes, if that was said: no fewer than control planes.
    pub count: Option<u32>,
    /// How many of them are control planes, if that was said.
    pub control_planes: Option<u32>,
    /// Whether mounts or ports were named.
    pub attaches: bool,
    pub sizes: Sizes,
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
