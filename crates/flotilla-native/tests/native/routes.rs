//! The host's way to the pods of nodes.

use flotilla_core::Cluster;
use flotilla_linux::net::Net;
use flotilla_spec::{NodeSpec, Role};
use flotilla_testkit::contract::{Case, Subject, cases};
use ipnet::Ipv4Net;

pub(crate) const CASES: &[(&str, Case)] = cases![the_host_forgets_the_way_to_a_node_that_is_gone,];

/// The ranges of pods that the host knows a way to.
async fn known(cluster: &Cluster) -> Vec<Ipv4Net> {
    let pods = cluster.allocations.pod_subnet;
    let look = || Net::here().unwrap().routes().unwrap();
    let routes = tokio::task::spawn_blocking(look).await.unwrap();
    routes.into_iter().map(|route| route.dst).filter(|range| pods.contains(range)).collect()
}

async fn the_host_forgets_the_way_to_a_node_that_is_gone(subject: Subject<'_>, cluster: &Cluster) {
    let mut cluster = cluster.clone();
    let one = cluster.clone();
    cluster.spec.nodes.push(NodeSpec::plain("te-other".parse().unwrap(), Role::Worker));
    cluster.allocate().unwrap();
    let ranges: Vec<_> = cluster.nodes().map(|node| node.pod_range).collect();
    subject.make_network(&cluster).await;
    for node in &cluster.spec.nodes {
        subject.ensure(&cluster, &node.name).await.unwrap();
    }
    assert_eq!(known(&cluster).await, ranges);
    subject.remove_node(&cluster, &cluster.spec.nodes[1].name).await;
    subject.configure(&one).await;
    assert_eq!(known(&cluster).await, ranges[..1]);
}
