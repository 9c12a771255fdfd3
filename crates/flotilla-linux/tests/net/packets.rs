//! What becomes of packets, with links and rules together.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use flotilla_linux::net::{Net, Veth};
use flotilla_linux::nft::{HostRules, host_table};
use flotilla_linux::sysctl;
use ipnet::Ipv4Net;

use crate::support::{Node, sender, socket, with_nft};

/// Makes a bridge and a node on it, and tells both apart from others by a letter.
fn node_on_bridge(host: &Net, letter: &str, gateway: Ipv4Net, address: Ipv4Net) -> Node {
    let (bridge, cable) = (format!("fl-{letter}"), format!("fl-{letter}-1"));
    host.ensure_bridge(&bridge, "flotilla/test", gateway, 1500).unwrap();
    let node = Node::start();
    let veth = Veth {
        host_name: &cable,
        alias: "flotilla/test/node",
        bridge: &bridge,
        peer_name: "eth0",
        pid: node.pid(),
    };
    host.ensure_veth_into(&veth).unwrap();
    Net::of_process(node.pid()).unwrap().configure("eth0", address, gateway.addr()).unwrap();
    node
}

fn net(text: &str) -> Ipv4Net {
    text.parse().unwrap()
}

fn rules(loopback_resolver: Option<Ipv4Addr>) -> HostRules {
    HostRules {
        table: "flotilla-a".to_owned(),
        bridge: "fl-a".to_owned(),
        subnet: net("10.89.0.0/24"),
        pod_subnet: net("10.244.0.0/16"),
        service_subnet: net("10.96.0.0/12"),
        gateway: Ipv4Addr::new(10, 89, 0, 1),
        loopback_resolver,
    }
}

fn hears_nothing(socket: &UdpSocket) -> bool {
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let heard = socket.recv_from(&mut [0; 8]).is_ok();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    !heard
}

#[test]
fn a_node_leaves_through_a_host_that_drops_by_the_host_s_address() {
    with_nft(|nft| {
        let host = Net::here().unwrap();
        sysctl::set("net/ipv4/ip_forward", "1").unwrap();
        let node = node_on_bridge(&host, "a", net("10.89.0.1/24"), net("10.89.0.2/24"));
        let world = node_on_bridge(&host, "b", net("192.0.2.1/24"), net("192.0.2.2/24"));
        let (speaker, listener) = (node.socket("0.0.0.0:0"), world.socket("192.0.2.2:4000"));
        let speak = || speaker.send_to(b"hello", "192.0.2.2:4000").unwrap();

        speak();
        assert_eq!(sender(&listener).ip(), Ipv4Addr::new(10, 89, 0, 2));
        nft.apply(&host_table(&rules(None))).unwrap();
        // A connection keeps the translation it began with, so another one is needed to see the new rules.
        let speaker = node.socket("0.0.0.0:0");
        let speak = || speaker.send_to(b"hello", "192.0.2.2:4000").unwrap();
        speak();
        assert_eq!(sender(&listener).ip(), Ipv4Addr::new(192, 0, 2, 1));

        nft.apply("table ip filter { chain FORWARD { type filter hook forward priority 0; policy drop; }; }")
            .unwrap();
        speak();
        assert!(hears_nothing(&listener));
        for chain in nft.list_forward_drops().unwrap() {
            nft.accept_in(&chain, "fl-a", "flotilla/a").unwrap();
        }
        speak();
        let from = sender(&listener);
        listener.send_to(b"hello", from).unwrap();
        assert_eq!(sender(&speaker).ip(), Ipv4Addr::new(192, 0, 2, 2));
        nft.remove_tagged("flotilla/a").unwrap();
        speak();
        assert!(hears_nothing(&listener));
    });
}

#[test]
fn a_name_server_on_the_loopback_link_answers_at_the_gateway() {
    with_nft(|nft| {
        let host = Net::here().unwrap();
        host.ensure_up("lo").unwrap();
        let node = node_on_bridge(&host, "a", net("10.89.0.1/24"), net("10.89.0.2/24"));
        nft.apply(&host_table(&rules(Some(Ipv4Addr::LOCALHOST)))).unwrap();
        sysctl::set("net/ipv4/conf/fl-a/route_localnet", "1").unwrap();
        let (server, client) = (socket("127.0.0.1:53"), node.socket("0.0.0.0:0"));
        client.send_to(b"name?", "10.89.0.1:53").unwrap();
        let from = sender(&server);
        assert_eq!(from.ip(), Ipv4Addr::new(10, 89, 0, 2));
        server.send_to(b"number", from).unwrap();
        assert_eq!(sender(&client).to_string(), "10.89.0.1:53");
    });
}
