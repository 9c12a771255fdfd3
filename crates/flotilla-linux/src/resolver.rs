//! Which name servers a node can ask, going by what the host asks.
//!
//! A node has no IPv6 and does not see the host's loopback link. So of the host's name servers only the IPv4 ones are
//! of use, and those on the loopback link only by way of the gateway.

use std::fmt::Write;
use std::fs;
use std::io;
use std::net::Ipv4Addr;

const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Where systemd-resolved says whom it asks itself; in `/etc/resolv.conf` it names only 127.0.0.53.
const SYSTEMD_RESOLV_CONF: &str = "/run/systemd/resolve/resolv.conf";

/// More than three are ignored by libc (resolv.conf(5)), and the kubelet complains of them.
const MAX_SERVERS: usize = 3;

/// The host's name servers could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {path}")]
pub struct ResolverError {
    path: &'static str,
    source: io::Error,
}

/// Whom the nodes ask for names of the world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Upstream {
    /// The same servers as the host, in its order.
    Servers(Vec<Ipv4Addr>),
    /// A server on the host's loopback link, to which questions to the gateway have to be led.
    ViaGateway(Ipv4Addr),
    /// The host has none, or only IPv6 ones, which nodes cannot reach.
    None,
}

impl Upstream {
    /// Goes by the host's files. A file that is not there counts as an empty one.
    pub fn read() -> Result<Self, ResolverError> {
        Ok(Self::of(&read(RESOLV_CONF)?, &read(SYSTEMD_RESOLV_CONF)?))
    }

    /// Goes by the texts of `/etc/resolv.conf` and of systemd-resolved's own file, which may be empty.
    pub fn of(resolv_conf: &str, systemd_resolv_conf: &str) -> Self {
        let in_reach = |text| -> Vec<_> {
            servers(text).filter(|server| !is_local(*server)).take(MAX_SERVERS).collect()
        };
        for text in [resolv_conf, systemd_resolv_conf] {
            let found = in_reach(text);
            if !found.is_empty() {
                return Self::Servers(found);
            }
        }
        // All that are left are local. 0.0.0.0 means this host as well, but nothing can be led there.
        let local = servers(resolv_conf).next();
        let address = |server: Ipv4Addr| if server.is_unspecified() { Ipv4Addr::LOCALHOST } else { server };
        local.map_or(Self::None, |server| Self::ViaGateway(address(server)))
    }

    /// The text of a node's resolv.conf.
    ///
    /// Names the gateway even where nobody answers there: without a server, the cluster's own one dies at its start.
    pub fn render(&self, gateway: Ipv4Addr) -> String {
        let servers = match self {
            Self::Servers(servers) => servers.as_slice(),
            Self::ViaGateway(_) | Self::None => &[gateway],
        };
        servers.iter().fold(String::new(), |mut text, server| {
            writeln!(text, "nameserver {server}").expect("writing to a string does not fail");
            text
        })
    }
}

fn read(path: &'static str) -> Result<String, ResolverError> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(|source| ResolverError { path, source }),
    }
}

/// The IPv4 name servers of a resolv.conf.
fn servers(text: &str) -> impl Iterator<Item = Ipv4Addr> {
    text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("nameserver")).then_some(())?;
        words.next()?.parse().ok()
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

    #[test]
    fn servers_in_reach_are_taken_as_they_are() {
        let text = "search lan\nnameserver 192.168.1.1\n nameserver\t8.8.8.8 # spare\nnameserver 127.0.0.1\n";
        let upstream = Upstream::of(text, "nameserver 9.9.9.9\n");
        assert_eq!(upstream, Upstream::Servers(vec![address("192.168.1.1"), address("8.8.8.8")]));
        assert_eq!(upstream.render(GATEWAY), "nameserver 192.168.1.1\nnameserver 8.8.8.8\n");
    }

    #[test]
    fn behind_a_local_server_those_it_asks_are_taken() {
        let upstream = Upstream::of(STUB, "nameserver fe80::1%eth0\nnameserver 192.168.1.1\n");
        assert_eq!(upstream, Upstream::Servers(vec![address("192.168.1.1")]));
    }

    #[test]
    fn a_local_server_that_tells_nothing_is_reached_through_the_gateway() {
        let upstream = Upstream::of("nameserver 127.0.0.1\n", "");
        assert_eq!(upstream, Upstream::ViaGateway(Ipv4Addr::LOCALHOST));
        assert_eq!(upstream.render(GATEWAY), "nameserver 10.89.0.1\n");
        assert_eq!(Upstream::of("nameserver 0.0.0.0\n", ""), Upstream::ViaGateway(Ipv4Addr::LOCALHOST));
        assert_eq!(Upstream::of(STUB, STUB), Upstream::ViaGateway(address("127.0.0.53")));
    }

    #[test]
    fn without_a_server_the_file_is_not_empty() {
        for text in ["", "#nameserver 8.8.8.8\nnameserver\n", "nameserver 2001:db8::53\nnameserver ::1\n"] {
            assert_eq!(Upstream::of(text, ""), Upstream::None);
        }
        assert_eq!(Upstream::None.render(GATEWAY), "nameserver 10.89.0.1\n");
    }

    #[test]
    fn no_more_servers_are_taken_than_libc_asks() {
        let text = "nameserver 1.1.1.1\n".repeat(5);
        assert_eq!(Upstream::of(&text, ""), Upstream::Servers(vec![address("1.1.1.1"); MAX_SERVERS]));
    }
}
