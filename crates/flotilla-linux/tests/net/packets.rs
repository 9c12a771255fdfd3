//! What becomes of packets, with links and rules together.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::Duration;

use flotilla_linux::net::{Net, Veth};
use flotilla_linux::nft::{Forward, Forwards, HostRules, Pass, forward_table, host_table};
use flotilla_linux::sysctl;
use ipnet::Ipv4Net;

use crate::support::{Node, sender, socket, with_nft};

/// Makes a bridge and a node on it, and tells both apart from others by a letter.
pub(crate) fn node_on_bridge(host: &Net, letter: &str, gateway: Ipv4Net, address: Ipv4Net) -> Node {
    let (bridge, cable) = (format!("fl-{letter}"), format!("fl-{letter}-{}", address.addr().octets()[3]));
    host.ensure_bridge(&bridge, "flotilla/test", gateway, 1500).unwrap();
    let node = Node::start();
    let veth = Veth { name: &cable, alias: "flotilla/test/node", bridge: &bridge, loose_end: "fl-loose" };
    host.ensure_veth(&veth).unwrap();
    host.move_link("fl-loose", node.process(), "eth0").unwrap();
    Net::of_process(node.process()).unwrap().configure("eth0", address, gateway.addr()).unwrap();
    node
}

pub(crate) fn net(text: &str) -> Ipv4Net {
    text.parse().unwrap()
}

pub(crate) const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 89, 0, 1);

pub(crate) fn rules(name_server: Option<Ipv4Addr>) -> HostRules {
    HostRules {
        table: "flotilla-a".to_owned(),
        bridge: "fl-a".to_owned(),
        gateway: GATEWAY,
        subnet: net("10.89.0.0/24"),
        pod_subnet: net("10.244.0.0/16"),
        service_subnet: net("10.96.0.0/12"),
        name_servers: name_server.map(|server| (GATEWAY, server)).into_iter().collect(),
        name_server_range: net("169.254.53.0/24"),
    }
}

pub(crate) fn hears_nothing(socket: &UdpSocket) -> bool {
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
        let (via, listener) = (node.socket("0.0.0.0:0"), world.socket("192.0.2.2:4000"));
        let speak = || via.send_to(b"hello", "192.0.2.2:4000").unwrap();

        speak();
        assert_eq!(sender(&listener).ip(), Ipv4Addr::new(10, 89, 0, 2));
        nft.apply(&host_table(&rules(None))).unwrap();
        // A connection keeps the translation it began with, so another one is needed to see the new rules.
        let via = node.socket("0.0.0.0:0");
        let speak = || via.send_to(b"hello", "192.0.2.2:4000").unwrap();
        speak();
        assert_eq!(sender(&listener).ip(), Ipv4Addr::new(192, 0, 2, 1));

        nft.apply("table ip filter { chain FORWARD { type filter hook forward priority 0; policy drop; }; }")
            .unwrap();
        speak();
        assert!(hears_nothing(&listener));
        nft.let_pass(&Pass { bridge: "fl-a", tag: "flotilla/a", name_server_on_host: false }).unwrap();
        speak();
        let from = sender(&listener);
        listener.send_to(b"hello", from).unwrap();
        assert_eq!(sender(&via).ip(), Ipv4Addr::new(192, 0, 2, 2));
        nft.remove_tagged("flotilla/a", "fl-a").unwrap();
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

/// The host's port 4000 of an address, as that of the node 10.89.0.2.
pub(crate) fn forwards(address: [u8; 4]) -> Forwards {
    let forward = Forward {
        address: address.into(),
        port: 4000,
        protocol: "udp".to_owned(),
        to: SocketAddrV4::new(Ipv4Addr::new(10, 89, 0, 2), 30000),
        comment: "a test".to_owned(),
    };
    Forwards {
        table: "flotilla-a-ports".to_owned(),
        bridge: "fl-a".to_owned(),
        inside: vec![net("10.89.0.0/24")],
        ports: vec![forward],
    }
}

/// Whether what a client says to an address is heard by the listener as from `seen_as`, and the answer comes back as if
/// from that address.
pub(crate) fn is_answered(client: &UdpSocket, address: &str, listener: &UdpSocket, seen_as: [u8; 4]) -> bool {
    client.send_to(b"hello", address).unwrap();
    let from = sender(listener);
    listener.send_to(b"hello", from).unwrap();
    from.ip() == Ipv4Addr::from(seen_as) && sender(client).to_string() == address
}

#[test]
fn a_port_of_the_loopback_link_leads_the_host_and_nobody_else_to_a_node() {
    with_nft(|nft| {
        let host = Net::here().unwrap();
        host.ensure_up("lo").unwrap();
        sysctl::set("net/ipv4/ip_forward", "1").unwrap();
        let node = node_on_bridge(&host, "a", net("10.89.0.1/24"), net("10.89.0.2/24"));
        let neighbour = node_on_bridge(&host, "a", net("10.89.0.1/24"), net("10.89.0.3/24"));
        let forwards = forwards([127, 0, 0, 1]);
        nft.apply(&forward_table(&forwards)).unwrap();
        sysctl::set("net/ipv4/conf/fl-a/route_localnet", "1").unwrap();
        assert_eq!(nft.list_own_comments().unwrap(), [(forwards.table.clone(), "a test".to_owned())]);

        let listener = node.socket("0.0.0.0:30000");
        assert!(is_answered(&socket("127.0.0.1:0"), "127.0.0.1:4000", &listener, [10, 89, 0, 1]));
        let (stranger, secret) = (neighbour.socket("0.0.0.0:0"), socket("127.0.0.1:5000"));
        stranger.send_to(b"hello", "10.89.0.1:4000").unwrap();
        assert!(hears_nothing(&listener));
        // Somebody in a node may do anything to get at the host's loopback link.
        let inside = Net::of_process(neighbour.process()).unwrap();
        inside.remove_address("lo", net("127.0.0.1/8")).unwrap();
        inside.ensure_route(net("127.0.0.1/32"), Ipv4Addr::new(10, 89, 0, 1), "eth0").unwrap();
        neighbour.set("net/ipv4/conf/eth0/route_localnet", "1");
        for port in [4000, 5000] {
            stranger.send_to(b"hello", (Ipv4Addr::LOCALHOST, port)).unwrap();
        }
        assert!(hears_nothing(&listener) && hears_nothing(&secret));

        nft.apply(&forward_table(&Forwards { ports: Vec::new(), ..forwards })).unwrap();
        assert_eq!(nft.list_own_comments().unwrap(), []);
        socket("127.0.0.1:0").send_to(b"hello", "127.0.0.1:4000").unwrap();
        assert!(hears_nothing(&listener));
    });
}

#[test]
fn a_port_of_all_addresses_leads_everybody_to_a_node() {
    with_nft(|nft| {
        let host = Net::here().unwrap();
        host.ensure_up("lo").unwrap();
        sysctl::set("net/ipv4/ip_forward", "1").unwrap();
        let node = node_on_bridge(&host, "a", net("10.89.0.1/24"), net("10.89.0.2/24"));
        let neighbour = node_on_bridge(&host, "a", net("10.89.0.1/24"), net("10.89.0.3/24"));
        let world = node_on_bridge(&host, "b", net("192.0.2.1/24"), net("192.0.2.2/24"));
        nft.apply(&forward_table(&forwards([0, 0, 0, 0]))).unwrap();
        sysctl::set("net/ipv4/conf/fl-a/route_localnet", "1").unwrap();
        let listener = node.socket("0.0.0.0:30000");
        let (far, near) = (world.socket("0.0.0.0:0"), neighbour.socket("0.0.0.0:0"));
        // The node sees who it is, except where the answer would not come by the host.
        assert!(is_answered(&far, "192.0.2.1:4000", &listener, [192, 0, 2, 2]));
        assert!(is_answered(&near, "10.89.0.1:4000", &listener, [10, 89, 0, 1]));
        assert!(is_answered(&socket("0.0.0.0:0"), "127.0.0.1:4000", &listener, [10, 89, 0, 1]));
        assert!(is_answered(&socket("0.0.0.0:0"), "192.0.2.1:4000", &listener, [192, 0, 2, 1]));
        // The same port of somebody else's address is theirs.
        let theirs = world.socket("192.0.2.2:4000");
        assert!(is_answered(&socket("0.0.0.0:0"), "192.0.2.2:4000", &theirs, [192, 0, 2, 1]));
    });
}
