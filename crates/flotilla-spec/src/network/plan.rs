//! Which address goes to whom.
//!
//! ```text
//! 10.213.0.0/24:  .1 gateway   .2 first node   .3 second node   …   .254 virtual IP
//! ```
//!
//! Nodes are counted from 1. An address depends on nothing but the subnet and that number, so it is the
//! node's for its whole life.

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
    let before = usize::try_from(index.checked_sub(1)?).ok()?;
    pod_subnet.subnets(prefix).ok()?.nth(before)
}
