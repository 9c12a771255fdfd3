//! Bridges, cables, addresses and routes.

use std::net::Ipv4Addr;

use flotilla_linux::net::{AddressInfo, Changed, Net, NetError, RouteInfo, Veth};
use flotilla_linux::process::Process;
use flotilla_linux::sysctl;
use ipnet::Ipv4Net;

use crate::support::{Node, in_new_namespace, ip, namespace, sender, socket};

pub(crate) const BRIDGE: &str = "fl-test";
pub(crate) const OWNER: &str = "flotilla/test";
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 89, 0, 1);

fn net(text: &str) -> Ipv4Net {
    text.parse().unwrap()
}

pub(crate) fn ensure_bridge(host: &Net) -> Changed {
    host.ensure_bridge(BRIDGE, OWNER, net("10.89.0.1/24"), 1400).unwrap()
}

pub(crate) const CABLE: Veth<'static> =
    Veth { name: "fl-test-1", alias: "flotilla/test/node-1", bridge: BRIDGE, loose_end: "fl-loose" };

/// Lays a new cable to a node.
fn connect(host: &Net, node: &Process) {
    host.delete_link(CABLE.name).unwrap();
    assert_eq!(host.ensure_veth(&CABLE).unwrap(), Changed::Yes);
    assert_eq!(host.move_link(CABLE.loose_end, node, "eth0").unwrap(), Changed::Yes);
}

#[test]
fn a_bridge_is_made_once() {
    in_new_namespace(|| {
        let host = Net::here().unwrap();
        assert_eq!(host.find_link(BRIDGE).unwrap(), None);
        assert_eq!(ensure_bridge(&host), Changed::Yes);
        assert_eq!(ensure_bridge(&host), Changed::No);
        let link = host.find_link(BRIDGE).unwrap().unwrap();
        assert_eq!((link.kind.as_str(), link.alias.as_str(), link.mtu), ("bridge", OWNER, 1400));
        assert!(link.up);
        assert_eq!(host.links().unwrap().iter().filter(|other| other.name == BRIDGE).count(), 1);
        let address = AddressInfo { link: BRIDGE.to_owned(), address: net("10.89.0.1/24") };
        assert_eq!(host.addresses().unwrap(), [address]);
        let connected = RouteInfo { dst: net("10.89.0.0/24"), via: None, link: Some(BRIDGE.to_owned()) };
        assert_eq!(host.routes().unwrap(), [connected]);
    });
}

#[test]
fn a_bridge_that_was_changed_is_put_right() {
    in_new_namespace(|| {
        let host = Net::here().unwrap();
        ensure_bridge(&host);
        assert_eq!(host.ensure_bridge(BRIDGE, OWNER, net("10.89.0.1/24"), 1300).unwrap(), Changed::Yes);
        assert_eq!(host.find_link(BRIDGE).unwrap().unwrap().mtu, 1300);
        host.remove_address(BRIDGE, net("10.89.0.1/24")).unwrap();
        assert_eq!(ensure_bridge(&host), Changed::Yes);
        assert_eq!(host.addresses().unwrap().len(), 1);
    });
}

#[test]
fn links_of_others_are_left_alone() {
    in_new_namespace(|| {
        let host = Net::here().unwrap();
        ensure_bridge(&host);
        let error = host.ensure_bridge(BRIDGE, "flotilla/other", net("10.90.0.1/24"), 1500).unwrap_err();
        assert!(matches!(error, NetError::Foreign { .. }), "{error}");
        let error = host.ensure_bridge("lo", OWNER, net("10.90.0.1/24"), 1500).unwrap_err();
        assert!(matches!(error, NetError::Foreign { .. }), "{error}");
        let error = host.ensure_veth(&Veth { name: BRIDGE, ..CABLE }).unwrap_err();
        assert!(matches!(error, NetError::Foreign { .. }), "{error}");
        assert_eq!(ensure_bridge(&host), Changed::No);
    });
}

#[test]
fn a_node_on_a_cable_talks_to_the_host() {
    in_new_namespace(|| {
        let host = Net::here().unwrap();
        ensure_bridge(&host);
        let before = host.find_link(BRIDGE).unwrap().unwrap();
        let node = Node::start();
        connect(&host, node.process());
        let link = host.find_link("fl-test-1").unwrap().unwrap();
        assert_eq!((link.kind.as_str(), link.alias.as_str()), ("veth", "flotilla/test/node-1"));
        assert_eq!((link.master, link.up, link.mtu), (Some(before.index), true, 1400));
        assert_eq!(host.find_link("eth0").unwrap(), None);
        assert_eq!(host.find_link(BRIDGE).unwrap().unwrap().hardware_address, before.hardware_address);

        let here = namespace();
        let inner = Net::of_process(node.process()).unwrap();
        assert_eq!(namespace(), here);
        assert_eq!(inner.configure("eth0", net("10.89.0.2/24"), GATEWAY).unwrap(), Changed::Yes);
        assert_eq!(inner.configure("eth0", net("10.89.0.2/24"), GATEWAY).unwrap(), Changed::No);
        let links = inner.links().unwrap();
        assert!(
            links.iter().all(|link| link.up || !["lo", "eth0"].contains(&link.name.as_str())),
            "{links:?}"
        );
        assert_eq!(inner.find_link("eth0").unwrap().unwrap().mtu, 1400);
        let default =
            RouteInfo { dst: Ipv4Net::default(), via: Some(GATEWAY), link: Some("eth0".to_owned()) };
        assert!(inner.routes().unwrap().contains(&default));
        assert_eq!(heard_from(&node), "10.89.0.2");
    });
}

#[test]
fn a_new_cable_replaces_the_old_one_and_is_found_at_once() {
    in_new_namespace(|| {
        let host = Net::here().unwrap();
        ensure_bridge(&host);
        let hardware_addresses = [(); 2].map(|()| {
            let node = Node::start();
            connect(&host, node.process());
            let inner = Net::of_process(node.process()).unwrap();
            inner.configure("eth0", net("10.89.0.2/24"), GATEWAY).unwrap();
            assert_eq!(heard_from(&node), "10.89.0.2");
            // The next one comes while this one is still there.
            (inner.find_link("eth0").unwrap().unwrap().hardware_address, node)
        });
        let [(first, old), (second, _new)] = hardware_addresses;
        assert_eq!(first, second);
        let gone = Net::of_process(old.process()).unwrap().find_link("eth0").unwrap();
        assert_eq!(gone, None);
    });
}

#[test]
fn routes_and_addresses_come_and_go() {
    in_new_namespace(|| {
        let host = Net::here().unwrap();
        ensure_bridge(&host);
        let (pods, address) = (net("10.244.1.0/24"), net("10.89.0.9/32"));
        let (first, second) = (Ipv4Addr::new(10, 89, 0, 2), Ipv4Addr::new(10, 89, 0, 3));
        let way =
            || host.routes().unwrap().into_iter().find(|route| route.dst == pods).and_then(|found| found.via);
        assert_eq!(host.ensure_route(pods, first, BRIDGE).unwrap(), Changed::Yes);
        assert_eq!(host.ensure_route(pods, first, BRIDGE).unwrap(), Changed::No);
        assert_eq!(way(), Some(first));
        assert_eq!(host.ensure_route(pods, second, BRIDGE).unwrap(), Changed::Yes);
        assert_eq!(way(), Some(second));
        assert_eq!(host.remove_route(pods).unwrap(), Changed::Yes);
        assert_eq!(host.remove_route(pods).unwrap(), Changed::No);
        assert_eq!(way(), None);
        // The one that follows from the bridge's address is not ours to remove.
        assert_eq!(host.remove_route(net("10.89.0.0/24")).unwrap(), Changed::No);

        assert_eq!(host.ensure_address(BRIDGE, address).unwrap(), Changed::Yes);
        assert_eq!(host.ensure_address(BRIDGE, address).unwrap(), Changed::No);
        assert_eq!(host.addresses().unwrap().len(), 2);
        assert_eq!(host.remove_address(BRIDGE, address).unwrap(), Changed::Yes);
        assert_eq!(host.remove_address(BRIDGE, address).unwrap(), Changed::No);
        assert_eq!(host.remove_address("not-there", address).unwrap(), Changed::No);

        let error = host.ensure_route(pods, Ipv4Addr::new(192, 0, 2, 1), BRIDGE).unwrap_err();
        assert_eq!(error.to_string(), "cannot route 10.244.1.0/24 through 192.0.2.1 on fl-test");
        let error = host.ensure_address("not-there", address).unwrap_err();
        assert_eq!(error.to_string(), "there is no link not-there");
    });
}

#[test]
fn a_cable_is_laid_once_and_put_into_its_bridge_again() {
    in_new_namespace(|| {
        let host = Net::here().unwrap();
        ensure_bridge(&host);
        let node = Node::start();
        assert_eq!(host.ensure_veth(&CABLE).unwrap(), Changed::Yes);
        assert_eq!(host.ensure_veth(&CABLE).unwrap(), Changed::No);
        assert!(!host.find_link(CABLE.loose_end).unwrap().unwrap().up, "nothing is plugged in");
        assert_eq!(host.move_link(CABLE.loose_end, node.process(), "eth0").unwrap(), Changed::Yes);
        assert_eq!(host.move_link(CABLE.loose_end, node.process(), "eth0").unwrap(), Changed::No);
        assert_eq!(host.ensure_veth(&CABLE).unwrap(), Changed::No, "it is kept where it is plugged in");
        let inner = Net::of_process(node.process()).unwrap();
        inner.configure("eth0", net("10.89.0.2/24"), GATEWAY).unwrap();

        host.delete_link(BRIDGE).unwrap();
        ensure_bridge(&host);
        assert_eq!(host.find_link(CABLE.name).unwrap().unwrap().master, None);
        assert_eq!(host.ensure_veth(&CABLE).unwrap(), Changed::Yes);
        assert_eq!(heard_from(&node), "10.89.0.2");
        host.ensure_mtu(CABLE.name, 1300).unwrap();
        assert_eq!(host.ensure_veth(&CABLE).unwrap(), Changed::Yes);
        assert_eq!(host.find_link(CABLE.name).unwrap().unwrap().mtu, 1400);
    });
}

#[test]
fn all_links_of_an_owner_are_deleted_and_no_others() {
    in_new_namespace(|| {
        let host = Net::here().unwrap();
        ensure_bridge(&host);
        host.ensure_bridge("fl-test2", "flotilla/test2", net("10.90.0.1/24"), 1500).unwrap();
        let node = Node::start();
        connect(&host, node.process());
        // A port that was not given its alias any more, and one that somebody else has put there.
        ip("link add fl-test-2 type veth peer name fl-loose");
        ip("link add others type veth peer name others-2");
        for port in ["fl-test-2", "others"] {
            ip(&format!("link set {port} master {BRIDGE}"));
        }
        let mut deleted = host.delete_links_of(OWNER, "fl-test-").unwrap();
        deleted.sort();
        assert_eq!(deleted, [BRIDGE, "fl-test-1", "fl-test-2"]);
        assert_eq!(host.delete_links_of(OWNER, "fl-test-").unwrap(), [] as [String; 0]);
        assert!(host.find_link("others").unwrap().is_some());
        assert!(host.find_link("fl-test2").unwrap().is_some());
        assert_eq!(host.delete_link("fl-test2").unwrap(), Changed::Yes);
        assert_eq!(host.delete_link("fl-test2").unwrap(), Changed::No);
    });
}

#[test]
fn a_dead_process_has_no_namespace() {
    in_new_namespace(|| {
        let node = Node::start();
        let process = node.process().clone();
        drop(node);
        let error = Net::of_process(&process).unwrap_err();
        assert!(matches!(error, NetError::Enter { .. }), "{error:?}");
    });
}

#[test]
fn settings_of_the_network_are_those_of_the_namespace() {
    in_new_namespace(|| {
        let (forward, low) = ("net/ipv4/ip_forward", "net/ipv4/ip_default_ttl");
        sysctl::set(forward, "0").unwrap();
        assert_eq!(sysctl::set(forward, "1").unwrap().as_deref(), Some("0"));
        assert_eq!(sysctl::set(forward, "1").unwrap(), None);
        assert_eq!(sysctl::raise(low, 65).unwrap(), Some(64));
        assert_eq!(sysctl::raise(low, 10).unwrap(), None);
        assert_eq!(sysctl::get(low).unwrap(), "65");
    });
}

/// Sends a packet from a node to the gateway and tells who it came from.
fn heard_from(node: &Node) -> String {
    let listener = socket("10.89.0.1:0");
    node.socket("0.0.0.0:0").send_to(b"hello", listener.local_addr().unwrap()).unwrap();
    sender(&listener).ip().to_string()
}
