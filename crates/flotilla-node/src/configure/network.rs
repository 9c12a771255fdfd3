//! The node's link and its routes to the pods of other nodes.

use std::net::Ipv4Addr;

use flotilla_linux::net::{Net, NetError};
use flotilla_node_api::{NodeConfig, VirtualIp};
use ipnet::Ipv4Net;

/// What is wrong with a node's network.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Differences {
    link: Option<String>,
    /// The virtual IP, if it is always this node's and missing.
    address: Option<Ipv4Net>,
    /// To nodes that exist.
    missing: Vec<(Ipv4Net, Ipv4Addr)>,
    /// To nodes that are gone.
    stale: Vec<Ipv4Net>,
}

impl Differences {
    pub(super) fn describe(&self) -> Vec<String> {
        let link = self.link.iter().map(|link| format!("the link {link}"));
        let address = self.address.iter().map(|address| format!("the address {}", address.addr()));
        let missing = self.missing.iter().map(|(range, _)| range);
        let routes = missing.chain(&self.stale).map(|range| format!("the route to {range}"));
        link.chain(address).chain(routes).collect()
    }
}

pub(super) fn differences(net: &Net, config: &NodeConfig) -> Result<Differences, NetError> {
    let link = &config.link;
    let mut differences = Differences::default();
    let found = net.find_link(&link.name)?;
    let has_mtu = found.is_some_and(|found| link.mtu.is_none_or(|mtu| found.mtu == mtu));
    if !has_mtu || !net.is_configured(&link.name, link.address, link.gateway)? {
        differences.link = Some(link.name.clone());
    }
    if let VirtualIp::Assigned(address) = config.virtual_ip
        && !has_address(net, &link.name, address)?
    {
        differences.address = Some(address);
    }
    if let Some(routes) = &config.routes {
        let present = net.ways(&link.name, routes.within)?;
        let is_missing = |(range, via): &(&Ipv4Net, &Ipv4Addr)| present.get(range) != Some(&Some(**via));
        let missing = routes.via.iter().filter(is_missing);
        differences.missing = missing.map(|(range, via)| (*range, *via)).collect();
        let is_stale = |range: &&Ipv4Net| !routes.via.contains_key(range);
        differences.stale = present.keys().filter(is_stale).copied().collect();
    }
    Ok(differences)
}

pub(super) fn apply(net: &Net, config: &NodeConfig, differences: &Differences) -> Result<(), NetError> {
    let link = &config.link;
    if differences.link.is_some() {
        if let Some(mtu) = link.mtu {
            net.ensure_mtu(&link.name, mtu)?;
        }
        net.configure(&link.name, link.address, link.gateway)?;
    }
    if let Some(address) = differences.address {
        net.ensure_address(&link.name, address)?;
    }
    for range in &differences.stale {
        net.remove_route(*range)?;
    }
    if differences.missing.is_empty() {
        return Ok(());
    }
    net.put_ways(&link.name, differences.missing.iter().copied())
}

pub(super) fn has_address(net: &Net, link: &str, address: Ipv4Net) -> Result<bool, NetError> {
    Ok(net.addresses()?.iter().any(|has| has.link == link && has.address == address))
}
