//! The text of our own tables.
//!
//! Each replaces the table of its name in one go: it makes the table, so that the deletion finds one, deletes it, and
//! makes it again with its rules. nft applies a text as a whole or not at all.

use std::fmt::{self, Write};
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

/// What a cluster needs of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRules {
    /// The table's name: `flotilla-ID`.
    pub table: String,
    pub bridge: String,
    /// Where the nodes are.
    pub subnet: Ipv4Net,
    /// Where the pods of all nodes are.
    pub pod_subnet: Ipv4Net,
    /// Where the services are. No packet for it is to leave the cluster: one that does has not been translated yet, and
    /// somebody else would answer it.
    pub service_subnet: Ipv4Net,
    /// The bridge's own address.
    pub gateway: Ipv4Addr,
    /// The host's name server on its loopback link, which then answers at the gateway.
    ///
    /// For that the kernel has to let such packets pass: `net/ipv4/conf/BRIDGE/route_localnet` is 1. A server that
    /// listens on the loopback link alone, as systemd-resolved does, still does not hear them.
    pub loopback_resolver: Option<Ipv4Addr>,
}

/// What a node does with the packets of its pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRules {
    /// Where the pods of this node are.
    pub pod_range: Ipv4Net,
    /// Whoever is there sees the pods' own addresses; all others see the node's.
    pub no_masquerade: Vec<Ipv4Net>,
}

/// The host's table of a cluster: the way out, what must not take it, and the way to the host's name server.
///
/// It has no chain that accepts forwarded packets, because it would have no effect: what no table drops is accepted
/// anyway, and what another table drops is dropped ([`super::Nft::accept_in`]).
pub fn host_table(rules: &HostRules) -> String {
    let HostRules { table, bridge, subnet, pod_subnet, service_subnet, gateway, loopback_resolver } = rules;
    replaced(table, |text| {
        writeln!(text, "    chain postrouting {{")?;
        writeln!(text, "        type nat hook postrouting priority srcnat; policy accept;")?;
        for source in [subnet.trunc(), pod_subnet.trunc()] {
            writeln!(text, "        ip saddr {source} oifname != \"{bridge}\" masquerade")?;
        }
        writeln!(text, "    }}")?;
        writeln!(text, "    chain forward {{")?;
        writeln!(text, "        type filter hook forward priority filter; policy accept;")?;
        let services = service_subnet.trunc();
        writeln!(
            text,
            "        iifname \"{bridge}\" ip daddr {services} reject with icmp type admin-prohibited"
        )?;
        writeln!(text, "    }}")?;
        let Some(resolver) = loopback_resolver else { return Ok(()) };
        write_loopback_guard(text, bridge)?;
        writeln!(text, "    chain prerouting {{")?;
        writeln!(text, "        type nat hook prerouting priority dstnat; policy accept;")?;
        for protocol in ["udp", "tcp"] {
            writeln!(
                text,
                "        iifname \"{bridge}\" ip daddr {gateway} {protocol} dport 53 dnat to {resolver}"
            )?;
        }
        writeln!(text, "    }}")
    })
}

/// A node's table: pods leave the cluster by the node's address.
pub fn node_table(rules: &NodeRules) -> String {
    replaced("flotilla", |text| {
        writeln!(text, "    chain postrouting {{")?;
        writeln!(text, "        type nat hook postrouting priority srcnat; policy accept;")?;
        writeln!(text, "        ip saddr != {} return", rules.pod_range.trunc())?;
        // One by one, because in a set no two may overlap.
        for network in &rules.no_masquerade {
            writeln!(text, "        ip daddr {} return", network.trunc())?;
        }
        writeln!(text, "        masquerade")?;
        writeln!(text, "    }}")
    })
}

/// Refuses packets from or for the loopback link that come from a bridge: with `route_localnet` the kernel itself no
/// longer does.
pub(super) fn write_loopback_guard(text: &mut String, bridge: &str) -> fmt::Result {
    writeln!(text, "    chain guard {{")?;
    writeln!(text, "        type filter hook prerouting priority raw; policy accept;")?;
    for side in ["daddr", "saddr"] {
        writeln!(text, "        iifname \"{bridge}\" ip {side} 127.0.0.0/8 drop")?;
    }
    writeln!(text, "    }}")
}

/// What deletes a table, whether it is there or not.
pub(super) fn deletion(family: &str, name: &str) -> String {
    format!("table {family} {name}\ndelete table {family} {name}\n")
}

pub(super) fn replaced(name: &str, write_chains: impl FnOnce(&mut String) -> fmt::Result) -> String {
    let mut text = deletion("ip", name);
    let write = || {
        writeln!(text, "table ip {name} {{")?;
        write_chains(&mut text)?;
        writeln!(text, "}}")
    };
    write().expect("writing to a string does not fail");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> Ipv4Net {
        text.parse().unwrap()
    }

    fn host_rules(loopback_resolver: Option<Ipv4Addr>) -> HostRules {
        HostRules {
            table: "flotilla-demo".to_owned(),
            bridge: "fl-demo".to_owned(),
            subnet: net("10.89.0.1/24"),
            pod_subnet: net("10.244.0.0/16"),
            service_subnet: net("10.96.0.0/12"),
            gateway: Ipv4Addr::new(10, 89, 0, 1),
            loopback_resolver,
        }
    }

    #[test]
    fn the_host_masquerades_what_leaves_the_bridge() {
        insta::assert_snapshot!(host_table(&host_rules(None)), @r#"
        table ip flotilla-demo
        delete table ip flotilla-demo
        table ip flotilla-demo {
            chain postrouting {
                type nat hook postrouting priority srcnat; policy accept;
                ip saddr 10.89.0.0/24 oifname != "fl-demo" masquerade
                ip saddr 10.244.0.0/16 oifname != "fl-demo" masquerade
            }
            chain forward {
                type filter hook forward priority filter; policy accept;
                iifname "fl-demo" ip daddr 10.96.0.0/12 reject with icmp type admin-prohibited
            }
        }
        "#);
    }

    #[test]
    fn a_resolver_on_the_loopback_link_is_reached_at_the_gateway_alone() {
        insta::assert_snapshot!(host_table(&host_rules(Some(Ipv4Addr::LOCALHOST))), @r#"
        table ip flotilla-demo
        delete table ip flotilla-demo
        table ip flotilla-demo {
            chain postrouting {
                type nat hook postrouting priority srcnat; policy accept;
                ip saddr 10.89.0.0/24 oifname != "fl-demo" masquerade
                ip saddr 10.244.0.0/16 oifname != "fl-demo" masquerade
            }
            chain forward {
                type filter hook forward priority filter; policy accept;
                iifname "fl-demo" ip daddr 10.96.0.0/12 reject with icmp type admin-prohibited
            }
            chain guard {
                type filter hook prerouting priority raw; policy accept;
                iifname "fl-demo" ip daddr 127.0.0.0/8 drop
                iifname "fl-demo" ip saddr 127.0.0.0/8 drop
            }
            chain prerouting {
                type nat hook prerouting priority dstnat; policy accept;
                iifname "fl-demo" ip daddr 10.89.0.1 udp dport 53 dnat to 127.0.0.1
                iifname "fl-demo" ip daddr 10.89.0.1 tcp dport 53 dnat to 127.0.0.1
            }
        }
        "#);
    }

    #[test]
    fn pods_leave_by_the_address_of_their_node() {
        let no_masquerade = vec![net("10.244.0.0/16"), net("10.89.0.0/24")];
        insta::assert_snapshot!(node_table(&NodeRules { pod_range: net("10.244.1.0/24"), no_masquerade }), @r"
        table ip flotilla
        delete table ip flotilla
        table ip flotilla {
            chain postrouting {
                type nat hook postrouting priority srcnat; policy accept;
                ip saddr != 10.244.1.0/24 return
                ip daddr 10.244.0.0/16 return
                ip daddr 10.89.0.0/24 return
                masquerade
            }
        }
        ");
    }
}
