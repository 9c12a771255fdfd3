//! What every driver must do, whatever its machines are made of.

use flotilla_core::{
    Changed, Cluster, Machine, MachineRecord, MachineSpec, MachineState, Membership, NetworkNode,
    NetworkState, Power,
};
use flotilla_spec::{NodeName, NodeSpec, Role};

use super::{Case, OFF, ON, Subject, cases, get, node, put};

/// All cases, by name.
pub const CASES: &[(&str, Case)] = cases![
    ensuring_twice_is_one_machine,
    a_stopped_machine_is_kept_and_comes_back,
    removing_and_stopping_nothing_succeeds,
    a_removed_machine_starts_empty_when_made_again,
    booting_a_machine_that_is_on_changes_nothing,
    a_machine_that_lost_its_port_is_plugged_in_again_without_a_reboot,
    removing_all_leaves_nothing,
    a_machine_knows_the_others_of_its_time_until_it_is_told_of_more,
    a_record_stays_while_its_machine_is_stopped_and_started,
    a_removed_machine_loses_its_record,
    a_machine_names_the_bundles_that_it_needs,
    nothing_in_a_machine_sees_or_changes_its_record,
    of_two_who_write_a_record_at_once_one_is_recorded,
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

async fn a_removed_machine_starts_empty_when_made_again(subject: Subject<'_>, cluster: &Cluster) {
    let machine = subject.make(cluster).await;
    put(machine.as_ref(), "/etc/contract", b"gone with it").await;
    assert_eq!(subject.remove(cluster).await, Changed::Yes);
    assert_eq!(subject.found(cluster).await, []);
    let state = subject.network_state(cluster).await;
    assert_eq!(state, NetworkState::Intact, "the network is the cluster's, not the machine's");
    let machine = subject.make(cluster).await;
    assert_eq!(get(machine.as_ref(), "/etc/contract").await, None);
}

async fn booting_a_machine_that_is_on_changes_nothing(subject: Subject<'_>, cluster: &Cluster) {
    let machine = subject.make(cluster).await;
    put(machine.as_ref(), "/run/contract", b"still the same").await;
    let (driver, primary) = (subject.driver(), cluster.primary().expect("it has addresses"));
    let kind = driver.capabilities().port_kind;
    let plugged = subject.network().ensure_port(cluster.name(), &NetworkNode::of(&primary), kind).await;
    let port = plugged.expect("it has a port");
    let config = subject.config(cluster, &primary).await;
    let again = driver.boot(&MachineSpec::of(cluster, &primary), &port, &config).await.expect("it is on");
    assert_eq!(get(again.as_ref(), "/run/contract").await.as_deref(), Some(&b"still the same"[..]));
    assert_eq!(subject.found(cluster).await, [(node(cluster).clone(), ON)]);
}

async fn a_machine_that_lost_its_port_is_plugged_in_again_without_a_reboot(
    subject: Subject<'_>,
    cluster: &Cluster,
) {
    let machine = subject.make(cluster).await;
    put(machine.as_ref(), "/run/contract", b"still the same").await;
    let removed = subject.network().remove_port(cluster.name(), node(cluster)).await;
    assert_eq!(removed.expect("a port can be removed"), Changed::Yes);
    let cut_off = MachineState { power: Power::On, intact: false };
    assert_eq!(subject.found(cluster).await, [(node(cluster).clone(), cut_off)]);
    let machine = subject.ensure(cluster, node(cluster)).await.expect("it can be repaired");
    assert_eq!(get(machine.as_ref(), "/run/contract").await.as_deref(), Some(&b"still the same"[..]));
    assert_eq!(subject.found(cluster).await, [(node(cluster).clone(), ON)]);
    assert!(subject.are_configured(cluster).await, "its link works again");
}

async fn removing_all_leaves_nothing(subject: Subject<'_>, cluster: &Cluster) {
    subject.make(cluster).await;
    assert_eq!(subject.remove_all(cluster).await, Changed::Yes);
    assert_eq!(subject.found(cluster).await, []);
    assert_eq!(subject.network_state(cluster).await, NetworkState::Incomplete);
    assert_eq!(subject.remove_all(cluster).await, Changed::No);
}

async fn a_machine_knows_the_others_of_its_time_until_it_is_told_of_more(
    subject: Subject<'_>,
    cluster: &Cluster,
) {
    assert!(subject.are_configured(cluster).await, "no node runs");
    subject.make(cluster).await;
    assert!(subject.are_configured(cluster).await);
    let mut larger = cluster.clone();
    let other: NodeName = "te-other".parse().expect("it is a name");
    larger.spec.nodes.push(NodeSpec::plain(other, Role::Worker));
    larger.allocate().expect("there is room");
    assert!(!subject.are_configured(&larger).await, "it has not heard of the other");
    subject.configure(&larger).await;
    assert!(subject.are_configured(&larger).await && !subject.are_configured(cluster).await);
    subject.configure(cluster).await;
    assert!(subject.are_configured(cluster).await, "the other is forgotten");
}

async fn record(machine: &dyn Machine, membership: Membership) {
    machine.set_record(&MachineRecord { membership }).await.expect("something can be recorded");
}

/// What is recorded of the first machine, as it is found now.
async fn recorded(subject: Subject<'_>, cluster: &Cluster) -> Membership {
    let machines = subject.machines(cluster).await;
    machines[node(cluster)].record().await.expect("the record can be read").membership
}

async fn a_record_stays_while_its_machine_is_stopped_and_started(subject: Subject<'_>, cluster: &Cluster) {
    let machine = subject.make(cluster).await;
    assert_eq!(machine.record().await.expect("it is new"), MachineRecord::default());
    record(machine.as_ref(), Membership::Member).await;
    assert_eq!(recorded(subject, cluster).await, Membership::Member);
    subject.stop(cluster).await;
    assert_eq!(recorded(subject, cluster).await, Membership::Member, "it is off");
    let off = subject.machines(cluster).await;
    record(off[node(cluster)].as_ref(), Membership::InitialMember).await;
    assert_eq!(recorded(subject, cluster).await, Membership::InitialMember);
    subject.make(cluster).await;
    assert_eq!(recorded(subject, cluster).await, Membership::InitialMember, "it is on again");
}

async fn a_removed_machine_loses_its_record(subject: Subject<'_>, cluster: &Cluster) {
    let machine = subject.make(cluster).await;
    record(machine.as_ref(), Membership::Member).await;
    subject.remove(cluster).await;
    subject.make(cluster).await;
    assert_eq!(recorded(subject, cluster).await, Membership::None);
}

async fn a_machine_names_the_bundles_that_it_needs(subject: Subject<'_>, cluster: &Cluster) {
    let spec = MachineSpec::of(cluster, &cluster.primary().expect("it has addresses"));
    subject.make(cluster).await;
    for is_on in [true, false] {
        if !is_on {
            subject.stop(cluster).await;
        }
        let machines = subject.machines(cluster).await;
        let needed = machines[node(cluster)].bundles().await.expect("it can be asked");
        assert!(needed.contains(&spec.bundle) && needed.contains(&spec.image_store), "{needed:?}");
    }
}

/// Where earlier releases had marks, and where the native driver has the record as the host sees it.
const FORGED: [&str; 6] = [
    "/var/lib/flotilla/initialised",
    "/var/lib/flotilla/joined",
    "/var/lib/flotilla/founded",
    "/var/lib/flotilla/founding",
    "/record.json",
    "/var/record.json",
];

async fn nothing_in_a_machine_sees_or_changes_its_record(subject: Subject<'_>, cluster: &Cluster) {
    let machine = subject.make(cluster).await;
    for membership in [Membership::None, Membership::Member] {
        record(machine.as_ref(), membership).await;
        for path in ["/record.json", "/var/record.json", "/../record.json", "/var/../../record.json"] {
            assert_eq!(get(machine.as_ref(), path).await, None, "{path}");
        }
    }
    record(machine.as_ref(), Membership::None).await;
    for path in FORGED {
        put(machine.as_ref(), path, br#"{"version":1,"uuid":"","membership":"member"}"#).await;
    }
    assert_eq!(recorded(subject, cluster).await, Membership::None);
    subject.stop(cluster).await;
    assert_eq!(recorded(subject, cluster).await, Membership::None);
    subject.make(cluster).await;
    assert_eq!(recorded(subject, cluster).await, Membership::None);
}

async fn of_two_who_write_a_record_at_once_one_is_recorded(subject: Subject<'_>, cluster: &Cluster) {
    let machine = subject.make(cluster).await;
    let write = async |membership| {
        for _ in 0..10 {
            record(machine.as_ref(), membership).await;
        }
    };
    tokio::join!(write(Membership::Founding), write(Membership::Member));
    assert!(matches!(recorded(subject, cluster).await, Membership::Founding | Membership::Member));
}
