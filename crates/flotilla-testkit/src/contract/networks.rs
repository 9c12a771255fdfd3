//! What the network of every host must do.

use flotilla_core::Cluster;
use flotilla_spec::ClusterName;

use super::{Case, Subject, cases};

/// All cases, by name.
pub const CASES: &[(&str, Case)] = cases![
    nothing_is_there_before_it_is_made,
    a_network_is_made_once_and_seen_by_others,
    a_network_with_other_ports_is_not_whole,
];

async fn nothing_is_there_before_it_is_made(subject: Subject<'_>, cluster: &Cluster) {
    assert_eq!(subject.found(cluster).await, []);
    assert!(!subject.has_network(cluster).await);
}

async fn a_network_is_made_once_and_seen_by_others(subject: Subject<'_>, cluster: &Cluster) {
    subject.make_network(cluster).await;
    subject.make_network(cluster).await;
    assert!(subject.has_network(cluster).await);
    let stranger: ClusterName = "stranger".parse().expect("it is a name");
    let subnet = cluster.allocations.subnet;
    for (name, sees_it) in [(&stranger, true), (cluster.name(), false)] {
        let used = subject.network().used(name).await.expect("subnets can be listed");
        assert_eq!(used.iter().any(|used| used.range == subnet), sees_it, "{name} sees {used:?}");
    }
}

async fn a_network_with_other_ports_is_not_whole(subject: Subject<'_>, cluster: &Cluster) {
    let with_ports = |ports: &[&str]| {
        let mut cluster = cluster.clone();
        cluster.spec.nodes[0].ports = ports.iter().map(|port| port.parse().expect("a port")).collect();
        cluster
    };
    subject.make_network(cluster).await;
    let one = with_ports(&["127.9.9.9:8080:80"]);
    assert!(!subject.has_network(&one).await, "a port is missing");
    subject.make_network(&one).await;
    assert!(subject.has_network(&one).await);
    let two = with_ports(&["127.9.9.9:8080:81", "127.9.9.9:53:53/udp"]);
    assert!(!subject.has_network(&two).await, "the port leads elsewhere");
    subject.configure(&two).await;
    assert!(subject.has_network(&two).await);
    assert!(!subject.has_network(cluster).await, "there are ports that nobody wants");
    subject.make_network(cluster).await;
    assert!(subject.has_network(cluster).await);
}
