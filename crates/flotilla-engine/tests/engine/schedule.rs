//! How many steps are under way at once, and which begin first.

use std::time::Duration;

use flotilla_core::{Cluster, Event};
use flotilla_engine::EngineError;
use flotilla_engine::converge::{Engine, Lanes};
use flotilla_spec::NodeName;
use flotilla_testkit::fake::When;

use crate::world::{World, of_nodes, wait};

const MINUTE: Duration = Duration::from_mins(1);

/// A control plane and 39 workers.
fn forty() -> Cluster {
    let roles: Vec<_> = std::iter::once("control-plane").chain(std::iter::repeat_n("worker", 39)).collect();
    of_nodes(&roles)
}

/// A join takes longer than the boots of all others.
const JOIN: Duration = Duration::from_hours(1);

/// A world in which everything that is done to a node takes its time.
fn slow(cluster: Cluster) -> World {
    let world = World::of(cluster);
    world.calls.take_time("join", JOIN);
    for call in ["ensure demo", "stop", "remove demo", "drain"] {
        world.calls.take_time(call, MINUTE);
    }
    world
}

async fn start_on(world: &World, cores: u32) -> Result<(), EngineError> {
    let engine = Engine { lanes: Lanes::of_cores(cores), ..world.engine() };
    engine.start(&world.locked(), &world.cluster, &wait()).await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn boots_and_joins_at_once_are_limited_by_the_cores() {
    for (cores, boots, joins) in [(1, 2, 4), (2, 2, 4), (8, 8, 16), (64, 40, 39)] {
        let world = slow(forty());
        start_on(&world, cores).await.unwrap();
        let most = ["ensure demo", "join"].map(|call| world.calls.most_at_once(call));
        assert_eq!(most, [boots, joins], "on {cores} cores");
        assert_eq!(world.found().await.joined.len(), 40);
    }
}

#[tokio::test(start_paused = true)]
async fn what_ends_nodes_is_limited_as_well() {
    let world = slow(forty());
    start_on(&world, 2).await.unwrap();
    let workers: Vec<NodeName> = world.cluster.spec.nodes[1..].iter().map(|node| node.name.clone()).collect();
    let how = flotilla_core::Drain { limit: MINUTE, force: false };
    world.engine().delete_nodes(&world.locked(), &mut world.cluster.clone(), &workers, how).await.unwrap();
    world.stop().await.unwrap();
    assert_eq!(world.calls.most_at_once("drain"), 16);
    assert_eq!(world.calls.most_at_once("remove demo"), 2);
    assert_eq!(world.calls.most_at_once("stop"), 1, "only the control plane is left");
}

/// While the others wait for their turn, nothing is reported of them, and no time of theirs is running.
#[tokio::test(start_paused = true)]
async fn a_step_begins_when_it_has_its_turn() {
    let world = slow(forty());
    start_on(&world, 2).await.unwrap();
    let (mut under_way, mut most) = (0_usize, 0);
    for event in world.take_events() {
        match event {
            Event::StepStarted { step, .. } if step.starts_with("join/") => under_way += 1,
            Event::StepDone { step, took, .. } if step.starts_with("join/") => {
                under_way -= 1;
                assert!(took < 2 * JOIN, "{step}: {took:?}");
            }
            _ => {}
        }
        most = most.max(under_way);
    }
    assert_eq!(most, 4);
}

#[tokio::test(start_paused = true)]
async fn control_planes_boot_before_the_workers_wherever_they_are_listed() {
    let world =
        slow(of_nodes(&["worker", "worker", "worker", "control-plane", "control-plane", "control-plane"]));
    start_on(&world, 2).await.unwrap();
    let log = world.calls.log();
    let boots: Vec<_> = log.iter().filter_map(|line| line.strip_prefix("ensure demo-m0")).collect();
    assert_eq!(boots[..3], ["4", "5", "6"], "{boots:?}");
}

#[tokio::test(start_paused = true)]
async fn a_join_that_fails_makes_room_for_the_next() {
    let world = slow(forty());
    for node in ["demo-m02", "demo-m03", "demo-m04", "demo-m05"] {
        world.calls.fail(&format!("join {node}"), When::Before);
    }
    start_on(&world, 2).await.unwrap_err();
    assert_eq!(world.found().await.joined.len(), 36);
}
