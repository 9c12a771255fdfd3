//! Nodes that another version of flotilla has booted.

use flotilla_core::{Changed, Drain, Event, Explain, node};
use flotilla_node_api::{CHECK, CONFIGURE, INIT, NodeConfig, OLDEST, PROTOCOL, STATUS};
use flotilla_spec::NodeName;

use crate::world::{World, with_two_workers, with_worker};

fn name(node: &str) -> NodeName {
    node.parse().unwrap()
}

/// Lets another version of flotilla have booted the control plane.
fn boot_by(world: &World, protocol: u32) {
    world.driver.machine(world.name(), world.node()).set_protocol(protocol);
}

fn config(world: &World, node: &NodeName) -> NodeConfig {
    world.driver.machine(world.name(), node).config().unwrap()
}

fn addresses(config: &NodeConfig) -> usize {
    config.routes.as_ref().unwrap().via.len()
}

fn warnings(world: &World) -> Vec<String> {
    let events = world.take_events().into_iter();
    events.filter_map(|event| if let Event::Warning { text } = event { Some(text) } else { None }).collect()
}

#[tokio::test]
async fn a_node_of_the_oldest_protocol_learns_of_nodes_that_come_and_go() {
    let world = World::growing_to(with_worker()).await;
    boot_by(&world, OLDEST);
    assert!(!world.is_configured().await, "it does not know of the worker yet");
    assert_eq!(world.start().await.unwrap(), Changed::Yes);
    let known = config(&world, world.node());
    assert_eq!((known.protocol, addresses(&known)), (OLDEST, 1));
    assert_eq!(config(&world, &name("demo-m02")).protocol, PROTOCOL);
    assert!(world.is_configured().await);
    assert_eq!(world.start().await.unwrap(), Changed::No);

    let mut cluster = world.store.get(world.name()).unwrap();
    let drain = Drain { limit: std::time::Duration::from_secs(30), force: false };
    world.engine().delete_nodes(&world.locked(), &mut cluster, &[name("demo-m02")], drain).await.unwrap();
    assert_eq!(addresses(&config(&world, world.node())), 0);
    assert_eq!(warnings(&world), [""; 0]);
}

#[tokio::test]
async fn a_node_of_the_oldest_protocol_says_how_it_is() {
    let world = World::running().await;
    boot_by(&world, OLDEST);
    let machine = world.driver.machine(world.name(), world.node());
    assert_eq!(node::status(&machine).await.unwrap().protocol, OLDEST);
}

#[tokio::test]
async fn a_node_of_a_newer_protocol_is_of_another_version_and_keeps_what_it_has() {
    let world = World::growing_to(with_two_workers()).await;
    boot_by(&world, PROTOCOL + 1);
    assert_eq!(world.start().await.unwrap(), Changed::Yes);
    assert_eq!(addresses(&config(&world, world.node())), 0);
    assert_eq!(addresses(&config(&world, &name("demo-m03"))), 2, "the others learn of all");
    let warnings = warnings(&world);
    assert!(warnings.iter().any(|text| text.contains("was booted by another version")), "{warnings:?}");
    let machine = world.driver.machine(world.name(), world.node());
    let error = node::status(&machine).await.unwrap_err();
    assert_eq!(flotilla_engine::EngineError::Driver(error.into()).code().name, "GUEST_OTHER_VERSION");
}

#[tokio::test]
async fn a_restart_gives_a_node_our_version() {
    let world = World::running().await;
    boot_by(&world, OLDEST);
    world.stop().await.unwrap();
    world.start().await.unwrap();
    assert_eq!(config(&world, world.node()).protocol, PROTOCOL);
}

#[tokio::test]
async fn only_a_node_of_another_version_is_asked_for_its_version() {
    let world = World::running().await;
    let machine = world.driver.machine(world.name(), world.node());
    let (check, wanted) = (format!("{INIT} {CONFIGURE} {CHECK}"), config(&world, world.node()));
    let asked = async || {
        let before = machine.log().len();
        assert_eq!(node::differences(&machine, &wanted).await.unwrap(), [""; 0]);
        machine.log().split_off(before)
    };
    assert_eq!(asked().await, std::slice::from_ref(&check));
    boot_by(&world, OLDEST);
    assert_eq!(asked().await, [check.clone(), format!("{INIT} {STATUS}"), check]);
}
