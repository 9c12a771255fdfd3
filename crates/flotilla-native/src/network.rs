//! A cluster's network on the host: bridge, forwarding, DNS.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use flotilla_core::{Changed, Subnet};
use flotilla_core::{Cluster, Node};
use flotilla_linux::net::{LinkInfo, Net, RouteInfo};
use flotilla_linux::nft::{self, Forwards, HostRules, Nft, Pass};
use flotilla_linux::process::Process;
use flotilla_linux::resolver::{STAND_INS, Upstream};
use flotilla_linux::sysctl;
use ipnet::Ipv4Net;

use super::Native;
use super::boot::LINK;
use super::error::NativeError;
use super::names::Names;
use super::ports::{let_loopback_pass, need_loopback};

/// What a host's Ethernet has. More is not worth it: packets that leave for the world would be too large there.
const LARGEST_MTU: u32 = 1500;
/// Every network carries this much, but for a few that are no way to the world.
const SMALLEST_MTU: u32 = 1280;

const FORWARDING: &str = "net/ipv4/ip_forward";

/// The wanted network of a cluster, given the current state of the host.
struct Plan {
    names: Names,
    rules: HostRules,
    forwards: Forwards,
    upstream: Upstream,
    /// A program of the host is the name server that nodes ask.
    name_server_on_host: bool,
    mtu: u32,
}

impl Plan {
    fn pass<'a>(&'a self, tag: &'a str) -> Pass<'a> {
        Pass { bridge: &self.rules.bridge, tag, name_server_on_host: self.name_server_on_host }
    }

    /// Settings of the kernel that others may change back.
    fn settings_are_right(&self) -> bool {
        let is = |setting: &str, wanted: &str| sysctl::get(setting).is_ok_and(|value| value == wanted);
        let loopback = if need_loopback(&self.forwards, &self.upstream) { "1" } else { "0" };
        is(FORWARDING, "1")
            && is(&of_bridge(&self.rules.bridge, "forwarding"), "1")
            && is(&of_bridge(&self.rules.bridge, "route_localnet"), loopback)
    }
}

impl Native {
    pub(super) fn nft(&self, cluster: &Cluster) -> Nft {
        Nft::in_root(&self.bundle_folder(&cluster.allocations.bundle).join("rootfs"))
    }

    pub(super) fn has_network_now(&self, cluster: &Cluster) -> Result<bool, NativeError> {
        let net = Net::here()?;
        let plan = self.plan_network(cluster, &net)?;
        let (names, links) = (&plan.names, net.links()?);
        let Some(bridge) = links.iter().find(|link| link.name == names.bridge()) else { return Ok(false) };
        let is_right = |link: &LinkInfo| link.up && link.belongs_to(&names.owner()) && link.mtu == plan.mtu;
        if !is_right(bridge) || ports_of(&links, bridge).any(|port| port.mtu != plan.mtu) {
            return Ok(false);
        }
        let address = host_address(cluster);
        if !net.addresses()?.iter().any(|has| has.link == names.bridge() && has.address == address) {
            return Ok(false);
        }
        let running = self.running(cluster)?;
        if !plan.settings_are_right() || !missing_ways(&net, &running, &names.bridge())?.is_empty() {
            return Ok(false);
        }
        let nft = self.nft(cluster);
        Ok(nft.has_host_table(&plan.rules)?
            && nft.is_let_pass(&plan.pass(&names.table()))?
            && self.has_ports(cluster, &plan.forwards)?)
    }

    pub(super) fn make_network(&self, cluster: &Cluster) -> Result<Changed, NativeError> {
        let net = Net::here()?;
        let plan = self.plan_network(cluster, &net)?;
        let (names, bridge) = (&plan.names, plan.names.bridge());
        sysctl::raise(FORWARDING, 1)?;
        net.ensure_bridge(&bridge, &names.owner(), host_address(cluster), plan.mtu)?;
        sysctl::set(&of_bridge(&bridge, "forwarding"), "1")?;
        let running = self.running(cluster)?;
        narrow(&net, &bridge, &running, plan.mtu)?;
        let nft = self.nft(cluster);
        nft.apply(&(nft::host_table(&plan.rules) + &nft::forward_table(&plan.forwards)))?;
        let_loopback_pass(&plan.forwards, &plan.upstream)?;
        nft.let_pass(&plan.pass(&names.table()))?;
        for node in missing_ways(&net, &running, &bridge)? {
            net.ensure_route(node.pod_range, node.address, &bridge)?;
        }
        Ok(Changed::Yes)
    }

    fn plan_network(&self, cluster: &Cluster, net: &Net) -> Result<Plan, NativeError> {
        let names = self.names(cluster.name());
        let upstream = Upstream::read()?;
        let name_servers = upstream.ways(cluster.gateway());
        let own: Vec<_> = net.addresses()?.into_iter().map(|address| address.address.addr()).collect();
        let is_own = |server: &std::net::Ipv4Addr| server.is_loopback() || own.contains(server);
        Ok(Plan {
            name_server_on_host: name_servers.iter().any(|(_, server)| is_own(server)),
            rules: HostRules {
                table: names.table(),
                bridge: names.bridge(),
                subnet: cluster.allocations.subnet,
                pod_subnet: cluster.allocations.pod_subnet,
                service_subnet: cluster.spec.network.service_subnet,
                name_servers,
                name_server_range: STAND_INS,
            },
            forwards: self.forwards(cluster),
            mtu: mtu(net, &names.bridge())?,
            upstream,
            names,
        })
    }

    /// The nodes that run, each with its PID 1.
    fn running(&self, cluster: &Cluster) -> Result<Vec<(Node, Process)>, NativeError> {
        let mut running = Vec::new();
        for node in cluster.nodes() {
            if let Some(init) = self.init(cluster.name(), &node.spec.name)? {
                running.push((node, init));
            }
        }
        Ok(running)
    }

    /// How large packets are that nodes and pods send.
    pub(super) fn mtu(&self, cluster: &Cluster) -> Result<u32, NativeError> {
        mtu(&Net::here()?, &self.names(cluster.name()).bridge())
    }
}

/// That of the way to the world, which may be a VPN's; without one, what the bridge has.
fn mtu(net: &Net, bridge: &str) -> Result<u32, NativeError> {
    let mtu = match net.mtu_to_world()? {
        Some(mtu) => mtu,
        None => net.find_link(bridge)?.map_or(LARGEST_MTU, |bridge| bridge.mtu),
    };
    Ok(mtu.clamp(SMALLEST_MTU, LARGEST_MTU))
}

/// Gives the ports of the bridge its MTU, and the nodes' ends of them: what is too large for a port is lost without a
/// word.
fn narrow(net: &Net, bridge: &str, running: &[(Node, Process)], mtu: u32) -> Result<(), NativeError> {
    let links = net.links()?;
    let Some(bridge) = links.iter().find(|link| link.name == bridge) else { return Ok(()) };
    for port in ports_of(&links, bridge).filter(|port| port.mtu != mtu) {
        net.ensure_mtu(&port.name, mtu)?;
    }
    for (node, init) in running {
        let failed = |source| NativeError::Connect { node: node.spec.name.clone(), source };
        let inside = Net::of_process(init).map_err(failed)?;
        // One that lost its link gets a new one when it is repaired.
        if inside.find_link(LINK).map_err(failed)?.is_some() {
            inside.ensure_mtu(LINK, mtu).map_err(failed)?;
        }
    }
    Ok(())
}

fn ports_of<'a>(links: &'a [LinkInfo], bridge: &LinkInfo) -> impl Iterator<Item = &'a LinkInfo> {
    let index = bridge.index;
    links.iter().filter(move |link| link.master == Some(index))
}

/// The nodes to whose pods the host knows no way: they are lost when the bridge goes down. One that leads elsewhere is
/// somebody else's.
fn missing_ways<'a>(
    net: &Net,
    running: &'a [(Node, Process)],
    bridge: &str,
) -> Result<Vec<&'a Node>, NativeError> {
    let routes = net.routes()?;
    let is_missing = |node: &&Node| {
        let way = RouteInfo { dst: node.pod_range, via: Some(node.address), link: Some(bridge.to_owned()) };
        let mut others = routes.iter().filter(|route| route.dst == way.dst);
        !routes.contains(&way) && !others.any(|route| route.link.as_deref() != Some(bridge))
    };
    Ok(running.iter().map(|(node, _)| node).filter(is_missing).collect())
}

/// All directories of bundles in a state directory, finished or not.
pub(super) fn bundles(home: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(home.join("bundles")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

/// The first nft of these bundles; the host's, if none has one.
pub(super) fn first_nft(mut bundles: impl Iterator<Item = PathBuf>) -> Nft {
    let root = bundles.find_map(|bundle| {
        let root = bundle.join("rootfs");
        root.join("usr/sbin/nft").exists().then_some(root)
    });
    root.map_or_else(Nft::on_host, |root| Nft::in_root(&root))
}

/// The path of a setting of the bridge.
fn of_bridge(bridge: &str, setting: &str) -> String {
    format!("net/ipv4/conf/{bridge}/{setting}")
}

/// The host's own address in the cluster's network.
fn host_address(cluster: &Cluster) -> Ipv4Net {
    Ipv4Net::new(cluster.gateway(), cluster.allocations.subnet.prefix_len())
        .expect("the prefix is that of a network")
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
