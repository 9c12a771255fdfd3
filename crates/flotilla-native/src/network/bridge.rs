//! A cluster's network on the host: bridge, forwarding, DNS.

use std::collections::BTreeMap;

use flotilla_core::network::LINK;
use flotilla_core::{Changed, LinkFacts, NetworkNode, NetworkPlan, NetworkState, Subnet};
use flotilla_linux::net::{LinkInfo, Net};
use flotilla_linux::nft::{self, Forwards, HostRules, Others, Pass, SourceRules, Sources};
use flotilla_linux::resolver::{STAND_INS, Upstream, asked_by_nodes};
use flotilla_linux::sysctl;
use ipnet::Ipv4Net;

use super::ports::{let_loopback_pass, lets_loopback_pass};
use super::{BridgeNetwork, host_routes, sockets};
use crate::error::NativeError;
use crate::names::Names;

/// What a host's Ethernet has. More is not worth it: packets that leave for the world would be too large there.
const LARGEST_MTU: u32 = 1500;
/// Every network carries this much, but for a few that are no way to the world.
const SMALLEST_MTU: u32 = 1280;

const FORWARDING: &str = "net/ipv4/ip_forward";

/// The wanted network of a cluster, given the current state of the host.
struct Wanted {
    names: Names,
    rules: HostRules,
    sources: SourceRules,
    forwards: Forwards,
    upstream: Upstream,
    /// A program of the host is the name server that nodes ask.
    name_server_on_host: bool,
    mtu: u32,
}

impl Wanted {
    fn pass<'a>(&'a self, tag: &'a str) -> Pass<'a> {
        Pass { bridge: &self.rules.bridge, tag, name_server_on_host: self.name_server_on_host }
    }

    /// Settings of the kernel that others may change back.
    fn settings_are_right(&self) -> bool {
        let is = |setting: &str, wanted: &str| sysctl::get(setting).is_ok_and(|value| value == wanted);
        is(FORWARDING, "1") && is(&of_bridge(&self.rules.bridge, "forwarding"), "1")
    }
}

impl BridgeNetwork {
    pub(super) fn network_state(&self, plan: &NetworkPlan) -> Result<NetworkState, NativeError> {
        let net = Net::here()?;
        let wanted = self.on_host(plan, &net)?;
        let (names, links) = (&wanted.names, net.links()?);
        let Some(bridge) = links.iter().find(|link| link.name == names.bridge()) else {
            return Ok(NetworkState::Incomplete);
        };
        let is_right = |link: &LinkInfo| link.up && link.belongs_to(&names.owner()) && link.mtu == wanted.mtu;
        let is_connected = |port: &LinkInfo| is_right(port) && port.master == Some(bridge.index);
        if !is_right(bridge) || !sockets::all(&links, names).all(is_connected) {
            return Ok(NetworkState::Incomplete);
        }
        let address = host_address(plan);
        if !net.addresses()?.iter().any(|has| has.link == names.bridge() && has.address == address) {
            return Ok(NetworkState::Incomplete);
        }
        let nft = self.nft(plan);
        if !wanted.settings_are_right()
            || !nft.has_host_table(&wanted.rules)?
            || !nft.is_let_pass(&wanted.pass(&names.table()))?
        {
            return Ok(NetworkState::Incomplete);
        }
        let is_current = host_routes::differences(&net, plan, names)?.is_empty()
            && lets_loopback_pass(&wanted.forwards, &wanted.upstream)
            && self.has_ports(plan, &wanted.forwards)?
            && nft.has_source_table(&wanted.sources)?;
        Ok(if is_current { NetworkState::Intact } else { NetworkState::Outdated })
    }

    pub(super) fn make_network(&self, plan: &NetworkPlan) -> Result<Changed, NativeError> {
        let net = Net::here()?;
        let wanted = self.on_host(plan, &net)?;
        let (names, bridge) = (&wanted.names, wanted.names.bridge());
        sysctl::raise(FORWARDING, 1)?;
        net.ensure_bridge(&bridge, &names.owner(), host_address(plan), wanted.mtu)?;
        sysctl::set(&of_bridge(&bridge, "forwarding"), "1")?;
        // What is too large for a port is lost without a word. The nodes' ends are for the nodes to change.
        for port in sockets::all(&net.links()?, names) {
            sockets::reconnect(&net, names, port)?;
        }
        let nft = self.nft(plan);
        let tables = [
            nft::host_table(&wanted.rules),
            nft::forward_table(&wanted.forwards),
            nft::source_table(&wanted.sources),
        ];
        nft.apply(&tables.concat())?;
        let_loopback_pass(&wanted.forwards, &wanted.upstream)?;
        nft.let_pass(&wanted.pass(&names.table()))?;
        host_routes::differences(&net, plan, names)?.apply(&net, &bridge)?;
        Ok(Changed::Yes)
    }

    /// Without a network there is nothing to publish; creating the network also publishes the ports.
    pub(super) fn update_network(&self, plan: &NetworkPlan) -> Result<Changed, NativeError> {
        let (net, names) = (Net::here()?, self.names(&plan.cluster));
        let bridge = names.bridge();
        if net.find_link(&bridge)?.is_none() {
            return Ok(Changed::No);
        }
        let routes = host_routes::differences(&net, plan, &names)?;
        routes.apply(&net, &bridge)?;
        let (nft, sources) = (self.nft(plan), source_rules(plan, &names));
        let has_sources = nft.has_source_table(&sources)?;
        if !has_sources {
            nft.apply(&nft::source_table(&sources))?;
        }
        Ok(self.ensure_ports(plan)?.or((!routes.is_empty() || !has_sources).into()))
    }

    fn on_host(&self, plan: &NetworkPlan, net: &Net) -> Result<Wanted, NativeError> {
        let names = self.names(&plan.cluster);
        let upstream = Upstream::read()?;
        let name_servers = upstream.ways(plan.gateway);
        let own: Vec<_> = net.addresses()?.into_iter().map(|address| address.address.addr()).collect();
        let is_own = |server: &std::net::Ipv4Addr| server.is_loopback() || own.contains(server);
        Ok(Wanted {
            name_server_on_host: name_servers.iter().any(|(_, server)| is_own(server)),
            rules: HostRules {
                table: names.table(),
                bridge: names.bridge(),
                gateway: plan.gateway,
                subnet: plan.subnet,
                pod_subnet: plan.pod_subnet,
                service_subnet: plan.service_subnet,
                name_servers,
                name_server_range: STAND_INS,
            },
            sources: source_rules(plan, &names),
            forwards: self.forwards(plan),
            mtu: mtu(net, &names.bridge())?,
            upstream,
            names,
        })
    }

    pub(super) fn link_facts(&self, plan: &NetworkPlan) -> Result<LinkFacts, NativeError> {
        Ok(LinkFacts {
            name: LINK.to_owned(),
            mtu: mtu(&Net::here()?, &self.names(&plan.cluster).bridge())?,
            gateway: plan.gateway,
            name_servers: asked_by_nodes(plan.gateway).to_vec(),
        })
    }
}

/// What each node may send from.
fn source_rules(plan: &NetworkPlan, names: &Names) -> SourceRules {
    let sources = |node: &NetworkNode| Sources {
        link: names.port(&node.name),
        address: node.address,
        virtual_ip: node.may_hold_virtual_ip.then_some(plan.virtual_ip),
        others: if plan.routes_pods { Others::Pods(node.pod_range) } else { Others::Any },
    };
    SourceRules { table: names.table(), subnet: plan.subnet, nodes: plan.nodes.iter().map(sources).collect() }
}

/// How large packets are that nodes and pods send: that of the way to the world, which may be a VPN's; without one, what the bridge has.
fn mtu(net: &Net, bridge: &str) -> Result<u32, NativeError> {
    let mtu = match net.mtu_to_world()? {
        Some(mtu) => mtu,
        None => net.find_link(bridge)?.map_or(LARGEST_MTU, |bridge| bridge.mtu),
    };
    Ok(mtu.clamp(SMALLEST_MTU, LARGEST_MTU))
}

/// The path of a setting of the bridge.
fn of_bridge(bridge: &str, setting: &str) -> String {
    format!("net/ipv4/conf/{bridge}/{setting}")
}

/// The host's own address in the cluster's network.
fn host_address(plan: &NetworkPlan) -> Ipv4Net {
    Ipv4Net::new(plan.gateway, plan.subnet.prefix_len()).expect("the prefix is that of a network")
}

/// The ranges that are in use on this host, without duplicates.
pub(super) fn in_use(except: &Names) -> Result<Vec<Subnet>, NativeError> {
    let net = Net::here()?;
    let links = net.links()?;
    let ours = |name: &str| links.iter().any(|link| link.name == name && link.belongs_to(&except.owner()));
    let mut ranges = BTreeMap::new();
    for address in net.addresses()? {
        if !ours(&address.link) {
            let user = user_of(&links, &address.link, || format!("the link {}", address.link));
            ranges.insert(address.address.trunc(), (user, false));
        }
    }
    for used in net.used_ranges()? {
        let link = used.link.unwrap_or_default();
        if ours(&link) {
            continue;
        }
        let user = user_of(&links, &link, || match link.as_str() {
            "" => format!("the route to {}", used.dst),
            link => format!("the route to {} by {link}", used.dst),
        });
        let (_, before_main) = ranges.entry(used.dst).or_insert((user, false));
        *before_main |= used.before_main;
    }
    let subnet = |(range, (user, before_main))| Subnet { range, user, before_main };
    Ok(ranges.into_iter().map(subnet).collect())
}

/// The cluster whose link it is, whoever made it; else what they are called.
fn user_of(links: &[LinkInfo], link: &str, otherwise: impl FnOnce() -> String) -> String {
    let alias = links.iter().find(|other| other.name == link).map(|link| &link.alias);
    let cluster = alias.and_then(|alias| alias.strip_prefix("flotilla/")?.split('/').nth(1));
    cluster.map_or_else(otherwise, |cluster| format!("the cluster {cluster}"))
}
