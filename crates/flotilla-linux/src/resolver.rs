//! Which name servers a node can ask, going by what the host asks.
//!
//! A node asks addresses that never change ([`asked_by_nodes`]); packet rules of the host lead its questions to the
//! servers that the host has at present ([`Upstream::ways`]). So a laptop can change its network while nodes and
//! their pods run: nothing in them has to be changed, only the rules.
//!
//! A node has no IPv6 and does not see the host's loopback link. So of the host's name servers only the IPv4 ones are
//! of use, and those on the loopback link only if they hear packets that come by another link.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::Ipv4Net;

const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Where systemd-resolved lists the servers that it asks; in `/etc/resolv.conf` it names only 127.0.0.53.
const SYSTEMD_RESOLV_CONF: &str = "/run/systemd/resolve/resolv.conf";

/// Where systemd-resolved listens. Its sockets are bound to the loopback link: they hear nothing that a rule leads there
/// from another link.
const SYSTEMD_STUBS: [Ipv4Addr; 2] = [Ipv4Addr::new(127, 0, 0, 53), Ipv4Addr::new(127, 0, 0, 54)];

/// More than three are ignored by libc (resolv.conf(5)), and the kubelet complains of them.
const MAX_SERVERS: usize = 3;

/// Where the addresses are that stand for the host's second and third server. Packets for them come to the host, since
/// it is the nodes' gateway, and no route leads to them.
pub const STAND_INS: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(169, 254, 53, 0), 24);

/// The host's name servers could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {path}")]
pub struct ResolverError {
    path: &'static str,
    source: io::Error,
}

/// Whom the nodes' questions for names of the world are led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Upstream {
    /// The same servers as the host, in its order.
    Servers(Vec<Ipv4Addr>),
    /// A server on the host's loopback link.
    Loopback(Ipv4Addr),
    /// Nobody.
    None(NoServer),
}

/// Why none of the host's name servers is of use to nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoServer {
    /// The host has none.
    Unnamed,
    /// All have IPv6 addresses, which nodes cannot reach.
    OnlyIpv6,
    /// systemd-resolved answers the host alone, and none of the servers that it asks has an IPv4 address.
    BehindSystemd,
}

/// The addresses that nodes ask, in this order.
pub fn asked_by_nodes(gateway: Ipv4Addr) -> [Ipv4Addr; MAX_SERVERS] {
    let [a, b, c, _] = STAND_INS.network().octets();
    [gateway, Ipv4Addr::new(a, b, c, 2), Ipv4Addr::new(a, b, c, 3)]
}

impl Upstream {
    /// Goes by the host's files. A file that does not exist counts as an empty one.
    pub fn read() -> Result<Self, ResolverError> {
        Ok(Self::of(&read(RESOLV_CONF)?, &read(SYSTEMD_RESOLV_CONF)?))
    }

    /// Goes by the texts of `/etc/resolv.conf` and of systemd-resolved's own file, which may be empty.
    pub fn of(resolv_conf: &str, systemd_resolv_conf: &str) -> Self {
        let in_reach = |text| {
            let mut found = Vec::new();
            for server in ipv4_servers(text).filter(|server| !is_local(*server)) {
                if !found.contains(&server) && found.len() < MAX_SERVERS {
                    found.push(server);
                }
            }
            found
        };
        for text in [resolv_conf, systemd_resolv_conf] {
            let found = in_reach(text);
            if !found.is_empty() {
                return Self::Servers(found);
            }
        }
        // All that are left are local or have IPv6 addresses.
        let mut local = ipv4_servers(resolv_conf);
        match local.find(|server| !SYSTEMD_STUBS.contains(server)) {
            // 0.0.0.0 means this host as well, but nothing can be led there.
            Some(server) if server.is_unspecified() => Self::Loopback(Ipv4Addr::LOCALHOST),
            Some(server) => Self::Loopback(server),
            None if ipv4_servers(resolv_conf).next().is_some() => Self::None(NoServer::BehindSystemd),
            None if servers(resolv_conf).next().is_some() => Self::None(NoServer::OnlyIpv6),
            None => Self::None(NoServer::Unnamed),
        }
    }

    /// Which server answers at each of the addresses that nodes ask. A host with fewer servers has one answer at several.
    pub fn ways(&self, gateway: Ipv4Addr) -> Vec<(Ipv4Addr, Ipv4Addr)> {
        let servers = match self {
            Self::Servers(servers) => servers.as_slice(),
            Self::Loopback(server) => std::slice::from_ref(server),
            Self::None(_) => &[],
        };
        asked_by_nodes(gateway).into_iter().zip(servers.iter().copied().cycle()).collect()
    }
}

fn read(path: &'static str) -> Result<String, ResolverError> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(|source| ResolverError { path, source }),
    }
}

/// The name servers of a resolv.conf.
fn servers(text: &str) -> impl Iterator<Item = IpAddr> {
    text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("nameserver")).then_some(())?;
        // The link that a link-local address is on comes after it.
        words.next()?.split('%').next()?.parse().ok()
    })
}

fn ipv4_servers(text: &str) -> impl Iterator<Item = Ipv4Addr> {
    servers(text).filter_map(|server| match server {
        IpAddr::V4(server) => Some(server),
        IpAddr::V6(_) => None,
    })
}

fn is_local(server: Ipv4Addr) -> bool {
    server.is_loopback() || server.is_unspecified()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 89, 0, 1);
    const STUB: &str = "# by systemd-resolved\nnameserver 127.0.0.53\noptions edns0 trust-ad\nsearch lan\n";

    fn address(text: &str) -> Ipv4Addr {
        text.parse().unwrap()
    }

    /// The servers that are asked in the end, one after the other.
    fn asked(upstream: &Upstream) -> Vec<String> {
        upstream.ways(GATEWAY).into_iter().map(|(_, server)| server.to_string()).collect()
    }

    #[test]
    fn servers_in_reach_are_taken_as_they_are() {
        let text = "search lan\nnameserver 192.168.1.1\n nameserver\t8.8.8.8 # spare\nnameserver 127.0.0.1\n";
        let upstream = Upstream::of(text, "nameserver 9.9.9.9\n");
        assert_eq!(upstream, Upstream::Servers(vec![address("192.168.1.1"), address("8.8.8.8")]));
        assert_eq!(asked(&upstream), ["192.168.1.1", "8.8.8.8", "192.168.1.1"]);
    }

    #[test]
    fn behind_a_local_server_those_it_asks_are_taken() {
        let upstream = Upstream::of(STUB, "nameserver fe80::1%eth0\nnameserver 192.168.1.1\n");
        assert_eq!(upstream, Upstream::Servers(vec![address("192.168.1.1")]));
    }

    #[test]
    fn a_local_server_that_tells_nothing_is_asked_itself() {
        let upstream = Upstream::of("nameserver 127.0.0.1\n", "");
        assert_eq!(upstream, Upstream::Loopback(Ipv4Addr::LOCALHOST));
        assert_eq!(asked(&upstream), ["127.0.0.1"; 3]);
        assert_eq!(Upstream::of("nameserver 0.0.0.0\n", ""), Upstream::Loopback(Ipv4Addr::LOCALHOST));
    }

    #[test]
    fn systemd_resolved_answers_nodes_only_by_the_servers_behind_it() {
        for behind in ["", STUB, "nameserver fe80::1%eth0\nnameserver 2001:db8::53\n"] {
            let upstream = Upstream::of(STUB, behind);
            assert_eq!(upstream, Upstream::None(NoServer::BehindSystemd), "{behind}");
            assert_eq!(upstream.ways(GATEWAY), []);
        }
    }

    #[test]
    fn without_a_server_the_reason_is_told() {
        for text in ["", "#nameserver 8.8.8.8\nnameserver\n"] {
            assert_eq!(Upstream::of(text, ""), Upstream::None(NoServer::Unnamed));
        }
        for text in ["nameserver 2001:db8::53\nnameserver ::1\n", "nameserver fe80::1%eth0\n"] {
            assert_eq!(Upstream::of(text, ""), Upstream::None(NoServer::OnlyIpv6), "{text}");
        }
    }

    #[test]
    fn what_nodes_ask_does_not_depend_on_the_host() {
        let asked = asked_by_nodes(GATEWAY).map(|address| address.to_string());
        assert_eq!(asked, ["10.89.0.1", "169.254.53.2", "169.254.53.3"]);
    }

    #[test]
    fn no_more_servers_are_taken_than_libc_asks_and_each_once() {
        let text: String = (1..6).map(|last| format!("nameserver 1.1.1.{last}\n").repeat(2)).collect();
        assert_eq!(asked(&Upstream::of(&text, "")), ["1.1.1.1", "1.1.1.2", "1.1.1.3"]);
    }
}
