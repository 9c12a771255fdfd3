//! The table of a cluster's ports on the host.

use std::fmt::{self, Write};
use std::net::{Ipv4Addr, SocketAddrV4};

use ipnet::Ipv4Net;

use super::tables::{deletion, replaced, write_loopback_guard};

/// A port of the host's that leads to a node's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forward {
    /// One of the host's addresses; `0.0.0.0` is all of them.
    pub address: Ipv4Addr,
    pub port: u16,
    /// `tcp` or `udp`, as nft calls it.
    pub protocol: String,
    pub to: SocketAddrV4,
    /// The comment of its rules, by which [`super::Nft::list_own_comments`] tells of it: not more than 127 letters, no
    /// quotes.
    pub comment: String,
}

/// The ports of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwards {
    /// The table's name: `flotilla-ID-ports`.
    pub table: String,
    pub bridge: String,
    /// Where nodes and pods are. Who connects from there sees the host as the other side, since answers from one node to
    /// another would not come by the host.
    pub inside: Vec<Ipv4Net>,
    pub ports: Vec<Forward>,
}

impl Forward {
    /// Whether packets from the loopback link go this way.
    fn serves_loopback(&self) -> bool {
        self.address.is_loopback() || self.address.is_unspecified()
    }

    /// What packets it is for, and where they go.
    fn rule(&self) -> String {
        let Self { address, port, protocol, to, comment } = self;
        // Only what is for the host itself: an address that the host lost is somebody else's.
        let which = match address {
            address if address.is_loopback() => format!("ip daddr {address}"),
            address if address.is_unspecified() => "fib daddr type local".to_owned(),
            address => format!("ip daddr {address} fib daddr type local"),
        };
        format!("        {which} {protocol} dport {port} dnat to {to} comment \"{comment}\"")
    }
}

impl Forwards {
    /// Whether `net/ipv4/conf/BRIDGE/route_localnet` has to be 1. The table has what guards the loopback link then.
    pub fn need_route_localnet(&self) -> bool {
        self.ports.iter().any(Forward::serves_loopback)
    }
}

/// The host's table of a cluster's ports; without any, what deletes the table.
pub fn forward_table(forwards: &Forwards) -> String {
    let Forwards { table, bridge, inside, ports } = forwards;
    if ports.is_empty() {
        return deletion("ip", table);
    }
    replaced("ip", table, |text| {
        if forwards.need_route_localnet() {
            write_loopback_guard(text, bridge)?;
        }
        // The loopback link's own ports are not for packets from elsewhere.
        let from_outside = ports.iter().filter(|forward| !forward.address.is_loopback());
        write_chain(text, "prerouting", "dstnat", from_outside)?;
        write_chain(text, "output", "-100", ports.iter())?;
        writeln!(text, "    chain postrouting {{")?;
        writeln!(text, "        type nat hook postrouting priority srcnat; policy accept;")?;
        let loopback = Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8);
        for source in [&loopback].into_iter().chain(inside) {
            let source = source.trunc();
            writeln!(text, "        oifname \"{bridge}\" ip saddr {source} ct status dnat masquerade")?;
        }
        writeln!(text, "    }}")
    })
}

fn write_chain<'a>(
    text: &mut String,
    hook: &str,
    priority: &str,
    ports: impl Iterator<Item = &'a Forward>,
) -> fmt::Result {
    writeln!(text, "    chain {hook} {{")?;
    writeln!(text, "        type nat hook {hook} priority {priority}; policy accept;")?;
    for forward in ports {
        writeln!(text, "{}", forward.rule())?;
    }
    writeln!(text, "    }}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forward(address: [u8; 4], port: u16, protocol: &str) -> Forward {
        Forward {
            address: address.into(),
            port,
            protocol: protocol.to_owned(),
            to: SocketAddrV4::new(Ipv4Addr::new(10, 89, 0, 2), 30080),
            comment: format!("{port} for demo"),
        }
    }

    fn forwards(ports: Vec<Forward>) -> Forwards {
        Forwards {
            table: "flotilla-demo-ports".to_owned(),
            bridge: "fl-demo".to_owned(),
            inside: vec!["10.89.0.1/24".parse().unwrap()],
            ports,
        }
    }

    #[test]
    fn the_loopback_link_s_ports_are_for_the_host_s_own_programs_alone() {
        let forwards = forwards(vec![forward([127, 0, 0, 1], 8080, "tcp")]);
        assert!(forwards.need_route_localnet());
        insta::assert_snapshot!(forward_table(&forwards), @r#"
        table ip flotilla-demo-ports
        delete table ip flotilla-demo-ports
        table ip flotilla-demo-ports {
            chain guard {
                type filter hook prerouting priority raw; policy accept;
                iifname "fl-demo" ip daddr 127.0.0.0/8 drop
                iifname "fl-demo" ip saddr 127.0.0.0/8 drop
            }
            chain prerouting {
                type nat hook prerouting priority dstnat; policy accept;
            }
            chain output {
                type nat hook output priority -100; policy accept;
                ip daddr 127.0.0.1 tcp dport 8080 dnat to 10.89.0.2:30080 comment "8080 for demo"
            }
            chain postrouting {
                type nat hook postrouting priority srcnat; policy accept;
                oifname "fl-demo" ip saddr 127.0.0.0/8 ct status dnat masquerade
                oifname "fl-demo" ip saddr 10.89.0.0/24 ct status dnat masquerade
            }
        }
        "#);
    }

    #[test]
    fn ports_of_other_addresses_are_open_to_all_who_reach_the_host() {
        let one = forwards(vec![forward([192, 0, 2, 1], 8080, "tcp")]);
        assert!(!one.need_route_localnet());
        let text = forward_table(&one);
        let rule = "ip daddr 192.0.2.1 fib daddr type local tcp dport 8080 dnat to 10.89.0.2:30080";
        assert_eq!(text.matches(rule).count(), 2, "{text}");
        assert!(!text.contains("guard"), "{text}");
        let all = forwards(vec![forward([0, 0, 0, 0], 53, "udp")]);
        assert!(all.need_route_localnet());
        let text = forward_table(&all);
        let rule = "        fib daddr type local udp dport 53 dnat to 10.89.0.2:30080";
        assert_eq!(text.matches(rule).count(), 2, "{text}");
    }

    #[test]
    fn without_ports_there_is_no_table() {
        let text = forward_table(&forwards(Vec::new()));
        assert_eq!(text, "table ip flotilla-demo-ports\ndelete table ip flotilla-demo-ports\n");
    }
}
