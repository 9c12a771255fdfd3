//! Several control planes: how they come and go, and that the cluster outlives any one of them.

use std::time::Duration;

use flotilla_core::Event;
use flotilla_core::{Changed, Drain, Member, Power};
use flotilla_engine::EngineError;
use flotilla_engine::converge::{ControlPlaneChange, Leaving};
use flotilla_spec::{NodeName, WantedPower};
use flotilla_testkit::fake::When;

use crate::world::{World, reported, with_control_planes};

const DRAIN: Drain = Drain { limit: Duration::from_secs(30), force: false };

fn names<const N: usize>(names: [&str; N]) -> [NodeName; N] {
    names.map(|name| name.parse().unwrap())
}

/// What commands do to the spec of nodes that stop.
fn want_stopped(world: &mut World, nodes: &[NodeName]) {
    for node in world.cluster.spec.nodes.iter_mut().filter(|node| nodes.contains(&node.name)) {
        node.power = WantedPower::Stopped;
    }
    world.cluster.spec.hand_over_primary(nodes);
}

/// What was done last, before the kubeconfig got the credentials of one that stays.
fn last(world: &World) -> Vec<String> {
    let mut calls = world.calls.take();
    let published = calls.split_off(calls.len() - 3);
    assert_eq!(published, ["kubeconfig is-current", "access", "kubeconfig put"]);
    calls.split_off(calls.len() - 2)
}

async fn stop_nodes(world: &mut World, nodes: &[NodeName]) -> Result<Changed, EngineError> {
    want_stopped(world, nodes);
    world.engine().stop_nodes(&world.cluster, nodes, false).await
}

#[tokio::test]
async fn all_found_the_cluster_and_the_others_join_the_first() {
    let world = World::of(with_control_planes());
    assert_eq!(world.start().await.unwrap(), Changed::Yes);
    let reported = reported(&world.take_events());
    insta::assert_snapshot!(reported[0], @"plan network machine/demo machine/demo-m02 machine/demo-m03 machine/demo-m04 api/demo complete join/demo-m02 join/demo-m03 join/demo-m04 kubeconfig wait");
    assert_eq!(world.bootstrapper.member_names(world.name()), ["demo", "demo-m02", "demo-m03"]);
    assert_eq!(world.start().await.unwrap(), Changed::No);
}

#[tokio::test]
async fn a_cluster_that_began_with_one_grows_to_three() {
    let world = World::growing_to(with_control_planes()).await;
    assert_eq!(world.start().await.unwrap(), Changed::Yes);
    let plan = reported(&world.take_events()).remove(0);
    insta::assert_snapshot!(plan, @"plan routes machine/demo-m02 machine/demo-m03 machine/demo-m04 join/demo-m02 join/demo-m03 join/demo-m04 wait");
    assert_eq!(world.found().await, World::running_of(with_control_planes()).await.found().await);
}

#[tokio::test]
async fn one_that_stops_leaves_properly_and_joins_again_when_it_starts() {
    let mut world = World::running_of(with_control_planes()).await;
    let whole = world.found().await;
    let second = names(["demo-m02"]);
    assert_eq!(stop_nodes(&mut world, &second).await.unwrap(), Changed::Yes);
    assert_eq!(last(&world), ["leave demo-m02 by demo", "stop demo-m02"]);
    assert_eq!(world.bootstrapper.member_names(world.name()), ["demo", "demo-m03"]);
    assert_eq!(stop_nodes(&mut world, &second).await.unwrap(), Changed::No);
    world.take_events();
    world.cluster.spec.nodes.iter_mut().for_each(|node| node.power = WantedPower::Running);
    world.start().await.unwrap();
    let plan = reported(&world.take_events()).remove(0);
    insta::assert_snapshot!(plan, @"plan machine/demo-m02 join/demo-m02 wait");
    assert_eq!(world.found().await, whole);
}

#[tokio::test]
async fn when_the_primary_leaves_another_speaks() {
    let mut world = World::running_of(with_control_planes()).await;
    let first = names(["demo"]);
    stop_nodes(&mut world, &first).await.unwrap();
    assert_eq!(world.node().as_ref(), "demo-m02");
    assert_eq!(last(&world), ["leave demo by demo-m02", "stop demo"]);
    let drain = Drain { limit: Duration::ZERO, force: false };
    world.engine().delete_nodes(&world.locked(), &mut world.cluster.clone(), &first, drain).await.unwrap();
    world.cluster.spec.nodes.retain(|node| node.name != first[0]);
    world.configure().await;
    assert_eq!(world.start().await.unwrap(), Changed::No);
    assert_eq!(world.bootstrapper.member_names(world.name()), ["demo-m02", "demo-m03"]);
}

#[tokio::test]
async fn three_become_one_in_one_go_and_the_last_stays() {
    let mut world = World::running_of(with_control_planes()).await;
    let two = names(["demo", "demo-m03"]);
    world.engine().can_spare(&world.cluster, &two, Leaving::Deleted).await.unwrap();
    world.cluster.spec.hand_over_primary(&two);
    world.calls.take();
    world.engine().delete_nodes(&world.locked(), &mut world.cluster.clone(), &two, DRAIN).await.unwrap();
    let calls = world.calls.take();
    let leaving: Vec<_> = calls.iter().filter(|call| call.starts_with("leave")).collect();
    assert_eq!(leaving, ["leave demo by demo-m02", "leave demo-m03 by demo-m02"]);
    assert_eq!(world.bootstrapper.member_names(world.name()), ["demo-m02"]);
    world.cluster.spec.nodes.retain(|node| !two.contains(&node.name));
    let error = world.engine().can_spare(&world.cluster, &names(["demo-m02"]), Leaving::Stopped).await;
    assert_eq!(error.unwrap_err().to_string(), "stopping demo-m02 would lose quorum: 0 of 1 members left");
}

#[tokio::test]
async fn one_that_was_killed_is_brought_back_by_the_others() {
    let world = World::running_of(with_control_planes()).await;
    world.driver.lose_power(world.name(), world.node());
    assert_eq!(world.start().await.unwrap(), Changed::Yes);
    let plan = reported(&world.take_events()).remove(0);
    insta::assert_snapshot!(plan, @"plan machine/demo join/demo wait");
    assert_eq!(world.found().await, World::running_of(with_control_planes()).await.found().await);
}

#[tokio::test]
async fn one_whose_machine_is_lost_can_be_deleted_and_added_again() {
    let mut world = World::running_of(with_control_planes()).await;
    let whole = world.found().await;
    let lost = names(["demo"]);
    world.driver.lose_power(world.name(), &lost[0]);
    world.bootstrapper.set_up(world.name(), &lost[0], false);
    let spec = world.cluster.spec.clone();
    world.cluster.spec.hand_over_primary(&lost);
    world.engine().delete_nodes(&world.locked(), &mut world.cluster.clone(), &lost, DRAIN).await.unwrap();
    assert_eq!(world.bootstrapper.member_names(world.name()), ["demo-m02", "demo-m03"]);
    world.cluster.spec = spec;
    world.start().await.unwrap();
    assert_eq!(world.found().await, whole);
}

#[tokio::test]
async fn a_machine_that_is_no_member_of_etcd_any_more_joins_again() {
    let mut world = World::running_of(with_control_planes()).await;
    let killed = names(["demo-m02"]);
    world.driver.lose_power(world.name(), &killed[0]);
    world.bootstrapper.set_up(world.name(), &killed[0], false);
    // It leaves without having been asked, so that its machine believes to be a member.
    stop_nodes(&mut world, &killed).await.unwrap();
    assert_eq!(world.bootstrapper.member_names(world.name()), ["demo", "demo-m03"]);
    world.cluster.spec.nodes.iter_mut().for_each(|node| node.power = WantedPower::Running);
    world.calls.fail("join demo-m02", When::Before);
    world.start().await.unwrap_err();
    assert!(!world.found().await.joined.contains(&killed[0]));
    world.start().await.unwrap();
    assert_eq!(world.found().await, World::running_of(with_control_planes()).await.found().await);
}

#[tokio::test]
async fn all_that_were_stopped_together_start_together_and_none_leaves() {
    let world = World::running_of(with_control_planes()).await;
    let whole = world.found().await;
    world.stop().await.unwrap();
    assert!(!world.calls.take().iter().any(|call| call.starts_with("leave")));
    world.start().await.unwrap();
    assert_eq!(world.found().await, whole);
}

#[tokio::test]
async fn what_would_cost_the_majority_is_refused_with_the_numbers_and_done_by_force() {
    let mut world = World::running_of(with_control_planes()).await;
    let [second, third] = names(["demo-m02", "demo-m03"]);
    world.driver.lose_power(world.name(), &third);
    world.bootstrapper.set_up(world.name(), &third, false);
    let second = [second];
    let refused = world.engine().can_spare(&world.cluster, &second, Leaving::Stopped).await.unwrap_err();
    assert_eq!(refused.to_string(), "stopping demo-m02 would lose quorum: 1 of 3 members left");
    let refused = world
        .engine()
        .delete_nodes(&world.locked(), &mut world.cluster.clone(), &second, DRAIN)
        .await
        .unwrap_err();
    assert_eq!(refused.to_string(), "deleting demo-m02 would lose quorum: 1 of 3 members left");
    assert_eq!(world.found().await.machines[&second[0]].power, Power::On);
    // The dead one can leave, and then the other.
    let both = [second[0].clone(), third];
    world.engine().can_spare(&world.cluster, &both, Leaving::Stopped).await.unwrap();

    world.take_events();
    want_stopped(&mut world, &second);
    world.engine().stop_nodes(&world.cluster, &second, true).await.unwrap();
    let events = world.take_events();
    let Event::Warning { text } = &events[0] else { panic!("{events:?}") };
    assert!(
        text.starts_with("stopping demo-m02 would lose quorum: 1 of 3 members left; they remain members"),
        "{text}"
    );
    assert_eq!(reported(&events)[1], "plan stop/demo-m02");
}

#[tokio::test]
async fn nobody_is_spared_on_hearsay() {
    let world = World::running_of(with_control_planes()).await;
    let second = names(["demo-m02"]);
    // None of the three can say who the members are.
    for _ in 0..3 {
        world.calls.fail("members", When::Before);
    }
    let refused = world.engine().can_spare(&world.cluster, &second, Leaving::Stopped).await.unwrap_err();
    assert!(matches!(refused, EngineError::QuorumUnknown { .. }), "{refused:?}");
    // One of them is enough.
    world.calls.fail("members", When::Before);
    world.engine().can_spare(&world.cluster, &second, Leaving::Stopped).await.unwrap();
}

#[tokio::test]
async fn the_last_one_that_runs_stays() {
    let mut world = World::running_of(with_control_planes()).await;
    stop_nodes(&mut world, &names(["demo", "demo-m02"])).await.unwrap();
    let refused = world.engine().can_spare(&world.cluster, &names(["demo-m03"]), Leaving::Stopped).await;
    assert_eq!(refused.unwrap_err().to_string(), "stopping demo-m03 would lose quorum: 0 of 1 members left");
    let all = names(["demo", "demo-m02", "demo-m03"]);
    let refused = world.engine().can_spare(&world.cluster, &all, Leaving::Stopped).await;
    assert_eq!(
        refused.unwrap_err().to_string(),
        "stopping demo, demo-m02, demo-m03 would lose quorum: 0 of 3 members left"
    );
    // Workers can always go.
    world.engine().can_spare(&world.cluster, &names(["demo-m04"]), Leaving::Deleted).await.unwrap();
}

#[tokio::test]
async fn in_a_stopped_cluster_none_can_be_deleted_and_all_are_stopped_already() {
    let world = World::running_of(with_control_planes()).await;
    world.stop().await.unwrap();
    let second = names(["demo-m02"]);
    let refused = world.engine().can_spare(&world.cluster, &second, Leaving::Deleted).await.unwrap_err();
    assert!(matches!(refused, EngineError::Stopped(_)), "{refused:?}");
    world.engine().can_spare(&world.cluster, &second, Leaving::Stopped).await.unwrap();
    assert_eq!(world.engine().stop_nodes(&world.cluster, &second, false).await.unwrap(), Changed::No);
}

#[tokio::test]
async fn who_is_cut_off_is_not_believed_and_does_not_speak_for_the_others() {
    let world = World::running_of(with_control_planes()).await;
    let [first, second] = names(["demo", "demo-m02"]);
    world.bootstrapper.cut_off(&first);
    let observed = world.engine().observe(&world.cluster).await.unwrap();
    let up: Vec<_> = observed.members.iter().flatten().map(|member| member.up).collect();
    assert_eq!(up, [false, true, true], "the primary itself sees one of three");
    // What the primary would not let go, and could not.
    let refused =
        world.engine().can_spare(&world.cluster, std::slice::from_ref(&second), Leaving::Stopped).await;
    assert_eq!(refused.unwrap_err().to_string(), "stopping demo-m02 would lose quorum: 1 of 3 members left");
    let first = [first];
    world.engine().can_spare(&world.cluster, &first, Leaving::Deleted).await.unwrap();
    world.calls.take();
    // Also while it is still the first in the list.
    world.engine().delete_nodes(&world.locked(), &mut world.cluster.clone(), &first, DRAIN).await.unwrap();
    assert!(world.calls.take().contains(&"leave demo by demo-m02".to_owned()));
    assert_eq!(world.bootstrapper.member_names(world.name()), ["demo-m02", "demo-m03"]);
}

#[tokio::test]
async fn a_control_plane_joins_by_one_that_is_not_cut_off() {
    let world = World::running_of(with_control_planes()).await;
    let [first, third] = names(["demo", "demo-m03"]);
    world.driver.lose_power(world.name(), &third);
    world.bootstrapper.cut_off(&first);
    world.start().await.unwrap();
}

#[tokio::test]
async fn a_control_plane_whose_stop_was_killed_is_not_turned_off_as_a_member() {
    let mut world = World::running_of(with_control_planes()).await;
    let [first, second, worker] = names(["demo", "demo-m02", "demo-m04"]);
    // Wanted stopped, and killed before it could retire.
    want_stopped(&mut world, &[second.clone(), worker.clone()]);
    world.engine().finish_stop(&world.cluster).await.unwrap();
    let machines = world.found().await.machines;
    assert_eq!(machines[&second].power, Power::On, "it is a member");
    assert_eq!(machines[&worker].power, Power::Off);
    world.engine().stop_nodes(&world.cluster, std::slice::from_ref(&second), false).await.unwrap();
    assert_eq!(world.bootstrapper.member_names(world.name()), ["demo", "demo-m03"]);
    assert_eq!(world.found().await.machines[&second].power, Power::Off);
    // If the whole cluster stops, no member leaves etcd.
    for node in &mut world.cluster.spec.nodes {
        node.power = WantedPower::Stopped;
    }
    world.engine().finish_stop(&world.cluster).await.unwrap();
    assert_eq!(world.found().await.machines[&first].power, Power::Off);
}

#[tokio::test]
async fn a_dead_member_that_no_node_has_is_taken_out_by_the_next_start() {
    let world = World::running_of(with_control_planes()).await;
    let (name, address) = ("gone".to_owned(), "10.213.0.99".parse().unwrap());
    let stranger = Member { name, id: 99, address, answers: false, up: false, learner: false };
    world.bootstrapper.add_stranger(world.name(), Member { answers: true, up: true, ..stranger.clone() });
    assert_eq!(world.start().await.unwrap(), Changed::No, "one that is up is somebody's");
    world.bootstrapper.set_unhealthy(world.name(), "gone");
    assert_eq!(world.start().await.unwrap(), Changed::No, "one that answers is not dead, only unhealthy");
    world.bootstrapper.set_up(world.name(), &"gone".parse().unwrap(), false);
    assert_eq!(world.start().await.unwrap(), Changed::Yes);
    assert!(world.calls.take().contains(&"remove-member gone by demo".to_owned()));
    assert_eq!(world.bootstrapper.member_names(world.name()), ["demo", "demo-m02", "demo-m03"]);
    assert_eq!(world.start().await.unwrap(), Changed::No);
}

#[tokio::test]
async fn a_member_with_an_alarm_or_without_a_leader_is_none_of_a_majority() {
    let world = World::running_of(with_control_planes()).await;
    let [second] = names(["demo-m02"]);
    world.bootstrapper.set_unhealthy(world.name(), "demo-m03");
    let refused =
        world.engine().can_spare(&world.cluster, std::slice::from_ref(&second), Leaving::Stopped).await;
    assert_eq!(refused.unwrap_err().to_string(), "stopping demo-m02 would lose quorum: 1 of 3 members left");
    let third = names(["demo-m03"]);
    world.engine().can_spare(&world.cluster, &third, Leaving::Deleted).await.unwrap();
}

#[tokio::test]
async fn as_many_control_planes_are_paused_as_etcd_can_spare() {
    let world = World::running_of(with_control_planes()).await;
    let [second, third, worker] = names(["demo-m02", "demo-m03", "demo-m04"]);
    let can_pause = async |node| world.engine().can_pause(&world.cluster, node).await;
    can_pause(&second).await.unwrap();
    // A paused one does not answer.
    world.bootstrapper.set_up(world.name(), &second, false);
    let refused = can_pause(&third).await.unwrap_err();
    assert_eq!(refused.to_string(), "pausing demo-m03 would lose quorum: 1 of 3 members left");
    can_pause(&second).await.unwrap();
    can_pause(&worker).await.unwrap();
    // The only node of a cluster is all of it.
    let one = World::running().await;
    one.engine().can_pause(&one.cluster, one.node()).await.unwrap();
}

#[tokio::test]
async fn what_a_lost_addition_left_in_etcd_is_taken_out_also_where_one_control_plane_is_left() {
    let mut world = World::running().await;
    let address = "10.213.0.3".parse().unwrap();
    // Announced by an addition that was killed; then the node was deleted by force.
    let stranger = Member { name: String::new(), id: 99, address, answers: false, up: false, learner: true };
    world.bootstrapper.add_stranger(world.name(), stranger);
    world.cluster.allocations.highest = 2;
    assert_eq!(world.start().await.unwrap(), Changed::Yes);
    assert_eq!(world.bootstrapper.member_names(world.name()), ["demo"]);
    assert_eq!(world.start().await.unwrap(), Changed::No);
}

#[tokio::test]
async fn etcd_is_not_asked_for_its_members_where_there_was_never_more_than_one_node() {
    let world = World::running().await;
    world.start().await.unwrap();
    assert!(!world.calls.take().contains(&"members".to_owned()));
}

#[tokio::test]
async fn the_last_one_that_runs_is_stopped_by_force_and_comes_back_as_it_was() {
    let mut world = World::running_of(with_control_planes()).await;
    stop_nodes(&mut world, &names(["demo", "demo-m02"])).await.unwrap();
    let before = world.found().await;
    world.take_events();
    let third = names(["demo-m03"]);
    want_stopped(&mut world, &third);
    world.engine().stop_nodes(&world.cluster, &third, true).await.unwrap();
    let events = world.take_events();
    let Event::Warning { text } = &events[0] else { panic!("{events:?}") };
    assert!(
        text.starts_with("stopping demo-m03 would lose quorum: 0 of 1 members left; they remain members"),
        "{text}"
    );
    assert_eq!(world.bootstrapper.member_names(world.name()), ["demo-m03"]);
    let third = world.cluster.spec.nodes.iter_mut().find(|node| node.name == third[0]).unwrap();
    third.power = WantedPower::Running;
    world.start().await.unwrap();
    assert_eq!(world.found().await, before);
}

#[tokio::test]
async fn a_change_of_the_control_plane_is_looked_at_as_a_whole() {
    let mut world = World::running_of(with_control_planes()).await;
    let [first, second, third] = names(["demo", "demo-m02", "demo-m03"]);
    world.driver.lose_power(world.name(), &third);
    world.bootstrapper.set_up(world.name(), &third, false);
    let spare = async |world: &World, coming: &[&NodeName], deleted: &NodeName, stopped: &[&NodeName]| {
        let [coming, stopped] =
            [coming, stopped].map(|names| names.iter().copied().cloned().collect::<Vec<_>>());
        let deleted = std::slice::from_ref(deleted);
        let control_plane_change = ControlPlaneChange { coming: &coming, deleted, stopped: &stopped };
        let spared = world.engine().can_turn_over(&world.cluster, control_plane_change).await;
        spared.map_err(|refused| refused.to_string())
    };
    let refused = "deleting demo-m02 would lose quorum: 1 of 3 members left";
    assert_eq!(spare(&world, &[], &second, &[]).await.unwrap_err(), refused);
    // What is dead is started first.
    spare(&world, &[&third], &second, &[]).await.unwrap();
    let refused = "deleting and stopping demo-m02, demo, demo-m03 would lose quorum: 0 of 3 members left";
    assert_eq!(spare(&world, &[&third], &second, &[&first, &third]).await.unwrap_err(), refused);
    // Whoever joins has a vote, and is waited for as well.
    let fourth: NodeName = "new".parse().unwrap();
    let spec = world.cluster.node(&second).unwrap().spec;
    world.cluster.spec.nodes.push(flotilla_spec::NodeSpec { name: fourth.clone(), ..spec });
    world.cluster.allocate().unwrap();
    spare(&world, &[&fourth], &second, &[]).await.unwrap();
    let refused = "deleting and stopping demo-m02, demo would lose quorum: 1 of 4 members left";
    assert_eq!(spare(&world, &[&fourth], &second, &[&first]).await.unwrap_err(), refused);
    // If no member answers, the change is refused.
    for _ in 0..2 {
        world.calls.fail("members", When::Before);
    }
    let refused = "etcd does not answer: the number of its healthy members is unknown";
    assert_eq!(spare(&world, &[&fourth], &second, &[]).await.unwrap_err(), refused);
}
