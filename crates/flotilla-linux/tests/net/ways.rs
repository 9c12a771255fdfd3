//! What many routes and many links cost, and that others may change them meanwhile.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};

use flotilla_linux::net::Net;
use ipnet::Ipv4Net;

use crate::support::in_new_namespace;

const BRIDGE: &str = "fl-test";

fn with_bridge() -> Net {
    let host = Net::here().unwrap();
    host.ensure_bridge(BRIDGE, "flotilla/test", "10.89.0.1/24".parse().unwrap(), 1500).unwrap();
    host
}

fn pods() -> Ipv4Net {
    "10.244.0.0/16".parse().unwrap()
}

/// The way to the pods of a node.
fn way(number: u8) -> (Ipv4Net, Ipv4Addr) {
    let range = Ipv4Net::new(Ipv4Addr::new(10, 244, number, 0), 24).unwrap();
    (range, Ipv4Addr::new(10, 89, 0, number + 1))
}

/// How many requests something costs.
fn cost<T>(net: &Net, work: impl FnOnce() -> T) -> (u64, T) {
    let before = net.requests();
    let done = work();
    (net.requests() - before, done)
}

#[test]
fn a_way_costs_one_request_however_many_there_are() {
    in_new_namespace(|| {
        let host = with_bridge();
        assert_eq!(cost(&host, || host.put_ways(BRIDGE, (1..=40).map(way)).unwrap()).0, 1 + 40);
        assert_eq!(cost(&host, || host.put_ways(BRIDGE, [way(41)]).unwrap()).0, 1 + 1);
        let (requests, ways) = cost(&host, || host.ways(BRIDGE, pods()).unwrap());
        assert_eq!(requests, 2);
        let expected: BTreeMap<_, _> = (1..=41).map(way).map(|(range, via)| (range, Some(via))).collect();
        assert_eq!(ways, expected);
    });
}

#[test]
fn a_way_replaces_the_one_there_was_and_others_are_not_seen() {
    in_new_namespace(|| {
        let host = with_bridge();
        host.ensure_bridge("fl-other", "flotilla/other", "10.90.0.1/24".parse().unwrap(), 1500).unwrap();
        let (range, via) = way(1);
        let elsewhere = Ipv4Addr::new(10, 89, 0, 99);
        host.put_ways(BRIDGE, [(range, elsewhere)]).unwrap();
        host.put_ways(BRIDGE, [(range, via)]).unwrap();
        host.put_ways("fl-other", [(way(2).0, Ipv4Addr::new(10, 90, 0, 2))]).unwrap();
        host.put_ways(BRIDGE, [("10.245.0.0/24".parse().unwrap(), via)]).unwrap();
        assert_eq!(host.ways(BRIDGE, pods()).unwrap(), [(range, Some(via))].into());
        assert_eq!(host.ways("not-there", pods()).unwrap_err().to_string(), "there is no link not-there");
    });
}

#[test]
fn a_link_costs_one_request_however_many_there_are() {
    in_new_namespace(|| {
        let host = with_bridge();
        assert_eq!(cost(&host, || host.find_link(BRIDGE).unwrap()).0, 1);
    });
}

#[test]
fn lists_are_whole_while_others_come_and_go() {
    in_new_namespace(|| {
        let host = with_bridge();
        for number in 1..=60 {
            let address = Ipv4Net::new(Ipv4Addr::new(10, 91, number, 1), 24).unwrap();
            host.ensure_bridge(&format!("fl-{number}"), "flotilla/test", address, 1500).unwrap();
        }
        let end = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let other = Net::here().unwrap();
                while !end.load(Ordering::Relaxed) {
                    other
                        .ensure_bridge("fl-0", "flotilla/test", "10.92.0.1/24".parse().unwrap(), 1500)
                        .unwrap();
                    other.delete_link("fl-0").unwrap();
                }
            });
            let _end = End(&end);
            for _ in 0..20 {
                let links = host.links().unwrap();
                let lasting = links.iter().filter(|link| link.kind == "bridge" && link.name != "fl-0");
                let addresses = host.addresses().unwrap().into_iter().filter(|found| found.link != "fl-0");
                assert_eq!((lasting.count(), addresses.count()), (61, 61));
            }
        });
    });
}

/// Ends the other thread, also after a failure.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
