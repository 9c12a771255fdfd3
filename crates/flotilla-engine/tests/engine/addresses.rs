//! What is handed out: no two nodes ever have the same, whatever came and went.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use flotilla_core::{Allocation, Allocations, Cluster, Node};
use flotilla_spec::{ClusterFile, NodeName, NodeSpec, Role};
use ipnet::Ipv4Net;
use proptest::prelude::*;

/// A cluster without nodes.
fn empty(subnet: &str, pod_subnet: &str, prefix: u8) -> Cluster {
    let text = "apiVersion: flotilla.dev/v1\nkind: Cluster\nname: demo";
    let file = ClusterFile::read("a.yaml", text).unwrap();
    let mut spec = file.expanded(&"v1.37.1".parse().unwrap());
    spec.nodes.clear();
    spec.network.node_pod_prefix = prefix;
    let (subnet, pod_subnet) = (subnet.parse().unwrap(), pod_subnet.parse().unwrap());
    Cluster::new(spec, Allocations::new(subnet, pod_subnet, "0123".to_owned()))
}

fn name(index: u32) -> NodeName {
    format!("n{index}").parse().unwrap()
}

/// The node's number; none if there is no room for it.
fn add(cluster: &mut Cluster, node: &NodeName) -> Option<u32> {
    let number = cluster.allocations.allocate(node, cluster.spec.network.node_pod_prefix)?.number;
    if !cluster.spec.nodes.iter().any(|known| known.name == *node) {
        cluster.spec.nodes.push(NodeSpec::plain(node.clone(), Role::Worker));
    }
    Some(number)
}

fn remove(cluster: &mut Cluster, node: &NodeName) {
    cluster.allocations.release(node);
    cluster.spec.nodes.retain(|known| known.name != *node);
}

/// As the next command finds it.
fn reload(cluster: &mut Cluster) {
    let text = serde_json::to_string(&cluster.allocations).unwrap();
    cluster.allocations = serde_json::from_str(&text).unwrap();
}

/// How many nodes there is room for.
fn room(cluster: &Cluster) -> u32 {
    let Allocations { subnet, pod_subnet, .. } = cluster.allocations;
    // No node has the network's own address, the gateway's, the virtual one or the broadcast's.
    let addresses = (1 << (32 - subnet.prefix_len())) - 4;
    addresses.min(1 << (cluster.spec.network.node_pod_prefix - pod_subnet.prefix_len()))
}

fn overlap(one: Ipv4Net, other: Ipv4Net) -> bool {
    one.contains(&other) || other.contains(&one)
}

fn assert_apart(cluster: &Cluster) {
    let Allocations { subnet, pod_subnet, .. } = cluster.allocations;
    let nodes: Vec<Node> = cluster.nodes().collect();
    assert_eq!(nodes.len(), cluster.spec.nodes.len(), "each node has an address");
    let nobodys = [subnet.network(), subnet.broadcast(), cluster.gateway(), cluster.virtual_ip()];
    let mut seen: BTreeSet<Ipv4Addr> = nobodys.into();
    let mut ranges: Vec<Ipv4Net> = nodes.iter().map(|node| node.pod_range).collect();
    for node in &nodes {
        assert!(subnet.contains(&node.address) && seen.insert(node.address), "{node:?}");
        assert!(pod_subnet.contains(&node.pod_range), "{node:?}");
        assert_eq!(node.pod_range.prefix_len(), cluster.spec.network.node_pod_prefix);
    }
    // In order, only neighbours could overlap.
    ranges.sort();
    assert!(ranges.windows(2).all(|pair| !overlap(pair[0], pair[1])), "{ranges:?}");
}

fn fill(cluster: &mut Cluster, count: u32) {
    for index in 1..=count {
        assert_eq!(add(cluster, &name(index)), Some(index));
    }
    assert_apart(cluster);
}

#[test]
fn a_thousand_nodes_have_room() {
    let mut cluster = empty("10.213.0.0/20", "10.240.0.0/12", 24);
    fill(&mut cluster, 1000);
    let last = cluster.node(&name(1000)).unwrap();
    assert_eq!(last.address.to_string(), "10.213.3.233");
    assert_eq!(last.pod_range.to_string(), "10.243.231.0/24");
}

#[test]
fn a_nodes_pod_range_is_as_large_as_wanted() {
    for (prefix, count, range) in
        [(22, 64, "10.244.252.0/22"), (24, 252, "10.244.251.0/24"), (26, 252, "10.244.62.192/26")]
    {
        let mut cluster = empty("10.213.0.0/24", "10.244.0.0/16", prefix);
        assert_eq!(room(&cluster), count);
        fill(&mut cluster, count);
        assert_eq!(cluster.node(&name(count)).unwrap().pod_range.to_string(), range);
        assert_eq!(add(&mut cluster, &name(count + 1)), None, "/{prefix}");
    }
}

#[test]
fn a_freed_number_is_given_out_again_only_when_no_other_is_left() {
    let mut cluster = empty("10.213.0.0/28", "10.244.0.0/16", 24);
    fill(&mut cluster, 3);
    for freed in [3, 1] {
        remove(&mut cluster, &name(freed));
        reload(&mut cluster);
    }
    let numbers: Vec<_> = (11..=22).map(|index| add(&mut cluster, &name(index))).collect();
    assert_eq!(numbers[..9], [4, 5, 6, 7, 8, 9, 10, 11, 12].map(Some));
    assert_eq!(numbers[9..], [Some(1), Some(3), None]);
    assert_apart(&cluster);
}

#[test]
fn state_of_the_first_versions_has_no_highest_number() {
    let mut cluster = empty("10.213.0.0/24", "10.244.0.0/16", 24);
    for number in [1, 5] {
        let Allocations { subnet, pod_subnet, .. } = cluster.allocations;
        let allocation = Allocation::of(number, subnet, pod_subnet, 24).unwrap();
        cluster.allocations.nodes.insert(name(100 + number), allocation);
    }
    assert_eq!(cluster.allocations.highest, 0);
    assert_eq!(add(&mut cluster, &name(1)), Some(6));
}

/// What commands do to a cluster, one after the other.
#[derive(Debug, Clone)]
enum Deed {
    Add(u32),
    Remove(u32),
    Reload,
    /// What was handed out so far is saved, and machines are made of it, never before.
    Save,
    /// The command is killed: what it had not saved is as if it had never been.
    Crash,
}

fn any_deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        4 => (0_u32..24).prop_map(Deed::Add),
        3 => (0_u32..24).prop_map(Deed::Remove),
        1 => Just(Deed::Reload),
        2 => Just(Deed::Save),
        1 => Just(Deed::Crash),
    ]
}

fn any_cluster() -> impl Strategy<Value = Cluster> {
    let subnets =
        prop::sample::select(vec!["10.213.0.0/28", "10.213.0.16/28", "10.213.0.0/27", "10.0.0.0/24"]);
    let pods =
        prop::sample::select(vec![("10.244.0.0/16", 24), ("10.244.0.0/21", 24), ("10.244.0.0/20", 26)]);
    (subnets, pods).prop_map(|(subnet, (pods, prefix))| empty(subnet, pods, prefix))
}

proptest! {
    #[test]
    fn whatever_comes_and_goes_nodes_are_apart(
        mut cluster in any_cluster(),
        deeds in prop::collection::vec(any_deed(), 0..120),
    ) {
        let room = room(&cluster);
        let mut used = BTreeSet::new();
        let mut saved = (cluster.clone(), used.clone());
        let mut machines = BTreeMap::new();
        for deed in deeds {
            match deed {
                Deed::Add(index) => {
                    let node = name(index);
                    let before = cluster.allocations.nodes.get(&node).map(|allocated| allocated.number);
                    let number = add(&mut cluster, &node);
                    match (before, number) {
                        // A node keeps what it has.
                        (Some(_), _) => prop_assert_eq!(number, before),
                        (None, Some(number)) => {
                            let is_reused = !used.insert(number);
                            prop_assert!(!is_reused || (1..=room).all(|number| used.contains(&number)));
                        }
                        (None, None) => prop_assert_eq!(cluster.allocations.nodes.len(), room as usize),
                    }
                }
                Deed::Remove(index) => {
                    machines.remove(&name(index));
                    remove(&mut cluster, &name(index));
                }
                Deed::Reload => reload(&mut cluster),
                Deed::Save => {
                    saved = (cluster.clone(), used.clone());
                    machines.clone_from(&cluster.allocations.nodes);
                }
                Deed::Crash => (cluster, used) = saved.clone(),
            }
            // No machine lost its number to another node, and every machine is known.
            for (node, number) in &machines {
                prop_assert_eq!(cluster.allocations.nodes.get(node), Some(number));
            }
            assert_apart(&cluster);
        }
    }
}
