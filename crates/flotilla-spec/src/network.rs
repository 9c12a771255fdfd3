//! The address ranges of a cluster: given or chosen, checked against each other and the host.

use std::fmt;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::name::is_dns_name;
use crate::{SpecError, text};

mod plan;
#[cfg(test)]
mod tests;

pub use plan::{NodeLimit, gateway, node_address, pod_range, virtual_ip};

/// Node subnets are chosen from this range, one /24 after the other.
const SUBNET_POOL: Ipv4Net = range([10, 213, 0, 0], 16);
const SUBNET_PREFIX: u8 = 24;

/// The second byte of the pod subnets to try: most CNI examples use 10.244.0.0/16.
const POD_SUBNETS: RangeInclusive<u8> = 244..=254;
const POD_SUBNET_PREFIX: u8 = 16;

/// The second byte of the service ranges to try after the default: those of a /12 that no other range of a cluster is chosen
/// from.
const SERVICE_SUBNETS: [u8; 5] = [112, 128, 144, 160, 176];
const SERVICE_SUBNET_PREFIX: u8 = 12;

/// Used if a VPN routes all of 10.0.0.0/8.
const SPARE_SUBNET_POOL: Ipv4Net = range([192, 168, 128, 0], 17);
const SPARE_POD_SUBNETS: RangeInclusive<u8> = 24..=30;

/// Routes to larger ranges do not count as networks: VPNs set them instead of a default route.
const WIDEST_NETWORK: u8 = 8;

/// The smallest pod range of a node.
const LONGEST_POD_PREFIX: u8 = 28;

/// Ranges with a special meaning for the kernel.
const UNUSABLE: [(Ipv4Net, &str); 5] = [
    (range([0, 0, 0, 0], 8), "this network"),
    (range([127, 0, 0, 0], 8), "loopback"),
    (range([169, 254, 0, 0], 16), "link-local"),
    (range([224, 0, 0, 0], 4), "multicast"),
    (range([240, 0, 0, 0], 4), "reserved"),
];

/// The address ranges of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NetworkSpec {
    /// Of the nodes; none: flotilla chooses.
    #[serde(deserialize_with = "optional_range", skip_serializing_if = "Option::is_none")]
    pub subnet: Option<Ipv4Net>,
    /// Of all pods; each node has a part of it. None: flotilla chooses.
    #[serde(deserialize_with = "optional_range", skip_serializing_if = "Option::is_none")]
    pub pod_subnet: Option<Ipv4Net>,
    /// Prefix length of a node's pod range.
    pub node_pod_prefix: u8,
    #[serde(deserialize_with = "given_range")]
    pub service_subnet: Ipv4Net,
    pub dns_domain: String,
    pub cni: Cni,
}

/// The pod network.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Cni {
    /// Flotilla's own: routes between the nodes, configured before the kubelet starts.
    #[default]
    Flotilla,
    /// None: the user installs one.
    None,
    /// flannel, from the manifest in flotilla.
    Flannel,
    /// A manifest in a file.
    Manifest(PathBuf),
}

impl Cni {
    /// The path of the user's own manifest.
    pub fn manifest(&self) -> Option<&Path> {
        match self {
            Self::Manifest(path) => Some(path),
            _ => None,
        }
    }

    /// Whether it is known to need eBPF, by the name of its manifest.
    pub(crate) fn needs_ebpf(&self) -> bool {
        let name = self.manifest().and_then(Path::file_name);
        name.is_some_and(|name| name.to_string_lossy().to_lowercase().contains("cilium"))
    }
}

impl FromStr for Cni {
    type Err = SpecError;

    /// Reads a name or a path. Accepts minikube's names for our own network.
    fn from_str(given: &str) -> Result<Self, SpecError> {
        match given {
            "flotilla" | "auto" | "bridge" | "" => Ok(Self::Flotilla),
            "none" | "false" => Ok(Self::None),
            "flannel" => Ok(Self::Flannel),
            path if path.contains(['/', '.']) => Ok(Self::Manifest(path.into())),
            other => Err(SpecError::Cni { given: other.to_owned() }),
        }
    }
}

impl fmt::Display for Cni {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flotilla => f.pad("flotilla"),
            Self::None => f.pad("none"),
            Self::Flannel => f.pad("flannel"),
            Self::Manifest(path) => path.display().fmt(f),
        }
    }
}

impl Serialize for Cni {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Cni {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text::parsed(deserializer, str::parse)
    }
}

impl Default for NetworkSpec {
    fn default() -> Self {
        Self {
            subnet: None,
            pod_subnet: None,
            node_pod_prefix: 24,
            service_subnet: range([10, 96, 0, 0], 12),
            dns_domain: "cluster.local".to_owned(),
            cni: Cni::default(),
        }
    }
}

/// What a range is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeUse {
    Nodes,
    Pods,
    Services,
}

impl fmt::Display for RangeUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Nodes => "node subnet",
            Self::Pods => "pod subnet",
            Self::Services => "service subnet",
        })
    }
}

impl NetworkSpec {
    /// All errors of the ranges themselves.
    pub fn check(&self) -> Vec<SpecError> {
        let mut findings = Vec::new();
        let ranges = self.ranges();
        for (index, &(usage, range)) in ranges.iter().enumerate() {
            if let Some((_, meaning)) = UNUSABLE.iter().find(|(unusable, _)| overlap(*unusable, range)) {
                findings.push(SpecError::UnusableRange { usage, range, meaning });
            }
            for &(other_usage, other) in &ranges[index + 1..] {
                if overlap(range, other) {
                    findings.push(SpecError::Overlap { usage, range, other_usage, other });
                }
            }
            if let Some((shortest, longest)) = prefix_bounds(usage)
                && !(shortest..=longest).contains(&range.prefix_len())
            {
                findings.push(SpecError::RangeSize { usage, range, shortest, longest });
            }
        }
        findings.extend(self.node_pod_prefix_problem());
        if !is_dns_name(&self.dns_domain) {
            findings.push(SpecError::DnsDomain { given: self.dns_domain.clone() });
        }
        findings
    }

    /// The given ranges that are in use. Each of `others` comes with its user: `cluster demo`.
    ///
    /// Default routes do not count. No packets are sent to the service range itself, so only narrower networks
    /// conflict with it.
    pub fn taken(&self, others: &[(Ipv4Net, String)]) -> Vec<SpecError> {
        // Once for each range: a cluster's range is in its state and in the kernel.
        let taken = self.ranges().into_iter().filter_map(|(usage, range)| {
            let (_, by) = others.iter().find(|(other, _)| {
                if usage == RangeUse::Services { hides(range, *other) } else { in_the_way(*other, range) }
            })?;
            Some(SpecError::Taken { usage, range, by: by.clone() })
        });
        taken.collect()
    }

    /// The first free /24 of 10.213.0.0/16, else of 192.168.128.0/17, not overlapping `others` and this cluster's
    /// other ranges.
    pub fn choose_subnet(&self, others: &[Ipv4Net]) -> Option<Ipv4Net> {
        let own: Vec<_> = self.pod_subnet.into_iter().chain([self.service_subnet]).collect();
        let pools = [SUBNET_POOL, SPARE_SUBNET_POOL].into_iter();
        let mut candidates =
            pools.flat_map(|pool| pool.subnets(SUBNET_PREFIX).expect("a /24 is smaller than a pool"));
        candidates.find(|range| is_free(*range, others) && is_free(*range, &own))
    }

    /// The first free /16 from 10.244.0.0 to 10.254.0.0, else from 172.24.0.0 to 172.30.0.0, not overlapping `others`
    /// and this cluster's other ranges.
    pub fn choose_pod_subnet(&self, others: &[Ipv4Net]) -> Option<Ipv4Net> {
        let own: Vec<_> = self.subnet.into_iter().chain([self.service_subnet]).collect();
        let usual = POD_SUBNETS.map(|second| range([10, second, 0, 0], POD_SUBNET_PREFIX));
        let spare = SPARE_POD_SUBNETS.map(|second| range([172, second, 0, 0], POD_SUBNET_PREFIX));
        let mut candidates = usual.chain(spare);
        candidates.find(|range| is_free(*range, others) && is_free(*range, &own))
    }

    /// The default range of services, else the first of 10.112.0.0/12, 10.128.0.0/12, … that hides no network of `others` and
    /// overlaps no range of this cluster's.
    pub fn choose_service_subnet(&self, others: &[Ipv4Net]) -> Option<Ipv4Net> {
        let own: Vec<_> = self.subnet.into_iter().chain(self.pod_subnet).collect();
        let usual = Self::default().service_subnet;
        let spare = SERVICE_SUBNETS.map(|second| range([10, second, 0, 0], SERVICE_SUBNET_PREFIX));
        let hides = |range: Ipv4Net| others.iter().any(|other| hides(range, *other));
        // What the default has in common with the cluster's own ranges is an error of those.
        let is_free = |range: &Ipv4Net| !hides(*range) && !own.iter().any(|own| overlap(*own, *range));
        if hides(usual) { spare.into_iter().find(is_free) } else { Some(usual) }
    }

    /// Why the ranges are too small for so many nodes; none if they are not. Ranges that are not given get their
    /// default size.
    pub(crate) fn too_many_nodes(&self, count: usize) -> Option<SpecError> {
        let subnet = self.subnet.unwrap_or(range([10, 213, 0, 0], SUBNET_PREFIX));
        let pod_subnet = self.pod_subnet.unwrap_or(range([10, 244, 0, 0], POD_SUBNET_PREFIX));
        let (limit, most) = NodeLimit::of(subnet, pod_subnet, self.node_pod_prefix, count)?;
        Some(SpecError::TooManyNodes { count, most, limit })
    }

    /// The ranges that are given or chosen.
    fn ranges(&self) -> Vec<(RangeUse, Ipv4Net)> {
        let nodes = self.subnet.map(|range| (RangeUse::Nodes, range));
        let pods = self.pod_subnet.map(|range| (RangeUse::Pods, range));
        nodes.into_iter().chain(pods).chain([(RangeUse::Services, self.service_subnet)]).collect()
    }

    fn node_pod_prefix_problem(&self) -> Option<SpecError> {
        let prefix = self.node_pod_prefix;
        let shortest = self.pod_subnet.map_or(POD_SUBNET_PREFIX, |range| range.prefix_len());
        if prefix > LONGEST_POD_PREFIX {
            Some(SpecError::NodePodPrefix { prefix, longest: LONGEST_POD_PREFIX })
        } else if prefix < shortest {
            Some(SpecError::PodSubnetTooSmall { subnet_prefix: shortest, prefix })
        } else {
            None
        }
    }
}

/// Reads a range such as `10.0.0.0/24`.
pub fn parse_range(given: &str) -> Result<Ipv4Net, SpecError> {
    match given.parse() {
        Ok(IpNet::V4(range)) if range == range.trunc() => Ok(range),
        Ok(IpNet::V4(range)) => Err(SpecError::HostBits { given: range, range: range.trunc() }),
        Ok(IpNet::V6(range)) => Err(SpecError::Ipv6 { given: range }),
        Err(_) => Err(SpecError::Range { given: given.to_owned() }),
    }
}

const fn range([a, b, c, d]: [u8; 4], prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

/// The shortest and the longest prefix. The pod subnet is limited by the nodes' ranges in it.
fn prefix_bounds(usage: RangeUse) -> Option<(u8, u8)> {
    match usage {
        RangeUse::Nodes => Some((16, 28)),
        RangeUse::Services => Some((12, 28)),
        RangeUse::Pods => None,
    }
}

fn overlap(one: Ipv4Net, other: Ipv4Net) -> bool {
    one.contains(&other) || other.contains(&one)
}

/// Whether a network of the host conflicts with a range.
fn in_the_way(other: Ipv4Net, range: Ipv4Net) -> bool {
    other.prefix_len() >= WIDEST_NETWORK && overlap(other, range)
}

/// Whether a range of services hides a network from pods. A wider network only loses a part.
fn hides(services: Ipv4Net, other: Ipv4Net) -> bool {
    in_the_way(other, services) && services.contains(&other)
}

fn is_free(range: Ipv4Net, others: &[Ipv4Net]) -> bool {
    !others.iter().any(|other| in_the_way(*other, range))
}

fn given_range<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Ipv4Net, D::Error> {
    text::parsed(deserializer, parse_range)
}

fn optional_range<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Ipv4Net>, D::Error> {
    text::optional(deserializer, parse_range)
}
