//! Which addresses the nodes on a bridge may send from.

use std::fmt::{self, Write};
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use crate::net::hardware_address;

use super::tables::{deletion, fingerprint_of, replaced};

/// nft's name for rules about what enters a bridge by its ports.
pub const SOURCE_FAMILY: &str = "bridge";

/// The nodes of a cluster, and what they may send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRules {
    /// The table's name: `flotilla-ID`.
    pub table: String,
    /// Where the nodes are, with the host's own address there.
    pub subnet: Ipv4Net,
    pub nodes: Vec<Sources>,
}

/// What one node may send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sources {
    /// The host's end of the node's link.
    pub link: String,
    /// The node's own. Its MAC address follows from it.
    pub address: Ipv4Addr,
    /// That of the API, if the node may hold it.
    pub virtual_ip: Option<Ipv4Addr>,
    pub others: Others,
}

/// What a node may send from that is no address of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Others {
    /// The pods of the node alone.
    Pods(Ipv4Net),
    /// Everything outside the nodes' range, by any MAC address but another node's: the pod network is not ours, and gives its
    /// pods addresses of its own.
    Any,
}

/// The table that keeps every node to its own addresses, of IP, in ARP and MAC, and workers out of the election of who holds the API's. Nodes speak IPv4 alone:
/// nothing else passes. The host's own packets do not come by a port and are not concerned.
///
/// Without nodes, what deletes the table.
pub fn source_table(rules: &SourceRules) -> String {
    if rules.nodes.is_empty() {
        return deletion(SOURCE_FAMILY, &rules.table);
    }
    write_source_table(rules, &fingerprint(rules))
}

pub(super) fn fingerprint(rules: &SourceRules) -> String {
    fingerprint_of(&write_source_table(rules, ""))
}

fn write_source_table(rules: &SourceRules, fingerprint: &str) -> String {
    replaced(SOURCE_FAMILY, &rules.table, |text| {
        for node in &rules.nodes {
            write_node(text, node, rules)?;
        }
        let ways: Vec<_> =
            rules.nodes.iter().map(|Sources { link, .. }| format!("\"{link}\" : goto {link}")).collect();
        writeln!(text, "    chain prerouting {{")?;
        // Before a node's packet or its MAC address is looked at by anything else of the bridge.
        writeln!(text, "        type filter hook prerouting priority -300; policy accept;")?;
        writeln!(text, "        iifname vmap {{ {} }} comment \"{fingerprint}\"", ways.join(", "))?;
        writeln!(text, "    }}")
    })
}

fn write_node(text: &mut String, node: &Sources, rules: &SourceRules) -> fmt::Result {
    let subnet = rules.subnet.trunc();
    let addresses: Vec<_> =
        [node.address].into_iter().chain(node.virtual_ip).map(|it| it.to_string()).collect();
    let addresses = addresses.join(", ");
    writeln!(text, "    chain {} {{", node.link)?;
    // The bridge sends packets for a MAC address to the port that it saw it at last.
    match &node.others {
        Others::Pods(_) => writeln!(text, "        ether saddr != {} drop", mac(node.address))?,
        Others::Any => {
            let others = rules.nodes.iter().map(|other| other.address).filter(|other| *other != node.address);
            let others: Vec<_> = others.chain([rules.subnet.addr()]).map(mac).collect();
            writeln!(text, "        ether saddr {{ {} }} drop", others.join(", "))?;
        }
    }
    if node.virtual_ip.is_none() {
        // keepalived (VRRP, by its number: a bundle's root has no names of protocols) gives the virtual IP up to whoever
        // claims a higher priority.
        writeln!(text, "        ip protocol 112 drop")?;
    }
    // Who asks whether an address is free has none yet.
    writeln!(text, "        ether type arp arp saddr ip {{ 0.0.0.0, {addresses} }} accept")?;
    match &node.others {
        Others::Pods(range) => {
            writeln!(text, "        ether type ip ip saddr {{ {addresses}, {} }} accept", range.trunc())?;
        }
        Others::Any => {
            writeln!(text, "        ether type ip ip saddr {{ {addresses} }} accept")?;
            writeln!(text, "        ether type ip ip saddr != {subnet} accept")?;
            writeln!(text, "        ether type arp arp saddr ip != {subnet} accept")?;
        }
    }
    writeln!(text, "        drop")?;
    writeln!(text, "    }}")
}

/// The MAC address of who has an address, as nft reads it.
fn mac(address: Ipv4Addr) -> String {
    hardware_address(address).map(|byte| format!("{byte:02x}")).join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> SourceRules {
        let address = |last| Ipv4Addr::new(10, 89, 0, last);
        SourceRules {
            table: "flotilla-demo".to_owned(),
            subnet: "10.89.0.1/24".parse().unwrap(),
            nodes: vec![
                Sources {
                    link: "fl-demo-2".to_owned(),
                    address: address(2),
                    virtual_ip: Some(address(254)),
                    others: Others::Pods("10.244.1.0/24".parse().unwrap()),
                },
                Sources {
                    link: "fl-demo-3".to_owned(),
                    address: address(3),
                    virtual_ip: None,
                    others: Others::Any,
                },
            ],
        }
    }

    #[test]
    fn every_node_has_its_own_chain() {
        insta::assert_snapshot!(write_source_table(&rules(), "rules"), @r#"
        table bridge flotilla-demo
        delete table bridge flotilla-demo
        table bridge flotilla-demo {
            chain fl-demo-2 {
                ether saddr != 02:f1:0a:59:00:02 drop
                ether type arp arp saddr ip { 0.0.0.0, 10.89.0.2, 10.89.0.254 } accept
                ether type ip ip saddr { 10.89.0.2, 10.89.0.254, 10.244.1.0/24 } accept
                drop
            }
            chain fl-demo-3 {
                ether saddr { 02:f1:0a:59:00:02, 02:f1:0a:59:00:01 } drop
                ip protocol 112 drop
                ether type arp arp saddr ip { 0.0.0.0, 10.89.0.3 } accept
                ether type ip ip saddr { 10.89.0.3 } accept
                ether type ip ip saddr != 10.89.0.0/24 accept
                ether type arp arp saddr ip != 10.89.0.0/24 accept
                drop
            }
            chain prerouting {
                type filter hook prerouting priority -300; policy accept;
                iifname vmap { "fl-demo-2" : goto fl-demo-2, "fl-demo-3" : goto fl-demo-3 } comment "rules"
            }
        }
        "#);
    }

    #[test]
    fn without_nodes_nothing_is_left() {
        let none = SourceRules { nodes: Vec::new(), ..rules() };
        assert_eq!(source_table(&none), deletion(SOURCE_FAMILY, "flotilla-demo"));
    }
}
