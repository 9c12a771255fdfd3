//! A command touches only the nodes that it names.

use flotilla_core::Explain;
use flotilla_core::{Changed, Power};
use flotilla_engine::EngineError;
use flotilla_spec::{NodeName, NodeSpec, Role};

use crate::world::{World, reported, wait, with_control_planes, with_two_workers};

fn name(name: &str) -> NodeName {
    name.parse().unwrap()
}

/// What `node add` does to the spec.
fn add(world: &mut World) -> [NodeName; 1] {
    let new = name("new");
    world.cluster.spec.nodes.push(NodeSpec::plain(new.clone(), Role::Worker));
    world.cluster.allocate().unwrap();
    [new]
}

/// Turns machines off, as a user may on purpose.
fn kill(world: &World, nodes: &[&str]) {
    for node in nodes {
        world.driver.lose_power(world.name(), &name(node));
        world.bootstrapper.set_up(world.name(), &name(node), false);
    }
}

async fn power(world: &World, node: &str) -> Power {
    world.found().await.machines[&name(node)].power.clone()
}

#[tokio::test]
async fn a_new_node_is_all_that_is_started() {
    let mut world = World::running_of(with_control_planes()).await;
    kill(&world, &["demo-m03", "demo-m04"]);
    world.engine().require_api(&world.cluster).await.unwrap();
    let added = add(&mut world);
    assert_eq!(
        world.engine().start_nodes(&world.locked(), &world.cluster, &added, &wait()).await.unwrap(),
        Changed::Yes
    );
    assert_eq!(reported(&world.take_events())[0], "plan routes machine/new join/new wait");
    for (node, expected) in [("new", Power::On), ("demo-m03", Power::Off), ("demo-m04", Power::Off)] {
        assert_eq!(power(&world, node).await, expected, "{node}");
    }
    assert_eq!(
        world.engine().start_nodes(&world.locked(), &world.cluster, &added, &wait()).await.unwrap(),
        Changed::No
    );
}

#[tokio::test]
async fn a_paused_cluster_stays_paused_with_a_warning() {
    let mut world = World::running_of(with_two_workers()).await;
    world.pause().await;
    let error = world.engine().require_api(&world.cluster).await.unwrap_err();
    assert_eq!(error.to_string(), "cluster demo is paused");
    assert_eq!(error.hints(), ["unpause it first with `flotilla unpause -p demo`"]);
    let added = add(&mut world);
    let error =
        world.engine().start_nodes(&world.locked(), &world.cluster, &added, &wait()).await.unwrap_err();
    assert!(matches!(error, EngineError::Paused { .. }), "{error:?}");
    assert!(!world.calls.take().contains(&"unpause".to_owned()));
    assert_eq!(world.take_events(), [], "nothing was begun");
}

#[tokio::test]
async fn control_planes_that_were_killed_are_not_started_for_another_node() {
    let world = World::running_of(with_control_planes()).await;
    kill(&world, &["demo-m02", "demo-m03"]);
    // Without a majority no API server answers.
    let silence = |world: &World| world.calls.fail("observe", flotilla_testkit::fake::When::Before);
    silence(&world);
    let error = world.engine().require_api(&world.cluster).await.unwrap_err();
    assert_eq!(error.to_string(), "etcd of cluster demo has no quorum while demo-m02, demo-m03 are off");
    assert_eq!(error.hints(), ["start control planes that are down with `flotilla start -p demo`"]);
    // One of them named is a majority again, and the other stays off.
    silence(&world);
    let named = [name("demo-m02")];
    assert_eq!(
        world.engine().start_nodes(&world.locked(), &world.cluster, &named, &wait()).await.unwrap(),
        Changed::Yes
    );
    assert_eq!(power(&world, "demo-m02").await, Power::On);
    assert_eq!(power(&world, "demo-m03").await, Power::Off);
}

#[tokio::test]
async fn of_a_cluster_that_was_stopped_a_control_plane_that_is_no_majority_is_not_started_alone() {
    let world = World::running_of(with_control_planes()).await;
    world.stop().await.unwrap();
    let can_start = async |nodes: &[&str]| {
        let nodes: Vec<_> = nodes.iter().map(|node| name(node)).collect();
        world.engine().can_start_nodes(&world.cluster, &nodes).await.map_err(|error| error.to_string())
    };
    assert_eq!(can_start(&["demo"]).await.unwrap_err(), "cluster demo is stopped");
    can_start(&["demo", "demo-m03"]).await.unwrap();
    assert!(can_start(&["demo-m04"]).await.is_err(), "a worker is nothing without a control plane");
}

#[tokio::test(start_paused = true)]
async fn an_api_that_is_slow_is_waited_for() {
    let world = World::running_of(with_two_workers()).await;
    world.calls.fail("observe", flotilla_testkit::fake::When::Before);
    world.engine().require_api(&world.cluster).await.unwrap();
}
