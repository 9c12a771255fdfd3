//! Packets and the firewalls of others that refuse what they do not know.

use std::net::Ipv4Addr;

use flotilla_linux::net::Net;
use flotilla_linux::nft::{Pass, host_table};
use flotilla_linux::sysctl;

use crate::packets::{GATEWAY, hears_nothing, is_answered, net, node_on_bridge, rules};
use crate::support::{socket, with_nft};

/// Refuses by its last rules, not by a policy.
const RHEL: &str = "
    table ip filter {
        chain INPUT {
            type filter hook input priority filter; policy accept;
            ct state established accept
            reject with icmp type host-prohibited
        }
        chain FORWARD {
            type filter hook forward priority filter; policy accept;
            reject with icmp type host-prohibited
        }
    }
";

const PASS: Pass<'_> = Pass { bridge: "fl-a", tag: "flotilla/a", name_server_on_host: true };

#[test]
fn a_node_reaches_the_world_and_a_name_server_of_the_host_through_final_rejects() {
    with_nft(|nft| {
        let host = Net::here().unwrap();
        host.ensure_up("lo").unwrap();
        sysctl::set("net/ipv4/ip_forward", "1").unwrap();
        let node = node_on_bridge(&host, "a", net("10.89.0.1/24"), net("10.89.0.2/24"));
        let world = node_on_bridge(&host, "b", net("192.0.2.1/24"), net("192.0.2.2/24"));
        nft.apply(&host_table(&rules(Some(Ipv4Addr::LOCALHOST)))).unwrap();
        sysctl::set("net/ipv4/conf/fl-a/route_localnet", "1").unwrap();
        nft.apply(RHEL).unwrap();
        let (outside, server) = (world.socket("192.0.2.2:4000"), socket("127.0.0.1:53"));
        let dns = format!("{GATEWAY}:53");
        for refused in ["192.0.2.2:4000", dns.as_str()] {
            node.socket("0.0.0.0:0").send_to(b"hello", refused).unwrap();
        }
        assert!(hears_nothing(&outside) && hears_nothing(&server));

        nft.let_pass(&PASS).unwrap();
        assert!(is_answered(&node.socket("0.0.0.0:0"), "192.0.2.2:4000", &outside, [192, 0, 2, 1]));
        assert!(is_answered(&node.socket("0.0.0.0:0"), &dns, &server, [10, 89, 0, 2]));
        // Everything else of the host's stays behind its firewall.
        let secret = socket("0.0.0.0:5000");
        node.socket("0.0.0.0:0").send_to(b"hello", (GATEWAY, 5000)).unwrap();
        assert!(hears_nothing(&secret));
    });
}
