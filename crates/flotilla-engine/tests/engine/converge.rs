//! Doing what was planned: in which order, what in parallel, and what is reported of it.

use std::time::Duration;

use flotilla_core::Cancel;
use flotilla_core::explain::Explain as _;
use flotilla_core::{Changed, Cluster, Drain, Driver, KubernetesState, Power};
use flotilla_core::{Event, Reporter};
use flotilla_engine::EngineError;
use flotilla_node_api::INIT;
use flotilla_spec::network::Cni;
use flotilla_testkit::fake::When;
use tokio::time::timeout;

use crate::world::{World, of_nodes, reported, wait, with_control_planes, with_two_workers, with_worker};

/// Longer than anything here takes, on a clock that stands still while there is something to do.
const LONG: std::time::Duration = std::time::Duration::from_hours(1);

#[tokio::test]
async fn a_new_cluster_is_made_in_order() {
    let world = World::new();
    assert_eq!(world.start().await.unwrap(), Changed::Yes);
    insta::assert_snapshot!(world.calls.log().join("\n"), @"
    find
    has-network
    ensure-network
    ensure demo
    start-api demo
    complete demo
    access
    kubeconfig put
    wait node_ready
    ");
    insta::assert_snapshot!(reported(&world.take_events()).join("\n"), @"
    plan network machine/demo api/demo complete kubeconfig wait
    > network
    . network
    > machine/demo
    . machine/demo
    > api/demo
    . api/demo
    > complete
    . complete
    > kubeconfig
    . kubeconfig
    > wait
    . wait
    ");
}

#[tokio::test]
async fn a_second_start_looks_and_changes_nothing() {
    let world = World::running().await;
    let before = world.found().await;
    world.calls.take();
    assert_eq!(world.start().await.unwrap(), Changed::No);
    insta::assert_snapshot!(world.calls.take().join("\n"), @"
    find
    has-network
    observe
    access
    kubeconfig has
    wait node_ready
    ");
    assert_eq!(reported(&world.take_events()), [] as [String; 0]);
    assert_eq!(world.found().await, before);
}

#[tokio::test]
async fn a_cluster_that_is_not_ready_yet_is_waited_for_with_all_the_patience_there_is() {
    let world = World::running().await;
    // The first look, which has no patience, sees a cluster that is not ready.
    world.calls.fail("wait node_ready", When::Before);
    assert_eq!(world.start().await.unwrap(), Changed::No);
    assert_eq!(reported(&world.take_events()), ["plan wait", "> wait", ". wait"]);
}

#[tokio::test]
async fn a_stopped_cluster_is_started_with_what_it_held() {
    let world = World::running().await;
    assert_eq!(world.stop().await.unwrap(), Changed::Yes);
    insta::assert_snapshot!(world.calls.take().join("\n"), @"
    find
    kubeconfig is-current
    stop demo
    kubeconfig unset_context
    ");
    let stopped = world.found().await;
    assert_eq!(stopped.machines[world.node()].power, Power::Off);
    assert_eq!((stopped.known.len(), stopped.current), (1, None));
    assert_eq!(world.stop().await.unwrap(), Changed::No);
    world.calls.take();
    assert_eq!(world.start().await.unwrap(), Changed::Yes);
    insta::assert_snapshot!(world.calls.take().join("\n"), @"
    find
    has-network
    ensure demo
    start-api demo
    complete demo
    access
    kubeconfig put
    wait node_ready
    ");
    assert_eq!(world.found().await, World::running().await.found().await);
}

#[tokio::test]
async fn the_context_stays_the_current_one_if_that_is_wished() {
    let world = World::running().await;
    world.engine().stop(&world.cluster, true).await.unwrap();
    assert_eq!(world.found().await.current.as_ref(), Some(world.name()));
}

#[tokio::test]
async fn what_a_reboot_took_is_brought_back() {
    let world = World::running().await;
    world.host.network.lose(world.name());
    world.driver.lose_power(world.name(), world.node());
    assert_eq!(world.start().await.unwrap(), Changed::Yes);
    assert_eq!(world.found().await, World::running().await.found().await);
}

#[tokio::test]
async fn a_damaged_machine_is_repaired_and_nothing_else_is_touched() {
    let world = World::running().await;
    world.driver.damage(world.name(), world.node());
    assert_eq!(world.start().await.unwrap(), Changed::Yes);
    assert_eq!(reported(&world.take_events())[0], "plan machine/demo wait");
    assert_eq!(world.found().await, World::running().await.found().await);
}

#[tokio::test]
async fn a_paused_cluster_is_woken() {
    let world = World::running().await;
    world.pause().await;
    assert_eq!(world.found().await.kubernetes, KubernetesState::Paused);
    assert_eq!(world.start().await.unwrap(), Changed::Yes);
    assert_eq!(reported(&world.take_events())[0], "plan unpause/demo wait");
    assert_eq!(world.found().await.kubernetes, KubernetesState::Complete);
}

#[tokio::test]
async fn a_deleted_cluster_leaves_nothing() {
    let world = World::running().await;
    assert_eq!(world.delete().await.unwrap(), Changed::Yes);
    insta::assert_snapshot!(world.calls.take().join("\n"), @"
    find
    kubeconfig remove
    remove-all
    remove-network
    ");
    let found = world.found().await;
    assert!(!found.network && !found.saved && found.machines.is_empty() && found.known.is_empty());
    assert_eq!(world.delete().await.unwrap(), Changed::No);
}

#[tokio::test]
async fn only_a_machine_that_is_on_can_be_had() {
    let world = World::running().await;
    assert!(world.engine().machine(&world.cluster, world.node()).await.is_ok());
    let stranger = "stranger".parse().unwrap();
    world.stop().await.unwrap();
    for node in [world.node(), &stranger] {
        let error = world.engine().machine(&world.cluster, node).await.map(drop).unwrap_err();
        assert!(matches!(error, EngineError::Stopped(_)), "{error:?}");
    }
}

#[tokio::test]
async fn a_worker_joins_when_the_cluster_is_complete() {
    let world = World::of(with_worker());
    assert_eq!(world.start().await.unwrap(), Changed::Yes);
    insta::assert_snapshot!(world.calls.take().join("\n"), @"
    find
    has-network
    ensure-network
    ensure demo
    ensure demo-m02
    start-api demo
    complete demo
    access
    kubeconfig put
    join demo-m02
    wait node_ready
    ");
    assert_eq!(world.start().await.unwrap(), Changed::No);
}

#[tokio::test]
async fn a_worker_that_fails_to_join_is_the_error_and_the_next_start_repairs_just_that() {
    let world = World::of(with_worker());
    world.calls.fail("join demo-m02", When::Before);
    let error = world.start().await.unwrap_err();
    assert!(matches!(error, EngineError::Bootstrap(_)), "{error:?}");
    assert_eq!(world.found().await.current.as_ref(), Some(world.name()));
    world.take_events();
    assert_eq!(world.start().await.unwrap(), Changed::Yes);
    assert_eq!(reported(&world.take_events())[0], "plan join/demo-m02 wait");
}

#[tokio::test]
async fn a_worker_that_fails_to_join_keeps_no_other_from_it() {
    for broken in ["demo-m02", "demo-m03"] {
        let world = World::of(with_two_workers());
        world.calls.fail(&format!("join {broken}"), When::Before);
        let error = world.start().await.unwrap_err();
        assert!(matches!(error, EngineError::Bootstrap(_)), "{error:?}");
        let events = world.take_events();
        let unfinished: Vec<_> = ["join/demo-m02", "join/demo-m03"]
            .into_iter()
            .filter(|step| !reported(&events).contains(&format!(". {step}")))
            .collect();
        assert_eq!(unfinished, [format!("join/{broken}")], "the step names the node");
        assert_eq!(world.found().await.joined.len(), 2, "the control plane and the other one");
        world.calls.take();
        assert_eq!(world.start().await.unwrap(), Changed::Yes);
        let joined: Vec<_> = world.calls.take().into_iter().filter(|call| call.starts_with("join")).collect();
        assert_eq!(joined, [format!("join {broken}")]);
        assert_eq!(world.found().await, World::running_of(with_two_workers()).await.found().await);
    }
}

#[tokio::test]
async fn a_node_that_somebody_took_off_the_list_joins_again() {
    for cluster in [with_worker(), with_control_planes()] {
        let world = World::running_of(cluster).await;
        world.bootstrapper.unlist(&"demo-m02".parse().unwrap());
        assert_eq!(world.start().await.unwrap(), Changed::Yes);
        assert_eq!(reported(&world.take_events())[0], "plan join/demo-m02 wait");
        assert_eq!(world.start().await.unwrap(), Changed::No);
    }
}

#[tokio::test]
async fn a_worker_is_emptied_before_it_goes() {
    let world = World::running_of(with_worker()).await;
    let (worker, drain) = (["demo-m02".parse().unwrap()], Drain { limit: LONG, force: false });
    world.engine().drain_nodes(&world.cluster, &worker, drain).await.unwrap();
    world.engine().stop_nodes(&world.cluster, &worker, false).await.unwrap();
    world.engine().delete_nodes(&world.locked(), &mut world.cluster.clone(), &worker, drain).await.unwrap();
    insta::assert_snapshot!(world.calls.take().join("\n"), @"
    find
    drain demo-m02
    find
    stop demo-m02
    mark-stopped demo-m02
    find
    has-network
    observe
    access
    kubeconfig has
    mark-stopped demo-m02
    drain demo-m02
    remove-from-api demo-m02
    remove demo-m02
    ensure-routes
    ");
    assert_eq!(world.found().await.machines.len(), 1);
}

#[tokio::test]
async fn a_node_that_is_off_is_deleted_without_waiting_for_its_pods_and_with_a_warning() {
    let world = World::running_of(with_worker()).await;
    let (worker, drain) = (["demo-m02".parse().unwrap()], Drain { limit: LONG, force: false });
    world.driver.lose_power(world.name(), &worker[0]);
    world.engine().delete_nodes(&world.locked(), &mut world.cluster.clone(), &worker, drain).await.unwrap();
    let calls = world.calls.take();
    assert_eq!(
        calls[calls.len() - 5..],
        [
            "mark-stopped demo-m02",
            "drain demo-m02",
            "remove-from-api demo-m02",
            "remove demo-m02",
            "ensure-routes"
        ]
    );
    let reported = "skipping the drain of demo-m02: powered off; pods on it are deleted".to_owned();
    assert_eq!(world.take_events()[0], Event::Warning { text: reported });
}

#[tokio::test(start_paused = true)]
async fn an_api_that_is_silent_for_a_moment_still_hears_of_a_node_that_goes() {
    let world = World::running_of(with_worker()).await;
    let (worker, drain) = (["demo-m02".parse().unwrap()], Drain { limit: LONG, force: false });
    world.calls.fail("observe", When::Before);
    world.engine().delete_nodes(&world.locked(), &mut world.cluster.clone(), &worker, drain).await.unwrap();
    assert_eq!(reported(&world.take_events())[0], "plan drain/demo-m02");
}

#[tokio::test]
async fn a_deleted_node_is_forgotten_only_when_the_others_know_of_its_end() {
    let mut world = World::running_of(with_worker()).await;
    let (worker, drain) = (["demo-m02".parse().unwrap()], Drain { limit: LONG, force: false });
    let saved = |world: &World| world.store.get(world.name()).unwrap();
    let mut cluster = world.cluster.clone();
    world.calls.fail("ensure-routes", When::Before);
    world.engine().delete_nodes(&world.locked(), &mut cluster, &worker, drain).await.unwrap_err();
    world.cluster.allocations.leaving.insert(worker[0].clone());
    assert_eq!(saved(&world), world.cluster, "the same command finds it again");

    cluster = saved(&world);
    world.engine().delete_nodes(&world.locked(), &mut cluster, &worker, drain).await.unwrap();
    assert_eq!(world.calls.take().last().unwrap(), "ensure-routes");
    world.cluster.spec.nodes.truncate(1);
    world.cluster.allocations.release(&worker[0]);
    assert_eq!((&cluster, saved(&world)), (&world.cluster, cluster.clone()));
}

#[tokio::test]
async fn nodes_of_which_one_cannot_be_emptied_are_all_open_to_pods_again() {
    let world = World::running_of(with_worker()).await;
    let (nodes, drain) =
        (["demo", "demo-m02"].map(|name| name.parse().unwrap()), Drain { limit: LONG, force: false });
    world.calls.fail("drain demo-m02", When::After);
    let error = world.engine().drain_nodes(&world.cluster, &nodes, drain).await.unwrap_err();
    assert!(matches!(error, EngineError::Bootstrap(_)), "{error:?}");
    insta::assert_snapshot!(world.calls.take().join("\n"), @"
    find
    drain demo
    drain demo-m02
    uncordon demo
    uncordon demo-m02
    ");
    assert_eq!(world.found().await, World::running_of(with_worker()).await.found().await);
}

#[tokio::test]
async fn a_node_that_cannot_be_emptied_is_not_removed_and_one_that_stays_cordoned_is_reported() {
    let world = World::running_of(with_worker()).await;
    let (worker, drain) = (["demo-m02".parse().unwrap()], Drain { limit: LONG, force: false });
    world.calls.fail("drain demo-m02", When::After);
    world.calls.fail("uncordon demo-m02", When::Before);
    let error = world
        .engine()
        .delete_nodes(&world.locked(), &mut world.cluster.clone(), &worker, drain)
        .await
        .unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(cause, "`drain demo-m02` failed on purpose", "the first failure is the error");
    let events = world.take_events();
    let reported =
        "cannot do as the test wants: if the node is still cordoned, run `kubectl uncordon demo-m02`"
            .to_owned();
    assert_eq!(events.last(), Some(&Event::Warning { text: reported }));
    assert_eq!(world.found().await.machines.len(), 2);
}

#[tokio::test]
async fn of_several_nodes_none_is_removed_if_one_cannot_be_emptied() {
    let world = World::running_of(with_control_planes()).await;
    let (nodes, drain) =
        (["demo-m03", "demo-m04"].map(|name| name.parse().unwrap()), Drain { limit: LONG, force: false });
    world.calls.fail("drain demo-m04", When::After);
    world
        .engine()
        .delete_nodes(&world.locked(), &mut world.cluster.clone(), &nodes, drain)
        .await
        .unwrap_err();
    assert_eq!(world.found().await, World::running_of(with_control_planes()).await.found().await);
}

#[tokio::test]
async fn who_was_not_told_of_a_node_that_has_joined_is_told_by_the_next_start() {
    let world = World::growing_to(with_worker()).await;
    world.calls.fail("ensure-routes", When::Before);
    world.start().await.unwrap_err();
    assert!(!world.is_configured().await);
    assert_eq!(world.start().await.unwrap(), Changed::Yes);
    assert!(world.is_configured().await);
    assert_eq!(world.start().await.unwrap(), Changed::No);
}

#[tokio::test]
async fn a_node_is_added_beside_one_that_hangs() {
    let all = with_two_workers();
    let mut small = all.clone();
    small.remove_nodes(&["demo-m03".parse().unwrap()]);
    let mut world = World::running_of(small).await;
    world.cluster = Cluster::new(all.spec, all.allocations);
    world.save(&world.cluster).unwrap();
    world.driver.machine(world.name(), &"demo-m02".parse().unwrap()).hang();
    let added = ["demo-m03".parse().unwrap()];
    let changed = world.engine().start_nodes(&world.locked(), &world.cluster, &added, &wait()).await.unwrap();
    assert_eq!(changed, Changed::Yes);
    assert!(world.found().await.joined.contains(&added[0]));
    let events = reported(&world.take_events()).join("\n");
    assert!(
        events.contains("cannot update the routes of all nodes: node demo-m02 does not answer"),
        "{events}"
    );
}

/// It would keep the virtual IP for itself while the new one takes it, too.
#[tokio::test]
async fn no_control_plane_is_added_beside_one_that_hangs() {
    let mut world = World::running_of(of_nodes(&["control-plane"])).await;
    let added = ["demo-m02".parse().unwrap()];
    world.cluster = of_nodes(&["control-plane", "control-plane"]);
    world.cluster.allocations.adding.extend(added.clone());
    world.save(&world.cluster).unwrap();
    world.driver.machine(world.name(), &"demo".parse().unwrap()).hang();
    let result = world.engine().start_nodes(&world.locked(), &world.cluster, &added, &wait()).await;
    assert_eq!(result.unwrap_err().code().name, "GUEST_TIMEOUT");
    assert!(
        !world.found().await.joined.contains(&added[0]),
        "without the API server it leaves the address alone"
    );
}

#[tokio::test]
async fn labels_change_where_they_differ() {
    let mut world = World::running_of(with_worker()).await;
    let was = world.cluster.spec.clone();
    assert_eq!(world.engine().update_labels(&world.cluster, &was).await.unwrap(), Changed::No);
    world.calls.take();
    world.cluster.spec.nodes[1].labels = "disk=ssd".parse().unwrap();
    world.cluster.spec.nodes[1].taints = vec!["gpu:NoSchedule".parse().unwrap()];
    assert_eq!(world.engine().update_labels(&world.cluster, &was).await.unwrap(), Changed::Yes);
    assert_eq!(world.calls.take(), ["find", "update-labels demo-m02 disk=ssd gpu:NoSchedule"]);
    assert_eq!(
        reported(&world.take_events()),
        ["plan labels/demo-m02", "> labels/demo-m02", ". labels/demo-m02"]
    );
}

#[tokio::test]
async fn labels_cannot_change_in_a_cluster_that_does_not_run() {
    let mut world = World::running_of(with_worker()).await;
    world.stop().await.unwrap();
    let was = world.cluster.spec.clone();
    world.cluster.spec.nodes[1].labels = "disk=ssd".parse().unwrap();
    let error = world.engine().update_labels(&world.cluster, &was).await.unwrap_err();
    assert!(matches!(error, EngineError::NotRunning { .. }), "{error:?}");
}

#[tokio::test]
async fn a_cluster_without_a_pod_network_is_made_and_that_its_nodes_are_not_ready_is_told_once() {
    let mut cluster = with_worker();
    cluster.spec.network.cni = Cni::None;
    let world = World::of(cluster);
    assert_eq!(world.start().await.unwrap(), Changed::Yes);
    let events = world.take_events();
    assert!(matches!(events.last(), Some(Event::Note { text }) if text.contains("NotReady")), "{events:?}");
    assert!(!world.calls.take().iter().any(|call| call.starts_with("wait")));
    assert_eq!(world.start().await.unwrap(), Changed::No);
    assert_eq!(world.take_events(), []);
}

#[tokio::test]
async fn a_worker_can_be_removed_from_a_cluster_whose_api_does_not_answer_with_a_warning() {
    let world = World::running_of(with_worker()).await;
    world.stop().await.unwrap();
    world.take_events();
    let (worker, drain) = (["demo-m02".parse().unwrap()], Drain { limit: LONG, force: false });
    world.engine().delete_nodes(&world.locked(), &mut world.cluster.clone(), &worker, drain).await.unwrap();
    let events = world.take_events();
    assert!(matches!(events[0], Event::Warning { .. }), "{events:?}");
    assert_eq!(reported(&events)[1..], ["plan remove/demo-m02", "> remove/demo-m02", ". remove/demo-m02"]);
}

/// Each of the two goes on only when the other has begun.
#[tokio::test(start_paused = true)]
async fn machines_boot_and_workers_join_side_by_side() {
    let world = World::of(with_two_workers());
    for call in ["ensure", "join"] {
        world.calls.hold(&format!("{call} demo-m02"), &format!("{call} demo-m03"));
        world.calls.hold(&format!("{call} demo-m03"), &format!("{call} demo-m02"));
    }
    timeout(LONG, world.start()).await.expect("neither waits for the other's end").unwrap();
}

/// The same.
#[tokio::test(start_paused = true)]
async fn steps_that_do_not_need_each_other_run_side_by_side() {
    let world = World::new();
    world.calls.hold("complete demo", "kubeconfig put");
    world.calls.hold("access", "complete demo");
    timeout(LONG, world.start()).await.expect("neither waits for the other's end").unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_failure_stops_what_needs_it_and_nothing_else() {
    let world = World::new();
    world.calls.fail("complete demo", When::Before);
    world.calls.hold("access", "complete demo");
    let error = timeout(LONG, world.start()).await.unwrap().unwrap_err();
    assert!(matches!(error, EngineError::Bootstrap(_)), "{error:?}");
    let found = world.found().await;
    assert_eq!(found.kubernetes, KubernetesState::Incomplete);
    assert_eq!(found.current.as_ref(), Some(world.name()), "it is published all the same");
    let reported = reported(&world.take_events());
    assert!(reported.contains(&". kubeconfig".to_owned()), "{reported:?}");
    assert!(!reported.contains(&". complete".to_owned()), "{reported:?}");
    assert!(!reported.contains(&"> wait".to_owned()), "{reported:?}");
}

#[tokio::test(start_paused = true)]
async fn of_two_failures_the_first_is_the_error_and_the_other_is_told() {
    for (first, second) in [("complete demo", "access"), ("access", "complete demo")] {
        let world = World::new();
        world.calls.fail(first, When::Before);
        world.calls.fail(second, When::After);
        world.calls.hold(second, first);
        let error = timeout(LONG, world.start()).await.unwrap().unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(cause, format!("`{first}` failed on purpose"));
        let reported = Event::Warning { text: "also: cannot do as the test wants".to_owned() };
        assert!(world.take_events().contains(&reported), "the other is reported");
    }
}

/// Cancels as soon as a step begins.
struct CancelAt<'a> {
    world: &'a World,
    step: &'a str,
}

impl Reporter for CancelAt<'_> {
    fn report(&self, event: Event) {
        if matches!(&event, Event::StepStarted { step, .. } if step == self.step) {
            self.world.cancel.cancel();
        }
        self.world.events.report(event);
    }
}

#[tokio::test]
async fn after_a_cancel_no_step_begins_and_what_has_begun_is_finished() {
    for step in ["network", "machine/demo", "api/demo"] {
        let mut world = World::new();
        let reporter = CancelAt { world: &world, step };
        let error =
            world.engine_with(&reporter).start(&world.locked(), &world.cluster, &wait()).await.unwrap_err();
        assert!(matches!(error, EngineError::Interrupted), "{error:?}");
        let steps = reported(&world.take_events());
        assert_eq!(steps[steps.len() - 2..], [format!("> {step}"), format!(". {step}")]);
        world.cancel = Cancel::new();
        assert_eq!(world.start().await.unwrap(), Changed::Yes);
        assert_eq!(world.found().await, World::running().await.found().await);
    }
}

#[tokio::test]
async fn a_cancel_during_the_last_step_comes_too_late() {
    let world = World::new();
    let reporter = CancelAt { world: &world, step: "wait" };
    let done = world.engine_with(&reporter).start(&world.locked(), &world.cluster, &wait()).await;
    assert_eq!(done.unwrap(), Changed::Yes);
}

#[tokio::test]
async fn what_is_cancelled_before_it_begins_does_nothing() {
    let world = World::new();
    world.cancel.cancel();
    let error = world.start().await.unwrap_err();
    assert!(matches!(error, EngineError::Interrupted), "{error:?}");
    assert_eq!(world.driver.list(world.name()).await.unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn nodes_that_hang_are_waited_for_together() {
    let world = World::running_of(with_control_planes()).await;
    let limit = Duration::from_secs(10);
    for question in ["membership", INIT] {
        world.calls.take_time(question, limit);
    }
    let begun = tokio::time::Instant::now();
    world.engine().observe(&world.cluster).await.unwrap();
    assert_eq!(begun.elapsed(), limit);
}
