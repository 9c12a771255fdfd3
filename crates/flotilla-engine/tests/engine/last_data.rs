//! The last copy of etcd's data is never deleted, whatever is forced, and whatever is off or silent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flotilla_core::explain::Explain;
use flotilla_core::{Cmd, Drain, MachineRecord, Membership};
use flotilla_engine::EngineError;
use flotilla_engine::converge::{ControlPlaneChange, Leaving};
use flotilla_spec::{DriverName, NodeName, WantedPower};
use flotilla_testkit::fake::FakeDriver;

use crate::world::{World, of_nodes, reported, with_control_planes};

const DRAIN: Drain = Drain { limit: Duration::from_secs(30), force: false };
const FORCED: Drain = Drain { force: true, ..DRAIN };
/// Of data that a user has stored something in.
const STORED: u64 = 42;

fn names<const N: usize>(names: [&str; N]) -> [NodeName; N] {
    names.map(|name| name.parse().unwrap())
}

/// A cluster of that many control planes, all of which have what a user has stored.
async fn running(control_planes: usize) -> World {
    let world = World::running_of(of_nodes(&vec!["control-plane"; control_planes])).await;
    store(&world).await;
    world
}

async fn store(world: &World) {
    for machine in world.engine().machines(&world.cluster).await.unwrap().values() {
        world.bootstrapper.set_revision(machine.as_ref(), STORED).await;
    }
    world.calls.take();
}

/// What `flotilla node stop` does.
async fn stop_node(world: &World, node: &NodeName, force: bool) {
    let mut cluster = world.store.get(world.name()).unwrap();
    for known in cluster.spec.nodes.iter_mut().filter(|known| known.name == *node) {
        known.power = WantedPower::Stopped;
    }
    cluster.spec.hand_over_primary(std::slice::from_ref(node));
    world.save(&cluster).unwrap();
    world.engine().stop_nodes(&cluster, std::slice::from_ref(node), force).await.unwrap();
    world.take_events();
}

async fn delete(world: &World, nodes: &[NodeName], drain: Drain) -> Result<(), EngineError> {
    let mut cluster = world.store.get(world.name()).unwrap();
    world.engine().delete_nodes(&world.locked(), &mut cluster, nodes, drain).await
}

fn kept(world: &World) -> BTreeMap<NodeName, u64> {
    world.driver.etcd_revisions(world.name())
}

/// Neither with nor without force are these nodes deleted, and nothing is changed.
async fn assert_refused(world: &World, nodes: &[NodeName]) {
    let (before, cluster) = (kept(world), world.store.get(world.name()).unwrap());
    assert!(before.values().any(|revision| *revision == STORED), "{before:?}");
    for drain in [FORCED, DRAIN] {
        let refused = delete(world, nodes, drain).await;
        assert_eq!(kept(world), before, "all objects are lost: {refused:?}");
        let refused = refused.unwrap_err();
        assert_eq!(refused.code().name, "GUEST_LAST_DATA", "{refused}");
        let hints = refused.hints().join("\n");
        assert!(hints.contains("`flotilla start -p demo`") && !hints.contains("--force"), "{hints}");
        assert!(hints.contains("`flotilla delete -p demo`"), "{hints}");
        assert_eq!(world.store.get(world.name()).unwrap(), cluster, "nothing is saved");
        assert_eq!(world.take_events(), [], "nothing is begun, and nobody is told of stale members");
    }
    let refused = world.engine().can_spare(&cluster, nodes, Leaving::Deleted).await.unwrap_err();
    assert_eq!(refused.code().name, "GUEST_LAST_DATA", "{refused}");
    let change = ControlPlaneChange { coming: &[], deleted: nodes, stopped: &[] };
    let refused = world.engine().can_turn_over(&cluster, change).await.unwrap_err();
    assert_eq!(refused.code().name, "GUEST_LAST_DATA", "{refused}");
}

#[tokio::test]
async fn the_only_member_is_not_deleted_while_another_one_is_stopped() {
    let [first, second] = names(["demo", "demo-m02"]);
    for what in ["all is off", "the API is silent", "it is paused", "the API answers"] {
        let world = running(2).await;
        stop_node(&world, &second, false).await;
        assert_eq!(kept(&world), [(first.clone(), STORED)].into(), "one that leaves loses its data");
        match what {
            "all is off" => drop(world.stop().await.unwrap()),
            "the API is silent" => world.bootstrapper.fall_silent(),
            "it is paused" => world.pause().await,
            _ => {}
        }
        world.take_events();
        assert_refused(&world, std::slice::from_ref(&first)).await;
        // The other one never had data again: it can go.
        delete(&world, std::slice::from_ref(&second), FORCED).await.unwrap();
        assert_eq!(kept(&world), [(first.clone(), STORED)].into(), "{what}");
    }
}

#[tokio::test]
async fn what_the_hint_says_helps() {
    let [first, second] = names(["demo", "demo-m02"]);
    let world = running(2).await;
    stop_node(&world, &second, false).await;
    world.stop().await.unwrap();
    delete(&world, std::slice::from_ref(&first), FORCED).await.unwrap_err();
    world.save(&world.cluster).unwrap();
    world.start().await.unwrap();
    delete(&world, &[first], DRAIN).await.unwrap();
    assert_eq!(kept(&world), [(second, STORED)].into());
}

#[tokio::test]
async fn all_members_are_not_deleted_while_another_control_plane_is_stopped() {
    let [first, second, third] = names(["demo", "demo-m02", "demo-m03"]);
    let world = running(3).await;
    stop_node(&world, &third, false).await;
    assert_refused(&world, &[first.clone(), second]).await;
    delete(&world, &[first], DRAIN).await.unwrap();
}

#[tokio::test]
async fn those_that_take_the_writes_do_not_go_and_leave_one_that_is_behind() {
    let [first, second, third] = names(["demo", "demo-m02", "demo-m03"]);
    let world = World::running_of(with_control_planes()).await;
    world.driver.lose_power(world.name(), &third);
    world.bootstrapper.set_up(world.name(), &third, false);
    let machines = world.engine().machines(&world.cluster).await.unwrap();
    for node in [&first, &second] {
        world.bootstrapper.set_revision(machines[node].as_ref(), STORED).await;
    }
    assert_refused(&world, &[first, second.clone()]).await;
    // One of the two is enough, by force.
    delete(&world, &[second], FORCED).await.unwrap();
}

#[tokio::test]
async fn a_copy_that_nobody_can_see_is_not_relied_on() {
    let mut cluster = of_nodes(&["control-plane", "control-plane"]);
    cluster.spec.nodes[1].driver = Some(DriverName::new("vm"));
    let mut vms = None;
    let world = World::with_drivers(cluster, |calls| {
        let driver = Arc::new(FakeDriver::new(calls).named("vm", |_| {}));
        vms = Some(Arc::clone(&driver));
        vec![driver]
    });
    let vms = vms.unwrap();
    world.start().await.unwrap();
    store(&world).await;
    world.take_events();
    let [first, second] = names(["demo", "demo-m02"]);
    vms.fall_silent("attic");
    assert_refused(&world, std::slice::from_ref(&first)).await;
    // Its own record says nothing either.
    let refused = delete(&world, std::slice::from_ref(&second), FORCED).await.unwrap_err();
    assert_eq!(refused.code().name, "HOST_UNREACHABLE", "{refused}");
    vms.answer_again();
    delete(&world, &[first], FORCED).await.unwrap();
    assert_eq!(vms.etcd_revisions(world.name()), [(second, STORED)].into());
}

#[tokio::test]
async fn a_member_that_runs_without_its_data_is_no_copy() {
    let [first, second] = names(["demo", "demo-m02"]);
    let world = running(2).await;
    let machine = Arc::clone(&world.engine().machines(&world.cluster).await.unwrap()[&second]);
    machine.guest().run(Cmd::new(["rm", "-f", "/var/lib/etcd/member"])).await.unwrap();
    for node in [&first, &second] {
        world.bootstrapper.set_up(world.name(), node, false);
    }
    world.bootstrapper.fall_silent();
    world.take_events();
    assert_refused(&world, std::slice::from_ref(&first)).await;
    // There is nothing to lose with it.
    delete(&world, &[second], FORCED).await.unwrap();
    assert_eq!(kept(&world), [(first, STORED)].into());
}

/// What was written since is in the others only.
#[tokio::test]
async fn without_quorum_one_that_was_stopped_by_force_is_not_all_that_stays() {
    let [first, second, third] = names(["demo", "demo-m02", "demo-m03"]);
    for all_off in [true, false] {
        let world = World::running_of(with_control_planes()).await;
        world.bootstrapper.set_up(world.name(), &second, false);
        stop_node(&world, &third, true).await;
        world.bootstrapper.set_up(world.name(), &second, true);
        world.bootstrapper.set_up(world.name(), &third, false);
        let machines = world.engine().machines(&world.cluster).await.unwrap();
        for node in [&first, &second] {
            world.bootstrapper.set_revision(machines[node].as_ref(), STORED).await;
        }
        if all_off {
            world.stop().await.unwrap();
        } else {
            world.bootstrapper.set_up(world.name(), &second, false);
        }
        world.take_events();
        assert_refused(&world, &[first.clone(), second.clone()]).await;
        // One of the two is enough, by force.
        delete(&world, std::slice::from_ref(&second), FORCED).await.unwrap();
        assert_eq!(kept(&world)[&first], STORED);
    }
}

#[tokio::test]
async fn a_record_that_cannot_be_read_says_neither_that_there_is_data_nor_that_there_is_none() {
    let [first, second] = names(["demo", "demo-m02"]);
    for broken in [&first, &second] {
        let world = running(2).await;
        world.stop().await.unwrap();
        world.driver.break_record(world.name(), broken);
        let before = kept(&world);
        let refused = delete(&world, std::slice::from_ref(&first), FORCED).await.unwrap_err();
        assert_eq!(refused.code().name, "HOST_STATE_DAMAGED", "{refused}");
        assert_eq!(kept(&world), before);
    }
}

/// A leave that was killed has ended the membership, and the data is still there.
#[tokio::test]
async fn data_counts_also_where_its_node_is_recorded_to_have_left() {
    let [first, second] = names(["demo", "demo-m02"]);
    let world = running(2).await;
    world.stop().await.unwrap();
    for node in [&first, &second] {
        let machine = &world.engine().machines(&world.cluster).await.unwrap()[node];
        machine.set_record(&MachineRecord { membership: Membership::None }).await.unwrap();
    }
    let mut cluster = world.store.get(world.name()).unwrap();
    cluster.allocations.founded = true;
    world.save(&cluster).unwrap();
    world.take_events();
    assert_refused(&world, &[first]).await;
}

#[tokio::test]
async fn a_control_plane_that_never_had_data_is_removed_on_or_off() {
    let second = names(["demo-m02"]);
    for membership in [Membership::None, Membership::Founding] {
        for is_on in [true, false] {
            let world = World::growing_to(of_nodes(&["control-plane", "control-plane"])).await;
            store(&world).await;
            let before = kept(&world);
            let node = world.cluster.node(&second[0]).unwrap();
            world.engine().boot(&world.cluster, &node).await.unwrap();
            let machine = &world.engine().machines(&world.cluster).await.unwrap()[&second[0]];
            machine.set_record(&MachineRecord { membership }).await.unwrap();
            if !is_on {
                world.stop().await.unwrap();
            }
            world.take_events();
            delete(&world, &second, FORCED).await.unwrap();
            assert_eq!(kept(&world), before);
            assert_eq!(world.store.get(world.name()).unwrap().spec.nodes.len(), 1);
        }
    }
}

#[tokio::test]
async fn without_data_of_anybody_there_is_nothing_to_keep_and_nothing_to_recover() {
    let world = World::of(of_nodes(&["control-plane", "control-plane"]));
    let second = world.cluster.node(&names(["demo-m02"])[0]).unwrap();
    world.engine().fleet.ensure_network(&world.cluster).await.unwrap();
    world.engine().boot(&world.cluster, &second).await.unwrap();
    delete(&world, &[second.spec.name], FORCED).await.unwrap();
    let events = reported(&world.take_events());
    assert!(!events.join("\n").contains("flotilla recover"), "{events:?}");
}

#[tokio::test]
async fn where_another_copy_stays_force_still_deletes_and_recover_is_named() {
    let second = names(["demo-m02"]);
    let world = running(2).await;
    world.stop().await.unwrap();
    world.take_events();
    delete(&world, &second, FORCED).await.unwrap();
    let events = reported(&world.take_events());
    assert!(events.join("\n").contains("until `flotilla recover`"), "{events:?}");
    assert_eq!(kept(&world), [(world.node().clone(), STORED)].into());
}

#[tokio::test]
async fn a_node_that_is_stopped_by_force_keeps_the_only_copy() {
    let [first, second] = names(["demo", "demo-m02"]);
    for other_has_left in [true, false] {
        let world = running(2).await;
        if other_has_left {
            stop_node(&world, &second, false).await;
        } else {
            world.bootstrapper.set_up(world.name(), &second, false);
        }
        let before = kept(&world);
        stop_node(&world, &first, true).await;
        assert_eq!(kept(&world), before);
    }
}

#[tokio::test]
async fn a_deletion_that_a_start_finishes_deletes_no_last_copy_either() {
    let [first, second] = names(["demo", "demo-m02"]);
    let world = running(2).await;
    stop_node(&world, &second, false).await;
    let mut cluster = world.store.get(world.name()).unwrap();
    // The deletion was begun by an earlier release.
    cluster.allocations.leaving.insert(first.clone());
    world.save(&cluster).unwrap();
    world.engine().finish_removals(&world.locked(), &mut cluster).await.unwrap();
    assert_eq!(kept(&world), [(first, STORED)].into());
    assert_eq!(cluster.spec.control_planes().count(), 2);
}

#[tokio::test]
async fn one_that_comes_first_is_a_copy_by_the_time_when_another_goes() {
    let [first, second] = names(["demo", "demo-m02"]);
    let world = running(2).await;
    stop_node(&world, &second, false).await;
    let cluster = world.store.get(world.name()).unwrap();
    let (coming, deleted) = ([second], [first]);
    let change = ControlPlaneChange { coming: &coming, deleted: &deleted, stopped: &[] };
    world.engine().can_turn_over(&cluster, change).await.unwrap();
}
