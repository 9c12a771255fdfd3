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
/// Settings of the whole host that are raised and stay so: docs/networking.md tells.
const RAISED: [(&str, u64); 3] = [
    ("net/ipv4/ip_forward", 1),
    // Each node needs some twenty; the usual 128 are used up by six nodes.
    ("fs/inotify/max_user_instances", 8192),
    ("fs/inotify/max_user_watches", 524_288),
];
/// The same for limits that only many nodes with many pods meet: where they cannot be raised, fewer fit.
const RAISED_IF_ALLOWED: [(&str, u64); 4] = [
    // The kernel has one table of neighbours for all nodes together: each has the others in it, and its pods twice. The
    // usual 1024 are used up by twelve nodes of 35 pods.
    ("net/ipv4/neigh/default/gc_thresh1", 4096),
    ("net/ipv4/neigh/default/gc_thresh2", 8192),
    ("net/ipv4/neigh/default/gc_thresh3", 16384),
    // A pod is some fifteen threads: twelve nodes of 110 pods come near the usual 32768.
    ("kernel/pid_max", 131_072),
];

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
        for (setting, value) in RAISED {
            sysctl::raise(setting, value)?;
        }
        for (setting, value) in RAISED_IF_ALLOWED {
            // A host inside another machine may not have them at all.
            let _ = sysctl::raise(setting, value);
        }
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
