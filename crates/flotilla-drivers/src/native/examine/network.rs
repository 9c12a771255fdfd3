//! The way of packets: between nodes, to the world, and past the host's firewall.

use flotilla_engine::port::Finding;
use flotilla_linux::net::RouteInfo;
use flotilla_linux::resolver::Upstream;
use flotilla_spec::NetworkSpec;
use ipnet::Ipv4Net;

use super::Check;
use super::facts::Facts;
use super::host::can_raise;

/// For what only root can see.
const ASK_AS_ROOT: &str = "look as root: `sudo --preserve-env=HOME,FLOTILLA_HOME flotilla doctor`";
const GIVE_RANGES: &str = "give free ranges with --subnet and --pod-subnet";

pub(super) fn forwarding(facts: &Facts) -> Finding {
    const CHECK: Check = Check::new("IF_NO_FORWARDING", 77);
    if facts.forwarding.value != 0 {
        CHECK.good("forwarding: on")
    } else if can_raise(facts, facts.forwarding) {
        CHECK.good("forwarding: off, will be switched on")
    } else {
        CHECK.fatal(
            "forwarding: off, and it cannot be switched on",
            "set net.ipv4.ip_forward to 1 where you can",
        )
    }
}

pub(super) fn packet_filter(facts: &Facts) -> Finding {
    const CHECK: Check = Check::new("HOST_NO_NFTABLES", 36);
    match facts.nf_tables {
        Some(true) => CHECK.good("packet filter: nf_tables"),
        Some(false) => CHECK.fatal(
            "packet filter: the kernel has no nf_tables",
            "use a distribution's own kernel, and see that the modules of the running one are in /lib/modules",
        ),
        None => CHECK.warning("packet filter: the kernel does not tell whether it has nf_tables", ASK_AS_ROOT),
    }
}

pub(super) fn legacy_iptables(facts: &Facts) -> Finding {
    const CHECK: Check = Check::new("IF_LEGACY_IPTABLES", 71);
    match facts.legacy_filter {
        Some(false) => CHECK.good("legacy iptables: no rules"),
        Some(true) => CHECK.warning(
            "legacy iptables: rules are in force; if they drop forwarded packets, nodes reach nothing outside",
            "look with `iptables-legacy -S FORWARD`, and let packets pass with `iptables-legacy -P FORWARD ACCEPT`",
        ),
        None => CHECK.warning("legacy iptables: only root can see its rules", ASK_AS_ROOT),
    }
}

pub(super) fn firewalld(facts: &Facts) -> Finding {
    const CHECK: Check = Check::new("IF_FIREWALLD", 71);
    match facts.firewalld {
        Some(false) => CHECK.good("firewalld: no rules"),
        // It refuses by rules, not by a chain's policy, so `start` does not see it and makes no way through.
        Some(true) => CHECK.warning(
            "firewalld: rules are in force; if they refuse forwarded packets, nodes reach nothing outside",
            "trust the cluster's two ranges: `firewall-cmd --zone=trusted --add-source=RANGE`",
        ),
        None => CHECK.warning("firewalld: only root can see its rules", ASK_AS_ROOT),
    }
}

pub(super) fn subnets(facts: &Facts) -> Finding {
    const CHECK: Check = Check::new("IF_SUBNETS_TAKEN", 71);
    let routes = match &facts.routes {
        Ok(routes) => routes,
        Err(error) => return CHECK.warning(format!("subnets: {error}"), GIVE_RANGES),
    };
    let used: Vec<_> = routes.iter().map(|route| route.dst).collect();
    let spec = NetworkSpec::default();
    let nodes = |used: &[Ipv4Net]| spec.choose_subnet(used);
    let pods = |used: &[Ipv4Net]| spec.choose_pod_subnet(used);
    match (nodes(&used), pods(&used)) {
        (Some(nodes), Some(pods)) => {
            CHECK.good(format!("subnets: {nodes} is free for nodes, {pods} for pods"))
        }
        (None, _) => CHECK.warning(taken("nodes", routes, |route| nodes(&[route]).is_none()), GIVE_RANGES),
        (_, None) => CHECK.warning(taken("pods", routes, |route| pods(&[route]).is_none()), GIVE_RANGES),
    }
}

pub(super) fn name_server(facts: &Facts) -> Finding {
    const CHECK: Check = Check::new("IF_NO_NAME_SERVER", 75);
    match &facts.name_server {
        Ok(Upstream::Servers(servers)) => {
            let servers: Vec<_> = servers.iter().map(ToString::to_string).collect();
            CHECK.good(format!("name server: {}", servers.join(", ")))
        }
        Ok(Upstream::ViaGateway(server)) => {
            CHECK.good(format!("name server: {server}, by way of the gateway"))
        }
        Ok(Upstream::None) => CHECK.warning(
            "name server: none with an IPv4 address, so nodes resolve only the cluster's names",
            "name one in /etc/resolv.conf",
        ),
        Err(error) => CHECK.warning(format!("name server: {error}"), "make that file readable"),
    }
}

/// Says that nothing is free, and which route alone is the reason, as that of a VPN may be.
fn taken(whose: &str, routes: &[RouteInfo], takes_all: impl Fn(Ipv4Net) -> bool) -> String {
    match routes.iter().find(|route| takes_all(route.dst)) {
        Some(RouteInfo { dst, link: Some(link), .. }) => {
            format!("subnets: none is free for {whose}, since {dst} is routed by {link}")
        }
        Some(RouteInfo { dst, .. }) => format!("subnets: none is free for {whose}, since {dst} is routed"),
        None => format!("subnets: none is free for {whose}, all are in use"),
    }
}
