//! Which ranges the host's routes are for, and by which link it reaches the world.

use std::net::Ipv4Addr;

use flotilla_linux::host::Command;
use flotilla_linux::net::{Changed, Net, NetError, UsedRange};

use crate::packets::net;
use crate::support::in_new_namespace;

const OWNER: &str = "flotilla/test";

fn ip(args: &str) {
    Command::new("ip").args(args.split(' ')).run().unwrap();
}

fn used(dst: &str, link: &str, before_main: bool) -> UsedRange {
    let link = (!link.is_empty()).then(|| link.to_owned());
    UsedRange { dst: net(dst), link, before_main }
}

/// A namespace with two links that stand for others': a VPN and Tailscale.
fn with_links(test: impl FnOnce(&Net) + Send + 'static) {
    in_new_namespace(|| {
        if Command::new("ip").arg("-V").run().is_err() {
            flotilla_testkit::skip("there is no ip in PATH");
            return;
        }
        let host = Net::here().unwrap();
        for (name, address) in [("vpn0", "198.51.100.1/30"), ("tailscale0", "100.64.0.1/32")] {
            host.ensure_bridge(name, "", net(address), 1420).unwrap();
        }
        test(&host);
    });
}

#[test]
fn ranges_of_all_tables_that_ordinary_packets_go_by_are_in_use() {
    with_links(|host| {
        ip("route add 10.50.0.0/16 via 198.51.100.2 dev vpn0");
        ip("route add unreachable 10.60.0.0/16");
        // What Tailscale does.
        ip("rule add priority 5210 fwmark 0x80000/0xff0000 lookup main");
        ip("rule add priority 5270 lookup 52");
        ip("route add 10.213.0.0/16 dev tailscale0 table 52");
        ip("route add throw 10.70.0.0/16 table 52");
        // What wg-quick does.
        ip("rule add priority 32764 lookup main suppress_prefixlength 0");
        ip("rule add not fwmark 0xca6c priority 32765 lookup 51820");
        ip("route add 10.80.0.0/16 dev vpn0 table 51820");
        ip("route add default dev vpn0 table 51820");
        // For one source only, and in a table that no rule names.
        ip("rule add from 203.0.113.1 lookup 99");
        ip("route add 10.90.0.0/16 dev vpn0 table 99");
        ip("route add 10.91.0.0/16 dev vpn0 table 98");
        let mut ranges = host.used_ranges().unwrap();
        ranges.sort_by_key(|range| range.dst);
        let expected = [
            used("10.50.0.0/16", "vpn0", false),
            used("10.60.0.0/16", "", false),
            used("10.80.0.0/16", "vpn0", false),
            used("10.213.0.0/16", "tailscale0", true),
            used("198.51.100.0/30", "vpn0", false),
        ];
        assert_eq!(ranges, expected);
        assert_eq!(host.mtu_to_world().unwrap(), Some(1420), "by the rules, not by the main table");
    });
}

#[test]
fn without_a_way_to_the_world_there_is_no_size_of_packets() {
    with_links(|host| assert_eq!(host.mtu_to_world().unwrap(), None));
}

#[test]
fn routes_of_others_are_never_replaced() {
    with_links(|host| {
        host.ensure_bridge("fl-test", OWNER, net("10.89.0.1/24"), 1500).unwrap();
        ip("route add 10.244.1.0/24 via 198.51.100.2 dev vpn0");
        let node = Ipv4Addr::new(10, 89, 0, 2);
        let error = host.ensure_route(net("10.244.1.0/24"), node, "fl-test").unwrap_err();
        assert!(matches!(error, NetError::RouteTaken { .. }), "{error}");
        assert_eq!(error.to_string(), "10.244.1.0/24 is routed by vpn0 already, and not by Flotilla");
        let routes = host.routes().unwrap();
        let links: Vec<_> = routes.iter().filter(|route| route.dst == net("10.244.1.0/24")).collect();
        assert_eq!(links.len(), 1);
        assert_eq!(links[0].link.as_deref(), Some("vpn0"));
        assert_eq!(host.ensure_route(net("10.244.2.0/24"), node, "fl-test").unwrap(), Changed::Yes);
    });
}
