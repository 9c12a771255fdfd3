//! Whatever call fails, and whether it fails before or after it did its work: the same command again gets there.

use std::collections::BTreeSet;

use flotilla_engine::port::Changed;
use flotilla_engine::{EngineError, Event};
use flotilla_testkit::fake::When;

use crate::world::World;

#[derive(Debug, Clone, Copy)]
enum Command {
    Start,
    Stop,
    Delete,
}

/// What was there before the command.
#[derive(Debug, Clone, Copy)]
enum Before {
    Nothing,
    Running,
    Stopped,
    Paused,
    Rebooted,
    Damaged,
}

impl Before {
    async fn world(self) -> World {
        if matches!(self, Self::Nothing) {
            return World::new();
        }
        let world = World::running().await;
        match self {
            Self::Nothing | Self::Running => {}
            Self::Stopped => drop(world.stop().await.unwrap()),
            Self::Paused => world.pause().await,
            Self::Rebooted => {
                world.driver.lose_network(world.name());
                world.driver.lose_power(world.name(), world.node());
            }
            Self::Damaged => world.driver.damage(world.name(), world.node()),
        }
        world.calls.take();
        world.take_events();
        world
    }
}

async fn run(command: Command, world: &World) -> Result<Changed, EngineError> {
    match command {
        Command::Start => world.start().await,
        Command::Stop => world.stop().await,
        Command::Delete => world.delete().await,
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

#[tokio::test]
async fn after_a_fault_in_any_call_the_same_command_gets_there() {
    for (before, command) in TRIED {
        let sound = before.world().await;
        run(command, &sound).await.unwrap();
        let calls = sound.calls.take();
        let wanted = sound.found().await;
        for (nth, call) in (1..).zip(&calls) {
            for when in [When::Before, When::After] {
                let what = format!("{before:?}, {command:?}, fault {when:?} `{call}`");
                let world = before.world().await;
                world.calls.fail_nth(nth, when);
                let first = run(command, &world).await;
                assert_steps_are_told(&world.take_events(), first.is_err(), &what);
                if let Err(error) = run(command, &world).await {
                    panic!("{what}: {error:?}");
                }
                assert_eq!(world.found().await, wanted, "{what}");
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
