//! Whatever call fails, and whether it fails before or after it did its work: the same command again gets there.

use std::collections::BTreeSet;
use std::time::Duration;

use flotilla_core::{Changed, Drain};
use flotilla_core::{Cluster, Event};
use flotilla_engine::EngineError;
use flotilla_testkit::fake::{self, When};

use crate::world::{World, with_control_planes, with_two_workers, with_worker};

const DRAIN: Drain = Drain { limit: Duration::from_secs(30), force: false };

#[derive(Debug, Clone, Copy)]
enum Command {
    Start,
    Stop,
    Delete,
    /// Of `demo-m02`.
    StopNode,
    RemoveNode,
    /// Of the first node, which is primary.
    StopPrimary,
    RemovePrimary,
}

/// What was there before the command.
#[derive(Debug, Clone, Copy)]
enum Before {
    Nothing,
    /// One control plane, where more nodes are wanted.
    Small,
    Running,
    Stopped,
    Paused,
    Rebooted,
    Damaged,
}

impl Before {
    async fn world(self, cluster: Cluster) -> World {
        let world = match self {
            Self::Nothing => return World::of(cluster),
            Self::Small => return World::growing_to(cluster).await,
            _ => World::running_of(cluster).await,
        };
        let nodes = || world.cluster.spec.nodes.iter().map(|node| &node.name);
        match self {
            Self::Nothing | Self::Small | Self::Running => {}
            Self::Stopped => drop(world.stop().await.unwrap()),
            Self::Paused => world.pause().await,
            Self::Rebooted => {
                world.host.network.lose(world.name());
                nodes().for_each(|node| world.driver.lose_power(world.name(), node));
            }
            Self::Damaged => nodes().for_each(|node| world.driver.damage(world.name(), node)),
        }
        world.calls.take();
        world.take_events();
        world
    }
}

async fn run(command: Command, world: &World) -> Result<Changed, EngineError> {
    let node = match command {
        Command::StopPrimary | Command::RemovePrimary => ["demo".parse().unwrap()],
        _ => ["demo-m02".parse().unwrap()],
    };
    match command {
        Command::Start => world.start().await,
        Command::Stop => world.stop().await,
        Command::Delete => world.delete().await,
        Command::StopNode | Command::StopPrimary => {
            let drained = world.engine().drain_nodes(&world.cluster, &node, DRAIN).await?;
            Ok(drained.or(world.engine().stop_nodes(&world.cluster, &node, false).await?))
        }
        Command::RemoveNode | Command::RemovePrimary => {
            let mut cluster = world.store.get(world.name())?;
            if cluster.node(&node[0]).is_none() {
                return Ok(Changed::No);
            }
            world.engine().delete_nodes(&world.locked(), &mut cluster, &node, DRAIN).await?;
            Ok(Changed::Yes)
        }
    }
}

const TRIED: [(Before, Command); 11] = [
    (Before::Nothing, Command::Start),
    (Before::Running, Command::Start),
    (Before::Stopped, Command::Start),
    (Before::Paused, Command::Start),
    (Before::Rebooted, Command::Start),
    (Before::Damaged, Command::Start),
    (Before::Running, Command::Stop),
    (Before::Paused, Command::Stop),
    (Before::Nothing, Command::Delete),
    (Before::Running, Command::Delete),
    (Before::Stopped, Command::Delete),
];

const TRIED_ON_WORKERS: [(Before, Command); 3] = [
    (Before::Running, Command::StopNode),
    (Before::Running, Command::RemoveNode),
    (Before::Damaged, Command::RemoveNode),
];

const TRIED_ON_CONTROL_PLANES: [(Before, Command); 9] = [
    (Before::Nothing, Command::Start),
    (Before::Small, Command::Start),
    (Before::Stopped, Command::Start),
    (Before::Paused, Command::Start),
    (Before::Rebooted, Command::Start),
    (Before::Running, Command::StopNode),
    (Before::Running, Command::RemoveNode),
    (Before::Running, Command::StopPrimary),
    (Before::Running, Command::RemovePrimary),
];

#[tokio::test(start_paused = true)]
async fn after_a_fault_in_any_call_the_same_command_gets_there() {
    for (before, command) in TRIED {
        fail_each_call(&fake::cluster("10.213.0.0/24"), before, command).await;
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_fault_in_any_call_the_same_command_gets_there_with_workers() {
    for (before, command) in TRIED.into_iter().chain(TRIED_ON_WORKERS) {
        fail_each_call(&with_worker(), before, command).await;
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_fault_in_any_call_the_same_command_gets_there_with_workers_that_are_added() {
    fail_each_call(&with_two_workers(), Before::Small, Command::Start).await;
}

#[tokio::test(start_paused = true)]
async fn after_a_fault_in_any_call_the_same_command_gets_there_with_several_control_planes() {
    for (before, command) in TRIED_ON_CONTROL_PLANES {
        fail_each_call(&with_control_planes(), before, command).await;
    }
}

async fn fail_each_call(cluster: &Cluster, before: Before, command: Command) {
    let sound = before.world(cluster.clone()).await;
    run(command, &sound).await.unwrap();
    let calls = sound.calls.take();
    let wanted = sound.found().await;
    for (nth, call) in (1..).zip(&calls) {
        for when in [When::Before, When::After] {
            let what = format!("{before:?}, {command:?}, fault {when:?} `{call}`");
            let world = before.world(cluster.clone()).await;
            world.calls.fail_nth(nth, when);
            let first = run(command, &world).await;
            assert_steps_are_told(&world.take_events(), first.is_err(), &what);
            if let Err(error) = run(command, &world).await {
                panic!("{what}: {error:?}");
            }
            assert_eq!(world.found().await, wanted, "{what}");
            // Removing a node asks the cluster about it, whether it exists or not.
            if !matches!(command, Command::RemoveNode | Command::RemovePrimary) {
                assert_eq!(run(command, &world).await.unwrap(), Changed::No, "{what}");
            }
        }
    }
}

/// A step that began has an end, unless it failed; then the command did, too.
fn assert_steps_are_told(events: &[Event], failed: bool, what: &str) {
    let (mut planned, mut begun, mut done) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for event in events {
        match event {
            Event::Plan { steps, .. } => planned.extend(steps),
            Event::StepStarted { step, .. } => {
                assert!(planned.contains(step), "{what}: {step} was not planned");
                assert!(begun.insert(step), "{what}: {step} began twice");
            }
            Event::StepDone { step, .. } => {
                assert!(begun.contains(step), "{what}: {step} ended before it began");
                assert!(done.insert(step), "{what}: {step} ended twice");
            }
            // An API that cannot be asked is reported.
            Event::Warning { .. } => {}
            other => panic!("{what}: {other:?}"),
        }
    }
    let unfinished: Vec<_> = begun.difference(&done).collect();
    if failed {
        assert!(unfinished.len() <= 1, "{what}: there was one fault, but {unfinished:?} did not end");
    } else {
        assert_eq!(done, planned, "{what}");
    }
}
