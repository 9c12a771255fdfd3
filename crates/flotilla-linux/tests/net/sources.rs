//! A node sends from its own addresses, and cannot claim those of others.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::time::Duration;

use flotilla_linux::net::Net;
use flotilla_linux::nft::{Others, SourceRules, Sources, host_table, source_table};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketType, recv, sendto};

use crate::packets::{GATEWAY, hears_nothing, net, node_on_bridge, rules};
use crate::support::{Node, sender, socket, with_nft};

const FIRST: Ipv4Addr = Ipv4Addr::new(10, 89, 0, 2);
const SECOND: Ipv4Addr = Ipv4Addr::new(10, 89, 0, 3);
const API: Ipv4Addr = Ipv4Addr::new(10, 89, 0, 254);

fn two_nodes() -> (Net, Node, Node) {
    let host = Net::here().unwrap();
    host.ensure_up("lo").unwrap();
    let first = node_on_bridge(&host, "a", net("10.89.0.1/24"), net("10.89.0.2/24"));
    let second = node_on_bridge(&host, "a", net("10.89.0.1/24"), net("10.89.0.3/24"));
    for node in [&first, &second] {
        // What the test is about has to be seen, whatever way the answer would take.
        node.set("net/ipv4/conf/all/rp_filter", "0");
        node.set("net/ipv4/conf/eth0/rp_filter", "0");
    }
    (host, first, second)
}

fn source_rules(others: &Others) -> SourceRules {
    let node = |address: Ipv4Addr, virtual_ip| Sources {
        link: format!("fl-a-{}", address.octets()[3]),
        address,
        virtual_ip,
        others: others.clone(),
    };
    SourceRules {
        table: "flotilla-a".to_owned(),
        subnet: net("10.89.0.1/24"),
        nodes: vec![node(FIRST, Some(API)), node(SECOND, None)],
    }
}

fn pods() -> Others {
    Others::Pods(net("10.244.1.0/24"))
}

/// A socket in a node at an address that the node gives itself.
fn claimed(node: &Node, address: &str) -> UdpSocket {
    Net::of_process(node.process()).unwrap().ensure_address("eth0", net(&format!("{address}/32"))).unwrap();
    node.socket(&format!("{address}:0"))
}

#[test]
fn a_node_is_heard_by_its_own_addresses_and_its_pods_alone() {
    with_nft(|nft| {
        let (_host, first, second) = two_nodes();
        let listener = second.socket("0.0.0.0:30000");
        let speak = |from: &UdpSocket| from.send_to(b"hello", (SECOND, 30000)).unwrap();
        let (own, pod) = (first.socket("10.89.0.2:0"), claimed(&first, "10.244.1.5"));
        let strangers = ["10.89.0.9", "192.0.2.9", "10.244.2.5"].map(|address| claimed(&first, address));
        speak(&own);
        assert_eq!(sender(&listener).ip(), FIRST);
        for stranger in &strangers {
            speak(stranger);
            assert_eq!(sender(&listener).ip(), stranger.local_addr().unwrap().ip());
        }
        nft.apply(&source_table(&source_rules(&pods()))).unwrap();
        for stranger in &strangers {
            speak(stranger);
        }
        assert!(hears_nothing(&listener));
        for known in [&own, &pod] {
            speak(known);
            assert_eq!(sender(&listener).ip(), known.local_addr().unwrap().ip());
        }
        // A pod network that is not ours has addresses of its own; those of nodes are still theirs.
        nft.apply(&source_table(&source_rules(&Others::Any))).unwrap();
        speak(&strangers[0]);
        assert!(hears_nothing(&listener));
        speak(&strangers[1]);
        assert_eq!(sender(&listener).ip(), Ipv4Addr::new(192, 0, 2, 9));
    });
}

#[test]
fn a_node_cannot_claim_an_address_but_the_control_plane_that_of_the_api() {
    with_nft(|nft| {
        let (_host, first, second) = two_nodes();
        nft.apply(&source_table(&source_rules(&pods()))).unwrap();
        let host = socket("0.0.0.0:0");
        // What the node hears when the host speaks to an address that the node gives itself.
        let claim = |node: &Node, address: Ipv4Addr| {
            drop(claimed(node, &address.to_string()));
            let listener = node.socket("0.0.0.0:30000");
            host.send_to(b"hello", (address, 30000)).unwrap();
            listener
        };
        for (node, address) in [(&first, FIRST), (&second, SECOND)] {
            assert_eq!(sender(&claim(node, address)).ip(), GATEWAY);
        }
        assert!(hears_nothing(&claim(&second, Ipv4Addr::new(10, 89, 0, 9))), "nobody's address");
        assert!(hears_nothing(&claim(&second, API)), "a worker claims the API's");
        assert_eq!(sender(&claim(&first, API)).ip(), GATEWAY);
        assert!(nft.has_source_table(&source_rules(&pods())).unwrap());
        assert!(!nft.has_source_table(&source_rules(&Others::Any)).unwrap());
        nft.apply(&source_table(&SourceRules { nodes: Vec::new(), ..source_rules(&pods()) })).unwrap();
        assert!(!nft.table_exists("bridge", "flotilla-a").unwrap());
    });
}

/// The bridge sends what is for a MAC address to the port where it last saw a packet from it.
#[test]
fn a_node_cannot_take_packets_away_by_the_mac_address_of_another() {
    with_nft(|nft| {
        let (_host, first, second) = two_nodes();
        let (victim, host) = (first.socket("10.89.0.2:30000"), socket("0.0.0.0:0"));
        let speak = || host.send_to(b"hello", (FIRST, 30000)).unwrap();
        // Whoever hears a packet for the first time asks for the address: the second one is not lost.
        speak();
        assert_eq!(sender(&victim).ip(), GATEWAY);
        let steal = || {
            second.ip("link set eth0 address 02:f1:0a:59:00:02");
            second.socket("10.89.0.3:0").send_to(b"hello", (GATEWAY, 9)).unwrap();
        };
        steal();
        speak();
        assert!(hears_nothing(&victim), "without rules it works");
        for others in [pods(), Others::Any] {
            nft.apply(&source_table(&source_rules(&others))).unwrap();
            // The bridge sees it where it is again.
            first.socket("10.89.0.2:0").send_to(b"hello", (GATEWAY, 9)).unwrap();
            steal();
            speak();
            assert_eq!(sender(&victim).ip(), GATEWAY, "{others:?}");
        }
    });
}

/// keepalived's protocol: who claims the highest priority gets the virtual IP.
#[test]
fn a_worker_has_no_voice_in_who_holds_the_address_of_the_api() {
    with_nft(|nft| {
        let (_host, first, second) = two_nodes();
        // What is to come is waited for, however slow the machine is; what is not to come would come at once.
        let (heard, unheard) = (Duration::from_mins(1), Duration::from_millis(500));
        let claim = |from: &Node, to: &Node, address: Ipv4Addr, limit: Duration| {
            let listener = to.inside(vrrp);
            set_socket_timeout(&listener, Timeout::Recv, Some(limit)).unwrap();
            let advert = [0x31, 1, 255, 1];
            let sent =
                |socket: OwnedFd| sendto(socket, &advert, SendFlags::empty(), &SocketAddrV4::new(address, 0));
            from.inside(|| sent(vrrp())).unwrap();
            recv(listener, &mut [0; 64], RecvFlags::empty()).is_ok()
        };
        assert!(claim(&second, &first, FIRST, heard), "without rules it is heard");
        nft.apply(&source_table(&source_rules(&pods()))).unwrap();
        assert!(!claim(&second, &first, FIRST, unheard), "a worker claims the address");
        assert!(claim(&first, &second, SECOND, heard), "a control plane may");
    });
}

fn vrrp() -> OwnedFd {
    let protocol = NonZero::new(112).map(Protocol::from_raw);
    rustix::net::socket(AddressFamily::INET, SocketType::RAW, protocol).unwrap()
}

#[test]
fn nodes_reach_the_host_at_its_address_in_their_network_and_at_no_other() {
    with_nft(|nft| {
        let (host, node, _) = two_nodes();
        // Another network of the host: its neighbours', or another cluster's.
        drop(node_on_bridge(&host, "b", net("192.0.2.1/24"), net("192.0.2.2/24")));
        let service = socket("0.0.0.0:8080");
        let speak = |address: Ipv4Addr| {
            node.socket("0.0.0.0:0").send_to(b"hello", (address, 8080)).unwrap();
        };
        let elsewhere = Ipv4Addr::new(192, 0, 2, 1);
        for address in [GATEWAY, elsewhere] {
            speak(address);
            assert_eq!(sender(&service).ip(), FIRST);
        }
        nft.apply(&host_table(&rules(None))).unwrap();
        speak(elsewhere);
        assert!(hears_nothing(&service));
        speak(GATEWAY);
        assert_eq!(sender(&service).ip(), FIRST);
        let everybody = node.socket("0.0.0.0:0");
        everybody.set_broadcast(true).unwrap();
        everybody.send_to(b"hello", "10.89.0.255:8080").unwrap();
        assert!(hears_nothing(&service), "what is sent to all is not for the host");
    });
}
