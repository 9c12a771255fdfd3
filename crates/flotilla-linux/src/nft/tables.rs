//! The text of our own tables.
//!
//! Each replaces the table of its name in one go: it makes the table, so that the deletion finds one, deletes it, and
//! makes it again with its rules. nft applies a text as a whole or not at all.

use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

/// What a cluster needs of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRules {
    /// The table's name: `flotilla-ID`.
    pub table: String,
    pub bridge: String,
    /// The host's own address on the bridge. It has no other one for nodes and pods.
    pub gateway: Ipv4Addr,
    /// Where the nodes are.
    pub subnet: Ipv4Net,
    /// Where the pods of all nodes are.
    pub pod_subnet: Ipv4Net,
    /// Where the services are. No packet for it is to leave the cluster: one that does has not been translated yet, and
    /// somebody else would answer it.
    pub service_subnet: Ipv4Net,
    /// Addresses that nodes ask for names, each with the server of the host's that answers there at present. A server on
    /// the loopback link works only if `net/ipv4/conf/BRIDGE/route_localnet` is 1.
    pub name_servers: Vec<(Ipv4Addr, Ipv4Addr)>,
    /// Placeholder addresses of name servers: a packet that is not forwarded to a real server must not leave the host.
    pub name_server_range: Ipv4Net,
}

/// The host's table of a cluster: the way out, the way in and who must not take it, the way to the host itself and to its
/// name servers.
///
/// No chain of it can overrule those of others: what another table drops is dropped ([`super::Nft::let_pass`]).
///
/// One rule has a comment that follows from the text of all, by which [`super::Nft::has_host_table`] sees whether the
/// kernel has these rules or others.
pub fn host_table(rules: &HostRules) -> String {
    write_host_table(rules, &fingerprint(rules))
}

/// What the comment of a rule in [`host_table`] says. It may differ between builds of Flotilla: then the table is
/// written again, which does no harm.
pub(super) fn fingerprint(rules: &HostRules) -> String {
    fingerprint_of(&write_host_table(rules, ""))
}

/// A comment that follows from the text of a table.
pub(super) fn fingerprint_of(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("rules {:016x}", hasher.finish())
}

/// How many rules the text of a table has.
pub(super) fn count_rules(text: &str) -> usize {
    let inside = text.lines().filter_map(|line| line.strip_prefix("        "));
    inside.filter(|line| !line.starts_with("type ")).count()
}

fn write_host_table(rules: &HostRules, fingerprint: &str) -> String {
    let HostRules { table, bridge, subnet, pod_subnet, name_servers, .. } = rules;
    replaced("ip", table, |text| {
        writeln!(text, "    chain postrouting {{")?;
        writeln!(text, "        type nat hook postrouting priority srcnat; policy accept;")?;
        for source in [subnet.trunc(), pod_subnet.trunc()] {
            writeln!(text, "        ip saddr {source} oifname != \"{bridge}\" masquerade")?;
        }
        writeln!(text, "    }}")?;
        write_forward_chain(text, rules, fingerprint)?;
        write_input_chain(text, rules)?;
        if name_servers.is_empty() {
            return Ok(());
        }
        if name_servers.iter().any(|(_, server)| server.is_loopback()) {
            write_loopback_guard(text, bridge)?;
        }
        writeln!(text, "    chain prerouting {{")?;
        writeln!(text, "        type nat hook prerouting priority dstnat; policy accept;")?;
        for (asked, server) in name_servers {
            for protocol in ["udp", "tcp"] {
                writeln!(
                    text,
                    "        iifname \"{bridge}\" ip daddr {asked} {protocol} dport 53 dnat to {server}"
                )?;
            }
        }
        writeln!(text, "    }}")
    })
}

fn write_forward_chain(text: &mut String, rules: &HostRules, fingerprint: &str) -> fmt::Result {
    let HostRules { bridge, service_subnet, name_server_range, .. } = rules;
    writeln!(text, "    chain forward {{")?;
    writeln!(text, "        type filter hook forward priority filter; policy accept;")?;
    // Before anything is accepted: the answer to a SYN belongs to an established connection. Many VPNs lose the
    // messages by which hosts would learn that their packets are too large.
    for side in ["iifname", "oifname"] {
        writeln!(text, "        {side} \"{bridge}\" tcp flags syn tcp option maxseg size set rt mtu")?;
    }
    writeln!(text, "        ct state established,related accept comment \"{fingerprint}\"")?;
    // Led by rules of ours: to a name server, or by a port of the host to a node.
    writeln!(text, "        ct status dnat accept")?;
    for range in [service_subnet, name_server_range] {
        let range = range.trunc();
        writeln!(
            text,
            "        iifname \"{bridge}\" ip daddr {range} reject with icmp type admin-prohibited"
        )?;
    }
    // The host forwards because the cluster needs a way out: that is no way in for the host's neighbours.
    writeln!(text, "        iifname != \"{bridge}\" oifname \"{bridge}\" drop")?;
    writeln!(text, "    }}")
}

/// Lets nodes and pods reach the host at its address in their network, and at no other: a program that listens on all
/// addresses of the host is meant for other networks as well. What is sent to everybody is not for the host at all.
fn write_input_chain(text: &mut String, rules: &HostRules) -> fmt::Result {
    let HostRules { bridge, gateway, .. } = rules;
    writeln!(text, "    chain input {{")?;
    writeln!(text, "        type filter hook input priority filter; policy accept;")?;
    writeln!(text, "        iifname \"{bridge}\" ct state established,related accept")?;
    // Led by rules of ours to a name server on the host.
    writeln!(text, "        iifname \"{bridge}\" ct status dnat accept")?;
    writeln!(text, "        iifname \"{bridge}\" meta pkttype != host drop")?;
    writeln!(
        text,
        "        iifname \"{bridge}\" ip daddr != {gateway} reject with icmp type admin-prohibited"
    )?;
    writeln!(text, "    }}")
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

/// Commands that delete a table, whether it exists or not.
pub(super) fn deletion(family: &str, name: &str) -> String {
    format!("table {family} {name}\ndelete table {family} {name}\n")
}

pub(super) fn replaced(
    family: &str,
    name: &str,
    write_chains: impl FnOnce(&mut String) -> fmt::Result,
) -> String {
    let mut text = deletion(family, name);
    let write = || {
        writeln!(text, "table {family} {name} {{")?;
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

    fn host_rules(name_server: Option<Ipv4Addr>) -> HostRules {
        HostRules {
            table: "flotilla-demo".to_owned(),
            bridge: "fl-demo".to_owned(),
            gateway: Ipv4Addr::new(10, 89, 0, 1),
            subnet: net("10.89.0.1/24"),
            pod_subnet: net("10.244.0.0/16"),
            service_subnet: net("10.96.0.0/12"),
            name_servers: name_server
                .map(|server| (Ipv4Addr::new(10, 89, 0, 1), server))
                .into_iter()
                .collect(),
            name_server_range: net("169.254.53.0/24"),
        }
    }

    #[test]
    fn the_host_masquerades_what_leaves_the_bridge() {
        insta::assert_snapshot!(write_host_table(&host_rules(None), "rules"), @r#"
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
                iifname "fl-demo" tcp flags syn tcp option maxseg size set rt mtu
                oifname "fl-demo" tcp flags syn tcp option maxseg size set rt mtu
                ct state established,related accept comment "rules"
                ct status dnat accept
                iifname "fl-demo" ip daddr 10.96.0.0/12 reject with icmp type admin-prohibited
                iifname "fl-demo" ip daddr 169.254.53.0/24 reject with icmp type admin-prohibited
                iifname != "fl-demo" oifname "fl-demo" drop
            }
            chain input {
                type filter hook input priority filter; policy accept;
                iifname "fl-demo" ct state established,related accept
                iifname "fl-demo" ct status dnat accept
                iifname "fl-demo" meta pkttype != host drop
                iifname "fl-demo" ip daddr != 10.89.0.1 reject with icmp type admin-prohibited
            }
        }
        "#);
    }

    #[test]
    fn a_resolver_on_the_loopback_link_is_reached_at_the_gateway_alone() {
        insta::assert_snapshot!(write_host_table(&host_rules(Some(Ipv4Addr::LOCALHOST)), "rules"), @r#"
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
                iifname "fl-demo" tcp flags syn tcp option maxseg size set rt mtu
                oifname "fl-demo" tcp flags syn tcp option maxseg size set rt mtu
                ct state established,related accept comment "rules"
                ct status dnat accept
                iifname "fl-demo" ip daddr 10.96.0.0/12 reject with icmp type admin-prohibited
                iifname "fl-demo" ip daddr 169.254.53.0/24 reject with icmp type admin-prohibited
                iifname != "fl-demo" oifname "fl-demo" drop
            }
            chain input {
                type filter hook input priority filter; policy accept;
                iifname "fl-demo" ct state established,related accept
                iifname "fl-demo" ct status dnat accept
                iifname "fl-demo" meta pkttype != host drop
                iifname "fl-demo" ip daddr != 10.89.0.1 reject with icmp type admin-prohibited
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
    fn the_fingerprint_follows_from_the_rules() {
        let (one, two) = (host_rules(None), host_rules(Some(Ipv4Addr::LOCALHOST)));
        assert_eq!(fingerprint(&one), fingerprint(&one.clone()));
        assert_ne!(fingerprint(&one), fingerprint(&two));
        assert!(host_table(&one).contains(&fingerprint(&one)));
        assert_eq!(count_rules(&host_table(&one)), 13);
    }
}
