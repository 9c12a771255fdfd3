//! What every driver must do, whatever its machines are made of.

use flotilla_core::{Changed, Cluster};
use flotilla_spec::{NodeName, NodeSpec, Role};

use super::{Case, OFF, ON, Subject, cases, get, node, put};

/// All cases, by name.
pub const CASES: &[(&str, Case)] = cases![
    ensuring_twice_is_one_machine,
    a_stopped_machine_is_kept_and_comes_back,
    removing_and_stopping_nothing_succeeds,
    a_removed_machine_begins_anew,
    removing_all_leaves_nothing,
    a_machine_knows_the_others_of_its_time_until_it_is_told_of_more,
];

async fn ensuring_twice_is_one_machine(subject: Subject<'_>, cluster: &Cluster) {
    let first = subject.make(cluster).await;
    put(first.as_ref(), "/run/contract", b"still the same").await;
    let again = subject.make(cluster).await;
    assert_eq!((again.name(), again.state()), (node(cluster), ON));
    assert_eq!(get(again.as_ref(), "/run/contract").await.as_deref(), Some(&b"still the same"[..]));
    assert_eq!(subject.found(cluster).await, [(node(cluster).clone(), ON)]);
}

async fn a_stopped_machine_is_kept_and_comes_back(subject: Subject<'_>, cluster: &Cluster) {
    let machine = subject.make(cluster).await;
    put(machine.as_ref(), "/etc/contract", b"disk").await;
    put(machine.as_ref(), "/run/contract", b"memory").await;
    assert_eq!(subject.stop(cluster).await, Changed::Yes);
    assert_eq!(subject.found(cluster).await, [(node(cluster).clone(), OFF)]);
    assert_eq!(subject.stop(cluster).await, Changed::No);
    let machine = subject.make(cluster).await;
    assert_eq!(subject.found(cluster).await, [(node(cluster).clone(), ON)]);
    assert_eq!(get(machine.as_ref(), "/etc/contract").await.as_deref(), Some(&b"disk"[..]));
    assert_eq!(get(machine.as_ref(), "/run/contract").await, None);
}

async fn removing_and_stopping_nothing_succeeds(subject: Subject<'_>, cluster: &Cluster) {
    assert_eq!(subject.stop(cluster).await, Changed::No);
    assert_eq!(subject.remove(cluster).await, Changed::No);
    assert_eq!(subject.remove_all(cluster).await, Changed::No);
}

async fn a_removed_machine_begins_anew(subject: Subject<'_>, cluster: &Cluster) {
    let machine = subject.make(cluster).await;
    put(machine.as_ref(), "/etc/contract", b"gone with it").await;
    assert_eq!(subject.remove(cluster).await, Changed::Yes);
    assert_eq!(subject.found(cluster).await, []);
    assert!(subject.has_network(cluster).await, "the network is the cluster's, not the machine's");
    let machine = subject.make(cluster).await;
    assert_eq!(get(machine.as_ref(), "/etc/contract").await, None);
}

async fn removing_all_leaves_nothing(subject: Subject<'_>, cluster: &Cluster) {
    subject.make(cluster).await;
    assert_eq!(subject.remove_all(cluster).await, Changed::Yes);
    assert_eq!(subject.found(cluster).await, []);
    assert!(!subject.has_network(cluster).await);
    assert_eq!(subject.remove_all(cluster).await, Changed::No);
}

async fn a_machine_knows_the_others_of_its_time_until_it_is_told_of_more(
    subject: Subject<'_>,
    cluster: &Cluster,
) {
    assert!(subject.are_configured(cluster).await, "there is nobody to know anything");
    subject.make(cluster).await;
    assert!(subject.are_configured(cluster).await);
    let mut larger = cluster.clone();
    let other: NodeName = "te-other".parse().expect("it is a name");
    larger.spec.network.node_pod_prefix = 26;
    larger.spec.nodes.push(NodeSpec::plain(other, Role::Worker));
    larger.allocate().expect("there is room");
    assert!(!subject.are_configured(&larger).await, "it has not heard of the other");
    subject.configure(&larger).await;
    assert!(subject.are_configured(&larger).await && !subject.are_configured(cluster).await);
    subject.configure(cluster).await;
    assert!(subject.are_configured(cluster).await, "the other is forgotten");
}
