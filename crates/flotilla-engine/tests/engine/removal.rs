//! Nodes that are deleted while the API does not answer, and removals that are killed.

use std::time::Duration;

use flotilla_core::{Changed, Drain, Power};
use flotilla_core::{Cluster, Explain};
use flotilla_engine::EngineError;
use flotilla_node_api::{CONFIGURE, INIT};
use flotilla_spec::NodeName;
use flotilla_testkit::fake::When;

use crate::world::{World, reported, wait, with_control_planes, with_two_workers};

const DRAIN: Drain = Drain { limit: Duration::from_secs(30), force: false };
const FORCED: Drain = Drain { force: true, ..DRAIN };

fn names<const N: usize>(names: [&str; N]) -> [NodeName; N] {
    names.map(|name| name.parse().unwrap())
}

fn saved(world: &World) -> Cluster {
    world.store.get(world.name()).unwrap()
}

/// What `flotilla start` does.
async fn start(world: &World) -> Changed {
    let mut cluster = saved(world);
    let changed = world.engine().start(&world.locked(), &cluster, &wait()).await.unwrap();
    changed.or(world.engine().finish_removals(&world.locked(), &mut cluster).await.unwrap())
}

#[tokio::test]
async fn a_node_that_was_deleted_while_the_cluster_was_off_is_off_the_list_after_the_next_start() {
    let world = World::running_of(with_two_workers()).await;
    world.stop().await.unwrap();
    let gone = names(["demo-m03"]);
    world.engine().delete_nodes(&world.locked(), &mut saved(&world), &gone, DRAIN).await.unwrap();
    assert_eq!(saved(&world).allocations.ghosts, gone.clone().into());
    world.calls.take();
    assert_eq!(start(&world).await, Changed::Yes);
    let calls = world.calls.take();
    assert!(calls.contains(&"remove-from-api demo-m03".to_owned()), "{calls:?}");
    assert!(!calls.contains(&"ensure demo-m03".to_owned()), "{calls:?}");
    assert!(saved(&world).allocations.ghosts.is_empty());
    assert_eq!(start(&world).await, Changed::No, "once is enough");
}

#[tokio::test]
async fn a_list_that_could_not_be_changed_is_changed_by_the_start_after() {
    let world = World::running_of(with_two_workers()).await;
    world.stop().await.unwrap();
    let gone = names(["demo-m03"]);
    world.engine().delete_nodes(&world.locked(), &mut saved(&world), &gone, DRAIN).await.unwrap();
    let mut cluster = saved(&world);
    world.engine().start(&world.locked(), &cluster, &wait()).await.unwrap();
    world.calls.fail("remove-from-api demo-m03", When::Before);
    world.engine().finish_removals(&world.locked(), &mut cluster).await.unwrap_err();
    assert_eq!(start(&world).await, Changed::Yes);
    assert!(saved(&world).allocations.ghosts.is_empty());
}

#[tokio::test]
async fn a_node_that_has_the_name_of_a_deleted_one_stays_on_the_list() {
    let world = World::running_of(with_two_workers()).await;
    world.stop().await.unwrap();
    let gone = names(["demo-m03"]);
    world.engine().delete_nodes(&world.locked(), &mut saved(&world), &gone, DRAIN).await.unwrap();
    let mut cluster = saved(&world);
    let node = world.cluster.spec.nodes[2].clone();
    cluster.spec.nodes.push(node);
    cluster.allocate().unwrap();
    assert!(cluster.allocations.ghosts.is_empty());
    world.save(&cluster).unwrap();
    start(&world).await;
    assert!(!world.calls.take().contains(&"remove-from-api demo-m03".to_owned()));
}

#[tokio::test]
async fn a_worker_whose_pods_cannot_be_moved_stays_unless_forced() {
    for paused in [false, true] {
        let world = World::running_of(with_two_workers()).await;
        if paused {
            world.pause().await;
        } else {
            world.bootstrapper.fall_silent();
        }
        let worker = names(["demo-m03"]);
        world.take_events();
        let error = world
            .engine()
            .delete_nodes(&world.locked(), &mut saved(&world), &worker, DRAIN)
            .await
            .unwrap_err();
        let told_as = match error {
            EngineError::Paused { .. } => "paused",
            EngineError::ApiSilent { .. } => "silent",
            ref other => panic!("{other:?}"),
        };
        assert_eq!(told_as, if paused { "paused" } else { "silent" });
        assert!(error.hints().last().unwrap().starts_with("--force"), "{:?}", error.hints());
        assert_eq!(world.take_events(), []);
        assert_eq!(saved(&world), world.cluster, "nothing was changed");
        assert_eq!(world.found().await.machines[&worker[0]].power, Power::On);

        world.engine().delete_nodes(&world.locked(), &mut saved(&world), &worker, FORCED).await.unwrap();
        assert_eq!(reported(&world.take_events())[1], "plan remove/demo-m03");
        assert_eq!(saved(&world).allocations.ghosts, worker.into());
    }
}

#[tokio::test]
async fn a_removal_that_is_cut_off_anywhere_is_finished_by_the_same_command_and_by_a_start() {
    for (cluster, node) in [(with_two_workers(), "demo-m02"), (with_control_planes(), "demo-m02")] {
        let gone = names([node]);
        let whole = World::running_of(cluster.clone()).await;
        whole.calls.take();
        whole.engine().delete_nodes(&whole.locked(), &mut saved(&whole), &gone, DRAIN).await.unwrap();
        let calls = whole.calls.take();
        let wanted = whole.found().await;
        let emptied = calls.iter().position(|call| *call == format!("drain {node}")).unwrap() + 1;
        for (nth, call) in (1..).zip(&calls).skip(emptied) {
            for when in [When::Before, When::After] {
                for by_start in [false, true] {
                    let what = format!("`{call}` {when:?}, start: {by_start}");
                    let world = World::running_of(cluster.clone()).await;
                    world.calls.take();
                    world.calls.fail_nth(nth, when);
                    if world
                        .engine()
                        .delete_nodes(&world.locked(), &mut saved(&world), &gone, DRAIN)
                        .await
                        .is_ok()
                    {
                        // Whoever it was asked of had an answer of its own.
                        continue;
                    }
                    assert_eq!(saved(&world).allocations.leaving, gone.clone().into(), "{what}");
                    if by_start {
                        assert_eq!(start(&world).await, Changed::Yes, "{what}");
                    } else {
                        world
                            .engine()
                            .delete_nodes(&world.locked(), &mut saved(&world), &gone, DRAIN)
                            .await
                            .unwrap();
                    }
                    assert_eq!(world.found().await, wanted, "{what}");
                    assert_eq!(saved(&world), saved(&whole), "{what}");
                    assert_eq!(start(&world).await, Changed::No, "{what}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_removal_that_is_cut_off_before_the_pods_have_moved_is_none() {
    let world = World::running_of(with_two_workers()).await;
    let gone = names(["demo-m02"]);
    world.calls.fail("drain demo-m02", When::After);
    world.engine().delete_nodes(&world.locked(), &mut saved(&world), &gone, DRAIN).await.unwrap_err();
    assert_eq!(saved(&world), world.cluster);
    assert_eq!(start(&world).await, Changed::No);
    assert_eq!(world.found().await.machines.len(), 3);
}

#[tokio::test]
async fn a_control_plane_that_etcd_cannot_spare_now_stays_until_it_can() {
    let world = World::running_of(with_control_planes()).await;
    let gone = names(["demo-m02"]);
    let mut cluster = saved(&world);
    cluster.allocations.leaving.insert(gone[0].clone());
    world.save(&cluster).unwrap();
    world.bootstrapper.set_up(world.name(), &"demo-m03".parse().unwrap(), false);
    world.take_events();
    start(&world).await;
    let events = reported(&world.take_events());
    assert!(
        events[0].contains("cannot finish deleting demo-m02: deleting demo-m02 would lose quorum"),
        "{events:?}"
    );
    assert_eq!(saved(&world), cluster);
    world.bootstrapper.set_up(world.name(), &"demo-m03".parse().unwrap(), true);
    assert_eq!(start(&world).await, Changed::Yes);
    assert_eq!(world.bootstrapper.member_names(world.name()), ["demo", "demo-m03"]);
}

#[tokio::test]
async fn a_node_that_cannot_be_updated_does_not_keep_another_one_in_the_cluster() {
    let world = World::running_of(with_two_workers()).await;
    let gone = names(["demo-m03"]);
    let other = world.driver.machine(world.name(), &"demo-m02".parse().unwrap());
    other.calls().fail(&format!("{INIT} {CONFIGURE}"), When::Before);
    world.engine().delete_nodes(&world.locked(), &mut saved(&world), &gone, DRAIN).await.unwrap();
    assert_eq!(saved(&world).spec.nodes.len(), 2);
    let events = reported(&world.take_events()).join("\n");
    assert!(events.contains("cannot update the routes of all nodes"), "{events}");
    assert_eq!(start(&world).await, Changed::Yes, "the next start updates it");
    assert_eq!(start(&world).await, Changed::No);
}
