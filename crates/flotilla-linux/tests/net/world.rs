//! The host between a cluster and the world: who gets in, which name servers answer, how large packets are.

use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::time::Duration;

use flotilla_linux::net::Net;
use flotilla_linux::nft::{HostRules, forward_table, host_table};
use flotilla_linux::resolver::{Upstream, asked_by_nodes};
use flotilla_linux::sysctl;
use rustix::net::{AddressFamily, RecvFlags, SocketType, ipproto, recv, socket as raw_socket, sockopt};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

use crate::packets::{GATEWAY, forwards, is_answered, net, node_on_bridge, rules};
use crate::support::{Node, sender, socket, with_nft};

/// A host with a node and a neighbour in its own network that has a route to the node.
fn host_between() -> (Net, Node, Node) {
    let host = Net::here().unwrap();
    host.ensure_up("lo").unwrap();
    sysctl::set("net/ipv4/ip_forward", "1").unwrap();
    let node = node_on_bridge(&host, "a", net("10.89.0.1/24"), net("10.89.0.2/24"));
    let world = node_on_bridge(&host, "b", net("192.0.2.1/24"), net("192.0.2.2/24"));
    (host, node, world)
}

/// What is heard first when somebody says something and the host does so afterwards. Packets that are sent on one processor
/// seldom overtake each other.
fn first_heard(listener: &UdpSocket, somebody: &UdpSocket, address: &str) -> Ipv4Addr {
    let mut here = CpuSet::new();
    here.set(sched_getcpu());
    sched_setaffinity(None, &here).unwrap();
    somebody.send_to(b"hello", address).unwrap();
    socket("0.0.0.0:0").send_to(b"hello", address).unwrap();
    match sender(listener).ip() {
        std::net::IpAddr::V4(address) => address,
        other @ std::net::IpAddr::V6(_) => panic!("{other}"),
    }
}

#[test]
fn neighbours_of_the_host_reach_a_node_by_the_ports_that_lead_to_it_and_in_no_other_way() {
    with_nft(|nft| {
        let (_host, node, world) = host_between();
        let listener = node.socket("0.0.0.0:30000");
        let (stranger, direct) = (world.socket("0.0.0.0:0"), "10.89.0.2:30000");
        // One after the other: the packet of the second could overtake that of the first, which has a longer way.
        for (somebody, address) in [(&stranger, Ipv4Addr::new(192, 0, 2, 2)), (&socket("0.0.0.0:0"), GATEWAY)]
        {
            somebody.send_to(b"hello", direct).unwrap();
            assert_eq!(sender(&listener).ip(), address);
        }

        nft.apply(&host_table(&rules(None))).unwrap();
        let stranger = world.socket("0.0.0.0:0");
        assert_eq!(first_heard(&listener, &stranger, direct), GATEWAY, "only the host is heard");
        let answered = world.socket("192.0.2.2:4001");
        assert!(is_answered(&node.socket("0.0.0.0:0"), "192.0.2.2:4001", &answered, [192, 0, 2, 1]));

        nft.apply(&forward_table(&forwards([0, 0, 0, 0]))).unwrap();
        assert!(is_answered(&world.socket("0.0.0.0:0"), "192.0.2.1:4000", &listener, [192, 0, 2, 2]));
    });
}

#[test]
fn nodes_ask_the_same_addresses_while_the_host_changes_its_name_servers() {
    with_nft(|nft| {
        let (_host, node, world) = host_between();
        let homes = ["192.0.2.2:53"].map(|address| world.socket(address));
        let local = socket("192.0.2.1:53");
        let lead = |resolv_conf: &str| {
            let name_servers = Upstream::of(resolv_conf, "").ways(GATEWAY);
            nft.apply(&host_table(&HostRules { name_servers, ..rules(None) })).unwrap();
        };
        let asked = asked_by_nodes(GATEWAY).map(|address| format!("{address}:53"));
        let ask = |address: &str, server: &UdpSocket, seen_as| {
            is_answered(&node.socket("0.0.0.0:0"), address, server, seen_as)
        };
        lead("nameserver 192.0.2.2\n");
        for address in &asked {
            assert!(ask(address, &homes[0], [192, 0, 2, 1]), "{address}");
        }
        // Another network, with two servers.
        lead("nameserver 192.0.2.1\nnameserver 192.0.2.2\n");
        assert!(ask(&asked[0], &local, [10, 89, 0, 2]));
        assert!(ask(&asked[1], &homes[0], [192, 0, 2, 1]));
        assert!(ask(&asked[2], &local, [10, 89, 0, 2]));
    });
}

/// The MSS that a TCP packet announces, by the bytes from the IP header on.
fn announced_mss(packet: &[u8]) -> Option<u16> {
    let header = usize::from(packet[0] & 0xf) * 4;
    let tcp = &packet[header..];
    let mut options = &tcp[20..usize::from(tcp[12] >> 4) * 4];
    loop {
        match *options {
            [2, 4, high, low, ..] => return Some(u16::from_be_bytes([high, low])),
            [1, ref rest @ ..] => options = rest,
            [_, length, ..] => options = &options[usize::from(length)..],
            _ => return None,
        }
    }
}

#[test]
fn connections_are_told_the_size_of_packets_that_fits_the_narrowest_link() {
    with_nft(|nft| {
        let (host, node, world) = host_between();
        nft.apply(&host_table(&rules(None))).unwrap();
        // A VPN, whose other end does not know how narrow it is.
        host.ensure_mtu("fl-b", 1300).unwrap();
        assert_eq!(host.find_link("fl-b").unwrap().unwrap().mtu, 1300);
        let wire =
            world.inside(|| raw_socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::TCP)).unwrap());
        sockopt::set_socket_timeout(&wire, sockopt::Timeout::Recv, Some(Duration::from_secs(5))).unwrap();
        // Nobody listens: the first packet is all that counts.
        let refused = node.inside(|| TcpStream::connect("192.0.2.2:4000"));
        assert!(refused.is_err());
        let mut packet = [0; 256];
        let (_, length) = recv(&wire, &mut packet, RecvFlags::empty()).unwrap();
        assert_eq!(announced_mss(&packet[..length]), Some(1260));
    });
}
