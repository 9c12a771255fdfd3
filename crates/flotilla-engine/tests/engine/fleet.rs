//! A cluster of two drivers, which can do different things, also while the host of one of them does not answer.

use std::sync::Arc;

use flotilla_core::explain::Explain;
use flotilla_core::{Cluster, Driver, MachineId, Power};
use flotilla_engine::EngineError;
use flotilla_spec::NodeName;
use flotilla_testkit::fake::{Calls, FakeDriver};

use crate::world::{World, of_nodes};

/// Control planes on both drivers, workers on both.
const ROLES: [&str; 5] = ["control-plane", "control-plane", "control-plane", "worker", "worker"];
/// The places of the nodes of the second driver.
const VMS: [usize; 2] = [1, 4];

fn mixed() -> Cluster {
    on_vms(of_nodes(&ROLES), &VMS)
}

fn on_vms(mut cluster: Cluster, places: &[usize]) -> Cluster {
    for place in places {
        cluster.spec.nodes[*place].driver = Some(flotilla_spec::DriverName::new("vm"));
    }
    cluster
}

/// A driver whose machines have a kernel of their own and see nothing of the host.
fn vm_driver(calls: &Calls) -> FakeDriver {
    FakeDriver::new(calls).named("vm", |can| (can.host_mounts, can.own_kernel) = (false, true))
}

fn world(cluster: Cluster) -> (World, Arc<FakeDriver>) {
    let mut vms = None;
    let world = World::with_drivers(cluster, |calls| {
        let driver = Arc::new(vm_driver(calls));
        vms = Some(driver.clone());
        vec![driver]
    });
    (world, vms.unwrap())
}

async fn running(cluster: Cluster) -> (World, Arc<FakeDriver>) {
    let (world, vms) = world(cluster);
    world.start().await.unwrap();
    world.calls.take();
    world.take_events();
    (world, vms)
}

fn names(world: &World, places: &[usize]) -> Vec<NodeName> {
    places.iter().map(|place| world.cluster.spec.nodes[*place].name.clone()).collect()
}

async fn machines_of(driver: &FakeDriver, world: &World) -> Vec<NodeName> {
    driver.list(world.name()).await.unwrap().iter().map(|machine| machine.name().clone()).collect()
}

#[tokio::test]
async fn each_node_is_made_stopped_and_removed_by_its_own_driver() {
    let (mut world, vms) = running(mixed()).await;
    assert_eq!(machines_of(&vms, &world).await, names(&world, &VMS));
    assert_eq!(machines_of(&world.driver, &world).await, names(&world, &[0, 2, 3]));
    assert_eq!(world.found().await.joined.len(), ROLES.len());

    world.stop().await.unwrap();
    assert!(world.found().await.machines.values().all(|state| state.power == Power::Off));
    world.start().await.unwrap();

    let gone = names(&world, &[4]);
    let mut cluster = world.cluster.clone();
    let drain = flotilla_core::Drain { limit: std::time::Duration::ZERO, force: false };
    world.engine().delete_nodes(&world.locked(), &mut cluster, &gone, drain).await.unwrap();
    world.cluster = cluster;
    assert_eq!(machines_of(&vms, &world).await, names(&world, &[1]));

    world.delete().await.unwrap();
    for driver in [&vms, &world.driver] {
        assert!(machines_of(driver, &world).await.is_empty());
    }
    assert!(!world.found().await.saved);
}

#[tokio::test]
async fn two_machines_of_one_name_are_an_error() {
    let (world, _) = running(mixed()).await;
    let moved = on_vms(world.cluster.clone(), &[0]);
    world.engine().nodes().ensure(&moved, &moved.node(world.node()).unwrap(), false).await.unwrap();
    let error = world.engine().observe(&world.cluster).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "there are two machines named demo: one of driver native, one of driver vm"
    );
    assert_eq!(error.code().name, "DRV_CONFLICT");
}

#[tokio::test]
async fn what_a_driver_cannot_do_is_refused_without_asking_it() {
    let mut cluster = mixed();
    for node in &mut cluster.spec.nodes {
        node.mounts = vec!["/srv:/srv".parse().unwrap()];
    }
    cluster.spec.nodes[3].driver = Some(flotilla_spec::DriverName::new("magic"));
    let (world, _) = world(cluster);
    let refused = world.engine().fleet.check(&world.cluster).await.unwrap();
    let reported: Vec<_> = refused
        .iter()
        .map(|refusal| format!("{} {}", refusal.requirement.key, refusal.finding.text))
        .collect();
    insta::assert_snapshot!(reported.join("\n"), @"
    mounts node demo-m02: driver vm cannot mount directories of the host
    driver node demo-m04: there is no driver magic
    mounts node demo-m05: driver vm cannot mount directories of the host
    ");
    assert_eq!(refused[0].requirement.item.as_deref(), Some("/srv:/srv"));
    assert!(world.calls.take().is_empty(), "nothing was touched");
}

#[tokio::test]
async fn a_silent_host_keeps_nobody_from_the_others() {
    let (world, vms) = running(mixed()).await;
    let of_vms = names(&world, &VMS);
    let lost = names(&world, &[0, 3]);
    for node in &lost {
        world.driver.lose_power(world.name(), node);
    }
    vms.fall_silent("attic");
    world.calls.take();
    world.start().await.unwrap();
    let found = world.found().await.machines;
    for (node, state) in &found {
        let unknown = matches!(&state.power, Power::Unknown(why) if why.contains("attic"));
        assert_eq!(unknown, of_vms.contains(node), "{node}: {state:?}");
        assert!(unknown || state.power == Power::On, "{node}: {state:?}");
    }
    let calls = world.calls.take();
    for node in &of_vms {
        assert!(
            !calls.iter().any(|call| call.ends_with(&format!(" {node}"))),
            "{node} is left alone: {calls:?}"
        );
    }
    let warned = world.take_events().into_iter().filter_map(|event| match event {
        flotilla_core::Event::Warning { text } => Some(text),
        _ => None,
    });
    assert_eq!(
        warned.collect::<Vec<_>>(),
        of_vms
            .iter()
            .map(|node| format!("node {node} is left alone: host attic does not answer: connection refused"))
            .collect::<Vec<_>>()
    );
    vms.answer_again();
    assert_eq!(world.found().await.joined.len(), ROLES.len(), "nothing happened to them");
}

#[tokio::test]
async fn no_second_cluster_is_made_beside_machines_that_are_unknown() {
    // The only control plane, one of several, and a worker: each may be a member of a cluster that runs.
    for (roles, vm) in [(&ROLES[2..], 0), (&ROLES[..], 1), (&ROLES[..], 4)] {
        let (world, vms) = running(on_vms(of_nodes(roles), &[vm])).await;
        vms.fall_silent("attic");
        for node in machines_of(&world.driver, &world).await {
            world.driver.remove(&MachineId::new(world.name(), &node)).await.unwrap();
        }
        world.calls.take();
        let error = world.start().await.unwrap_err();
        let node = &world.cluster.spec.nodes[vm].name;
        assert_eq!(
            error.to_string(),
            format!("cannot start {node}: host attic does not answer: connection refused")
        );
        assert_eq!(error.code().name, "HOST_UNREACHABLE");
        let calls = world.calls.take();
        assert!(
            !calls.iter().any(|call| call.starts_with("ensure") || call.starts_with("start-api")),
            "{calls:?}"
        );
    }
}

#[tokio::test]
async fn nodes_of_a_silent_host_are_neither_started_nor_stopped_nor_deleted() {
    let (world, vms) = running(mixed()).await;
    vms.fall_silent("attic");
    world.calls.take();
    let (engine, locked) = (world.engine(), world.locked());
    for node in names(&world, &VMS) {
        let nodes = std::slice::from_ref(&node);
        let drain = flotilla_core::Drain { limit: std::time::Duration::ZERO, force: true };
        let mut cluster = world.cluster.clone();
        for (doing, error) in [
            (
                "start",
                engine.start_nodes(&locked, &world.cluster, nodes, &crate::world::wait()).await.unwrap_err(),
            ),
            ("stop", engine.stop_nodes(&world.cluster, nodes, true).await.unwrap_err()),
            ("delete", engine.delete_nodes(&locked, &mut cluster, nodes, drain).await.unwrap_err()),
            ("use", engine.machine(&world.cluster, &node).await.map(drop).unwrap_err()),
        ] {
            assert!(error.to_string().starts_with(&format!("cannot {doing} {node}: host attic")), "{error}");
        }
        assert_eq!(cluster, world.cluster);
    }
    // What can be stopped is.
    let error = world.stop().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot stop demo-m02, demo-m05: host attic does not answer: connection refused"
    );
    vms.answer_again();
    let found = world.found().await.machines;
    let on: Vec<_> =
        found.iter().filter(|(_, state)| state.power == Power::On).map(|(node, _)| node.clone()).collect();
    assert_eq!(on, names(&world, &VMS));
}

#[tokio::test]
async fn a_deletion_removes_what_it_reaches_and_names_the_silent_host() {
    let (world, vms) = running(mixed()).await;
    vms.fall_silent("attic");
    for _ in 0..2 {
        let error = world.delete().await.unwrap_err();
        assert_eq!(error.to_string(), "host attic does not answer");
        assert!(matches!(error, EngineError::Driver(_)), "{error:?}");
        assert_eq!(error.hints(), ["connection refused; make host attic answer, then run the command again"]);
        assert!(machines_of(&world.driver, &world).await.is_empty());
        assert!(world.store.load(world.name()).unwrap().is_some(), "the record is kept");
    }
    vms.answer_again();
    world.delete().await.unwrap();
    assert!(machines_of(&vms, &world).await.is_empty());
    assert!(world.store.load(world.name()).unwrap().is_none());
}

#[tokio::test]
async fn a_node_whose_driver_this_flotilla_lacks_is_unknown() {
    let world = World::of(on_vms(of_nodes(&["control-plane", "worker"]), &[1]));
    let observed = world.engine().observe(&world.cluster).await.unwrap();
    let found = &observed.machines[&"demo-m02".parse::<NodeName>().unwrap()].power;
    assert_eq!(*found, Power::Unknown("this flotilla has no driver vm".to_owned()));
    let error = world.start().await.unwrap_err();
    assert_eq!(error.code().name, "HOST_UNREACHABLE", "it may be a member: {error}");
}

#[tokio::test]
async fn a_host_that_does_not_answer_does_not_keep_the_others_from_being_checked() {
    let world = World::running().await;
    world.host.network.fall_silent("far");
    world.driver.fall_silent("far");
    let fleet = world.engine().fleet;
    assert_eq!(fleet.subnets_in_use(world.name()).await.unwrap(), []);
    assert_eq!(fleet.check(&world.cluster).await.unwrap(), []);
}
