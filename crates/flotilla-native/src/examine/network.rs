//! Checks of the network: forwarding, firewall, subnets, name servers.

use flotilla_core::Finding;
use flotilla_core::explain::run_as_root;
use flotilla_linux::net::UsedRange;
use flotilla_linux::nft::{Chain, Refusals};
use flotilla_linux::resolver::{NoServer, Upstream};
use flotilla_spec::NetworkSpec;
use ipnet::Ipv4Net;

use super::Check;
use super::facts::Facts;
use super::host::can_raise;

const GIVE_RANGES: &str = "choose free ranges with --subnet and --pod-subnet";

pub(super) fn forwarding(facts: &Facts) -> Finding {
    const CHECK: Check = Check::new("IF_NO_FORWARDING", 77);
    if facts.forwarding.value != 0 {
        CHECK.good("forwarding: on")
    } else if can_raise(facts, facts.forwarding) {
        CHECK.good("forwarding: off, will be turned on")
    } else {
        CHECK.fatal("forwarding: off and cannot be turned on", "set net.ipv4.ip_forward to 1 on the host")
    }
}

pub(super) fn packet_filter(facts: &Facts) -> Finding {
    const CHECK: Check = Check::new("HOST_NO_NFTABLES", 36);
    match facts.nf_tables {
        Some(true) => CHECK.good("packet filter: nf_tables"),
        Some(false) => CHECK.fatal(
            "packet filter: the kernel has no nf_tables",
            "use a distribution's kernel, and make sure that its modules are in /lib/modules",
        ),
        None => CHECK.warning("packet filter: cannot check for nf_tables", run_as_root()),
    }
}

pub(super) fn legacy_iptables(facts: &Facts) -> Finding {
    const CHECK: Check = Check::new("IF_LEGACY_IPTABLES", 71);
    match facts.legacy_filter {
        Some(false) => CHECK.good("legacy iptables: no rules"),
        Some(true) => CHECK.warning(
            "legacy iptables: has rules; if they drop forwarded packets, nodes have no access to other networks",
            "check `iptables-legacy -S FORWARD`, and accept packets with `iptables-legacy -P FORWARD ACCEPT`",
        ),
        None => CHECK.warning("legacy iptables: only root can see its rules", run_as_root()),
    }
}

pub(super) fn firewalld(facts: &Facts) -> Finding {
    const CHECK: Check = Check::new("IF_FIREWALLD", 71);
    let is_closed = |refusals: &Refusals| refusals.owned.iter().any(|chain| chain.table == "firewalld");
    match (facts.firewalld, &facts.refusals) {
        (Some(false), _) => CHECK.good("firewalld: no rules"),
        (Some(true), Some(refusals)) if !is_closed(refusals) => {
            CHECK.good("firewalld: `start` adds rules for clusters, again after each reload of firewalld")
        }
        // firewalld owns its table, or the rules could not be read.
        (Some(true), _) => CHECK.warning(
            "firewalld: owns its table, so `start` cannot add rules for clusters",
            format!("trust the cluster's ranges: `{}`", trust(facts)),
        ),
        (None, _) => CHECK.warning("firewalld: only root can see its rules", run_as_root()),
    }
}

/// Chains that refuse packets to the host itself. `start` opens them only for DNS: other access of nodes is the
/// user's decision.
pub(super) fn firewall(facts: &Facts) -> Finding {
    const CHECK: Check = Check::new("IF_FIREWALL", 71);
    let Some(refusals) = &facts.refusals else {
        return if facts.root {
            CHECK.good("firewall: not checked without nft; `start` checks with the bundle's")
        } else {
            CHECK.warning("firewall: only root can see its rules", run_as_root())
        };
    };
    let placed = |chain: &Chain| format!("{} {} {}", chain.family, chain.table, chain.name);
    match refusals.input.first() {
        Some(chain) => CHECK.warning(
            format!(
                "firewall: {} blocks packets to this host: nodes and pods reach only its name server",
                placed(chain)
            ),
            format!(
                "to allow it, run `nft insert rule {} iifname \"flo*\" accept` until it is loaded again, for \
                 good `ufw allow in on flo+` or what your firewall has for it",
                placed(chain)
            ),
        ),
        None if refusals.forward.is_empty() => CHECK.good("firewall: refuses no packets"),
        None => {
            let chains: Vec<_> = refusals.forward.iter().map(placed).collect();
            CHECK.good(format!("firewall: `start` adds rules for clusters to {}", chains.join(", ")))
        }
    }
}

/// The command that makes firewalld trust the ranges of a new cluster.
fn trust(facts: &Facts) -> String {
    let used: Vec<_> = facts.ranges.iter().flatten().map(|range| range.dst).collect();
    let spec = NetworkSpec::default();
    let ranges = [spec.choose_subnet(&used), spec.choose_pod_subnet(&used)];
    let sources = ranges.into_iter().flatten().map(|range| format!(" --add-source={range}"));
    format!("firewall-cmd --zone=trusted{}", sources.collect::<String>())
}

pub(super) fn subnets(facts: &Facts) -> Finding {
    const CHECK: Check = Check::new("IF_SUBNETS_TAKEN", 71);
    let ranges = match &facts.ranges {
        Ok(ranges) => ranges,
        Err(error) => return CHECK.warning(format!("subnets: {error}"), GIVE_RANGES),
    };
    if let Some(all) = ranges.iter().find(|range| range.before_main && range.dst.prefix_len() == 0) {
        return CHECK.warning(
            format!("subnets: all packets of this host are routed {}, also those for nodes", by(all)),
            "have the host's own networks excepted (Tailscale: `tailscale set --exit-node-allow-lan-access`), or put a \
             cluster's ranges first: `ip rule add to RANGE lookup main priority 100`",
        );
    }
    let used: Vec<_> = ranges.iter().map(|range| range.dst).collect();
    let spec = NetworkSpec::default();
    let nodes = |used: &[Ipv4Net]| spec.choose_subnet(used);
    let pods = |used: &[Ipv4Net]| spec.choose_pod_subnet(used);
    let services = spec.service_subnet;
    match (nodes(&used), pods(&used)) {
        (None, _) => CHECK.warning(taken("nodes", ranges, |range| nodes(&[range]).is_none()), GIVE_RANGES),
        (_, None) => CHECK.warning(taken("pods", ranges, |range| pods(&[range]).is_none()), GIVE_RANGES),
        (Some(nodes), Some(pods)) => match ranges.iter().find(|range| services.contains(&range.dst)) {
            Some(range) => CHECK.warning(
                format!(
                    "subnets: {services} for services overlaps {}, which is routed {}",
                    range.dst,
                    by(range)
                ),
                "choose another service range with --service-cluster-ip-range",
            ),
            None => CHECK.good(format!("subnets: {nodes} is free for nodes, {pods} for pods")),
        },
    }
}

pub(super) fn name_server(facts: &Facts) -> Finding {
    const CHECK: Check = Check::new("IF_NO_NAME_SERVER", 75);
    let none = |why: &str, cure: &str| {
        CHECK.warning(format!("name server: {why}; nodes resolve only names of the cluster"), cure)
    };
    match &facts.name_server {
        Ok(Upstream::Servers(servers)) => {
            let servers: Vec<_> = servers.iter().map(ToString::to_string).collect();
            CHECK.good(format!("name server: {}", servers.join(", ")))
        }
        Ok(Upstream::Loopback(server)) => CHECK.good(format!("name server: {server} of this host")),
        Ok(Upstream::None(NoServer::Unnamed)) => none("this host has none", "add one to /etc/resolv.conf"),
        Ok(Upstream::None(NoServer::OnlyIpv6)) => none(
            "all have IPv6 addresses, which nodes cannot reach",
            "add one with an IPv4 address to /etc/resolv.conf",
        ),
        Ok(Upstream::None(NoServer::BehindSystemd)) => none(
            "systemd-resolved answers only this host and uses no server with an IPv4 address",
            "add one: `resolvectl dns LINK ADDRESS`",
        ),
        Err(error) => CHECK.warning(format!("name server: {error}"), "make that file readable"),
    }
}

fn by(range: &UsedRange) -> String {
    range.link.as_ref().map_or_else(|| "nowhere".to_owned(), |link| format!("by {link}"))
}

/// Reports that no range is free, and names the route if a single one, such as a VPN's, is the reason.
fn taken(whose: &str, ranges: &[UsedRange], takes_all: impl Fn(Ipv4Net) -> bool) -> String {
    match ranges.iter().find(|range| takes_all(range.dst)) {
        Some(range) => {
            format!("subnets: none is free for {whose}: {} is routed {}", range.dst, by(range))
        }
        None => format!("subnets: none is free for {whose}: all are in use"),
    }
}
