//! What the network of every host must do.

use std::net::SocketAddrV4;

use flotilla_core::cluster::API_PORT;
use flotilla_core::network::LINK;
use flotilla_core::{Changed, Cluster, NetworkNode, NetworkPlan, NetworkState, PortKind};
use flotilla_spec::{ClusterName, NodeSpec, Role, WantedPower};

use super::{Case, Subject, cases, node};

/// All cases, by name.
pub const CASES: &[(&str, Case)] = cases![
    nothing_is_there_before_it_is_made,
    a_network_is_made_once_and_seen_by_others,
    a_network_with_other_ports_is_outdated,
    the_host_knows_the_way_to_the_nodes_of_the_plan,
    without_a_network_there_is_nothing_to_update,
    a_node_has_one_port_until_it_is_removed,
    no_two_nodes_have_the_same_port,
    the_api_is_reached,
];

async fn nothing_is_there_before_it_is_made(subject: Subject<'_>, cluster: &Cluster) {
    assert_eq!(subject.found(cluster).await, []);
    assert_eq!(subject.network_state(cluster).await, NetworkState::Incomplete);
}

async fn a_network_is_made_once_and_seen_by_others(subject: Subject<'_>, cluster: &Cluster) {
    subject.make_network(cluster).await;
    subject.make_network(cluster).await;
    assert_eq!(subject.network_state(cluster).await, NetworkState::Intact);
    let stranger: ClusterName = "stranger".parse().expect("it is a name");
    let subnet = cluster.allocations.subnet;
    for (name, sees_it) in [(&stranger, true), (cluster.name(), false)] {
        let used = subject.network().used(name).await.expect("subnets can be listed");
        assert_eq!(used.iter().any(|used| used.range == subnet), sees_it, "{name} sees {used:?}");
    }
}

fn with_ports(cluster: &Cluster, ports: &[&str]) -> Cluster {
    let mut cluster = cluster.clone();
    cluster.spec.nodes[0].ports = ports.iter().map(|port| port.parse().expect("a port")).collect();
    cluster
}

async fn a_network_with_other_ports_is_outdated(subject: Subject<'_>, cluster: &Cluster) {
    let state = async |cluster: &Cluster| subject.network_state(cluster).await;
    subject.make_network(cluster).await;
    let one = with_ports(cluster, &["127.9.9.9:8080:80"]);
    assert_eq!(state(&one).await, NetworkState::Outdated, "a port is missing");
    subject.make_network(&one).await;
    assert_eq!(state(&one).await, NetworkState::Intact);
    let two = with_ports(cluster, &["127.9.9.9:8080:81", "127.9.9.9:53:53/udp"]);
    assert_eq!(state(&two).await, NetworkState::Outdated, "the port leads elsewhere");
    assert_eq!(subject.update_network(&two).await, Changed::Yes);
    assert_eq!(state(&two).await, NetworkState::Intact);
    assert_eq!(subject.update_network(&two).await, Changed::No);
    assert_eq!(state(cluster).await, NetworkState::Outdated, "it has ports that no node wants");
    for expected in [Changed::Yes, Changed::No] {
        let unpublished = subject.network().unpublish(cluster.name(), node(cluster)).await;
        assert_eq!(unpublished.expect("ports can be closed"), expected);
    }
    assert_eq!(state(&two).await, NetworkState::Outdated, "they are closed");
    let mut off = two.clone();
    off.spec.nodes[0].power = WantedPower::Stopped;
    subject.update_network(&off).await;
    assert_eq!(state(&off).await, NetworkState::Intact, "no port leads to a node that is not to run");
    assert_eq!(state(cluster).await, NetworkState::Intact);
}

async fn the_host_knows_the_way_to_the_nodes_of_the_plan(subject: Subject<'_>, cluster: &Cluster) {
    subject.make_network(cluster).await;
    let mut larger = cluster.clone();
    larger.spec.nodes.push(NodeSpec::plain("te-other".parse().expect("it is a name"), Role::Worker));
    larger.allocate().expect("there is room");
    assert_eq!(subject.network_state(&larger).await, NetworkState::Outdated);
    assert_eq!(subject.update_network(&larger).await, Changed::Yes);
    assert_eq!(subject.network_state(&larger).await, NetworkState::Intact);
    assert_eq!(subject.network_state(cluster).await, NetworkState::Outdated, "one is gone");
}

async fn without_a_network_there_is_nothing_to_update(subject: Subject<'_>, cluster: &Cluster) {
    assert_eq!(subject.update_network(cluster).await, Changed::No);
    assert_eq!(subject.network_state(cluster).await, NetworkState::Incomplete);
    let unpublished = subject.network().unpublish(cluster.name(), node(cluster)).await;
    assert_eq!(unpublished.expect("there is nothing to close"), Changed::No);
}

async fn a_node_has_one_port_until_it_is_removed(subject: Subject<'_>, cluster: &Cluster) {
    let (network, primary) =
        (subject.network(), NetworkNode::of(&cluster.primary().expect("it has addresses")));
    subject.make_network(cluster).await;
    let mtu = network.link(&NetworkPlan::of(cluster)).await.expect("it has a link").mtu;
    // A driver of another kind may have had the node before.
    for kind in [PortKind::Veth, PortKind::Tap, PortKind::Veth] {
        let port = network.ensure_port(cluster.name(), &primary, kind).await.expect("a port can be made");
        assert_eq!((port.kind, port.name_inside.as_str(), port.mtu), (kind, LINK, mtu));
        let again = network.ensure_port(cluster.name(), &primary, kind).await;
        assert_eq!(again.expect("it exists"), port);
        assert_eq!(subject.network_state(cluster).await, NetworkState::Intact, "{kind:?}");
        subject.make_network(cluster).await;
        let again = network.ensure_port(cluster.name(), &primary, kind).await;
        assert_eq!(again.expect("it is kept"), port);
        for expected in [Changed::Yes, Changed::No] {
            let removed = network.remove_port(cluster.name(), node(cluster)).await;
            assert_eq!(removed.expect("a port can be removed"), expected);
        }
    }
}

async fn no_two_nodes_have_the_same_port(subject: Subject<'_>, cluster: &Cluster) {
    let mut larger = cluster.clone();
    larger.spec.nodes.push(NodeSpec::plain("te-other".parse().expect("it is a name"), Role::Worker));
    larger.allocate().expect("there is room");
    subject.make_network(&larger).await;
    let mut ports = Vec::new();
    for (node, kind) in larger.nodes().zip([PortKind::Veth, PortKind::Tap]) {
        let port = subject.network().ensure_port(larger.name(), &NetworkNode::of(&node), kind).await;
        ports.push(port.expect("a port can be made"));
    }
    assert!(ports[0].device != ports[1].device && ports[0].mac != ports[1].mac, "{ports:?}");
    assert_eq!(subject.network_state(&larger).await, NetworkState::Intact);
}

async fn the_api_is_reached(subject: Subject<'_>, cluster: &Cluster) {
    let at = SocketAddrV4::new(cluster.virtual_ip(), API_PORT);
    subject.make_network(cluster).await;
    let first = subject.network().reach(cluster.name(), at).await.expect("it can be reached");
    let again = subject.network().reach(cluster.name(), at).await.expect("it can be reached");
    assert_eq!(first, again, "kubeconfigs have it");
}
