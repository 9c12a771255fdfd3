//! Which address goes to whom.
//!
//! ```text
//! 10.213.0.0/24:  .1 gateway   .2 first node   .3 second node   …   .254 virtual IP
//! ```
//!
//! Nodes are counted from 1. What follows from a node's number is stored with it when the node is added, and is the node's for its
//! whole life.

use std::fmt;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

/// The host's address on the cluster's bridge: the first one.
pub fn gateway(subnet: Ipv4Net) -> Ipv4Addr {
    subnet.hosts().next().expect("every range has an address")
}

/// The address of the API, whichever control plane has it: the last one.
pub fn virtual_ip(subnet: Ipv4Net) -> Ipv4Addr {
    subnet.hosts().next_back().expect("every range has an address")
}

/// The address of a node; none if the subnet has no room for so many.
pub fn node_address(subnet: Ipv4Net, index: u32) -> Option<Ipv4Addr> {
    let index = usize::try_from(index).ok().filter(|index| *index > 0)?;
    subnet.hosts().nth(index).filter(|address| *address < virtual_ip(subnet))
}

/// The range of a node's pods; none if the pod subnet has no room for so many.
pub fn pod_range(pod_subnet: Ipv4Net, prefix: u8, index: u32) -> Option<Ipv4Net> {
    let before = u64::from(index.checked_sub(1)?);
    // Counted, not walked: all nodes' ranges are asked for again and again.
    let is_inside = pod_subnet.prefix_len() <= prefix && prefix <= pod_subnet.max_prefix_len();
    let room = is_inside.then(|| 1_u64 << (prefix - pod_subnet.prefix_len()))?;
    let size = 1_u64 << (pod_subnet.max_prefix_len() - prefix);
    let first = u64::from(u32::from(pod_subnet.network())) + before * size;
    let first = u32::try_from(first).ok().filter(|_| before < room)?;
    Ipv4Net::new(first.into(), prefix).ok()
}

/// A bridge of Linux has so many ports (`BR_MAX_PORTS` of the kernel, and the first number is not given out); each node is
/// one of them.
const BRIDGE_PORTS: usize = 1023;

/// What limits the number of a cluster's nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeLimit {
    Subnet(Ipv4Net),
    PodSubnet(Ipv4Net, u8),
    Bridge,
}

impl NodeLimit {
    /// The first limit that so many nodes do not fit in, and how many would.
    pub(crate) fn of(
        subnet: Ipv4Net,
        pod_subnet: Ipv4Net,
        prefix: u8,
        count: usize,
    ) -> Option<(Self, usize)> {
        let power = |bits: u8| 1_usize.checked_shl(bits.into()).unwrap_or(usize::MAX);
        // The network's own address, the gateway, the virtual IP and the broadcast address are nobody's.
        let addresses = power(subnet.max_prefix_len() - subnet.prefix_len()).saturating_sub(4);
        let ranges = power(prefix.saturating_sub(pod_subnet.prefix_len()));
        let limits = [
            (Self::Bridge, BRIDGE_PORTS),
            (Self::Subnet(subnet), addresses),
            (Self::PodSubnet(pod_subnet, prefix), ranges),
        ];
        let narrowest = limits.into_iter().min_by_key(|(_, most)| *most);
        narrowest.filter(|(_, most)| count > *most)
    }

    /// What to do about it.
    pub(crate) fn cure(self) -> &'static str {
        match self {
            Self::Subnet(_) => "create the cluster with a larger --subnet, for example a /20",
            Self::PodSubnet(..) => {
                "create the cluster with a larger --pod-subnet or a larger --node-pod-prefix"
            }
            Self::Bridge => "create several clusters",
        }
    }
}

impl fmt::Display for NodeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Subnet(subnet) => write!(f, "the node subnet (/{})", subnet.prefix_len()),
            Self::PodSubnet(subnet, prefix) => {
                write!(f, "the pod subnet (/{}, with a /{prefix} for each node)", subnet.prefix_len())
            }
            Self::Bridge => f.pad("the bridge that connects them"),
        }
    }
}
