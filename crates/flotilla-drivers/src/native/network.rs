//! A cluster's network on the host: a bridge, the way out, the way to a name server.

use std::collections::BTreeMap;

use flotilla_engine::Cluster;
use flotilla_engine::port::{Changed, Subnet};
use flotilla_linux::net::Net;
use flotilla_linux::nft::{self, HostRules, Nft};
use flotilla_linux::resolver::Upstream;
use flotilla_linux::sysctl;
use ipnet::Ipv4Net;

use super::Native;
use super::error::NativeError;
use super::names::Names;
use super::ports::let_loopback_pass;

pub(super) const MTU: u32 = 1500;
impl Native {
    pub(super) fn nft(&self, cluster: &Cluster) -> Nft {
        Nft::in_root(&self.bundle_folder(&cluster.handed_out.bundle).join("rootfs"))
    }

    pub(super) fn has_network_now(&self, cluster: &Cluster) -> Result<bool, NativeError> {
        let names = self.names(cluster.name());
        let net = Net::here()?;
        let bridge = net.find_link(&names.bridge())?;
        if !bridge.is_some_and(|link| link.up && link.belongs_to(&names.owner())) {
            return Ok(false);
        }
        let address = host_address(cluster);
        if !net.addresses()?.iter().any(|has| has.link == names.bridge() && has.address == address) {
            return Ok(false);
        }
        let nft = self.nft(cluster);
        Ok(nft.table_exists("ip", &names.table())?
            && nft.is_accepted_everywhere(&names.table())?
            && self.has_ports(cluster, &self.forwards(cluster))?)
    }

    pub(super) fn make_network(&self, cluster: &Cluster) -> Result<Changed, NativeError> {
        let names = self.names(cluster.name());
        let bridge = names.bridge();
        sysctl::raise("net/ipv4/ip_forward", 1)?;
        let net = Net::here()?;
        net.ensure_bridge(&bridge, &names.owner(), host_address(cluster), MTU)?;
        let upstream = Upstream::read()?;
        let loopback_resolver = match upstream {
            Upstream::ViaGateway(server) => Some(server),
            _ => None,
        };
        let nft = self.nft(cluster);
        let table = nft::host_table(&HostRules {
            table: names.table(),
            bridge: bridge.clone(),
            subnet: cluster.handed_out.subnet,
            pod_subnet: cluster.handed_out.pod_subnet,
            service_subnet: cluster.spec.network.service_subnet,
            gateway: cluster.gateway(),
            loopback_resolver,
        });
        let forwards = self.forwards(cluster);
        nft.apply(&(table + &nft::forward_table(&forwards)))?;
        let_loopback_pass(&forwards, &upstream)?;
        for chain in nft.list_forward_drops()? {
            nft.accept_in(&chain, &bridge, &names.table())?;
        }
        Ok(Changed::Yes)
    }
}

/// The host's own address in the cluster's network.
fn host_address(cluster: &Cluster) -> Ipv4Net {
    Ipv4Net::new(cluster.gateway(), cluster.handed_out.subnet.prefix_len())
        .expect("the prefix is that of a network")
}

/// The ranges that somebody else on this host uses, each once.
pub(super) fn in_use(except: &Names) -> Result<Vec<Subnet>, NativeError> {
    let net = Net::here()?;
    let links = net.links()?;
    let ours = |name: &str| links.iter().any(|link| link.name == name && link.belongs_to(&except.owner()));
    let mut ranges = BTreeMap::new();
    for address in net.addresses()? {
        if !ours(&address.link) {
            ranges.insert(address.address.trunc(), format!("the link {}", address.link));
        }
    }
    for route in net.routes()? {
        let link = route.link.unwrap_or_default();
        if !ours(&link) && route.dst.prefix_len() > 0 {
            ranges.entry(route.dst).or_insert_with(|| format!("the route to {} by {link}", route.dst));
        }
    }
    // Ours by name, whoever's cluster it is: said so that people know which.
    let who = |user: String| {
        let alias =
            links.iter().find(|link| user == format!("the link {}", link.name)).map(|link| &link.alias);
        let cluster = alias.and_then(|alias| alias.strip_prefix("flotilla/")?.split('/').nth(1));
        cluster.map_or(user.clone(), |cluster| format!("the cluster {cluster}"))
    };
    Ok(ranges.into_iter().map(|(range, user)| Subnet { range, user: who(user) }).collect())
}
