//! Nodes that are off for a moment, because they get something when they boot.

use flotilla_core::Cluster;
use flotilla_core::{Changed, Power};
use flotilla_engine::EngineError;
use flotilla_engine::converge::Resize;
use flotilla_spec::{ClusterSpec, Cpus, NodeName, Role};
use flotilla_testkit::fake::When;

use crate::world::{World, wait, with_control_planes, with_two_workers};

/// The same nodes with a bound each, those of a role or all.
fn smaller(cluster: &Cluster, which: impl Fn(Role) -> bool) -> (ClusterSpec, Vec<NodeName>) {
    let mut wanted = cluster.spec.clone();
    let mut names = Vec::new();
    for node in wanted.nodes.iter_mut().filter(|node| which(node.role)) {
        node.cpus = Cpus::Max;
        names.push(node.name.clone());
    }
    (wanted, names)
}

async fn resize(
    world: &mut World,
    wanted: &ClusterSpec,
    nodes: &[NodeName],
    force: bool,
) -> Result<Changed, EngineError> {
    let mut cluster = world.cluster.clone();
    let how = Resize { nodes, wanted, going: &[], force, alone: false };
    let done = world.engine().resize(&world.locked(), &mut cluster, how, &wait()).await;
    world.cluster = cluster;
    done
}

/// What was turned off and on, in order.
fn powers(world: &World) -> Vec<String> {
    let is_power = |call: &String| call.starts_with("stop ") || call.starts_with("ensure demo");
    world.calls.take().into_iter().filter(is_power).collect()
}

#[tokio::test]
async fn of_several_control_planes_one_after_the_other_is_off() {
    let mut world = World::running_of(with_control_planes()).await;
    let (wanted, nodes) = smaller(&world.cluster, |role| role == Role::ControlPlane);
    assert_eq!(resize(&mut world, &wanted, &nodes, false).await.unwrap(), Changed::Yes);
    insta::assert_snapshot!(powers(&world).join("\n"), @"
    stop demo
    ensure demo
    stop demo-m02
    ensure demo-m02
    stop demo-m03
    ensure demo-m03
    ");
    assert_eq!(world.store.get(world.name()).unwrap().spec, wanted);
}

#[tokio::test]
async fn who_is_dead_comes_back_before_another_is_turned_off() {
    let mut world = World::running_of(with_control_planes()).await;
    let third: NodeName = "demo-m03".parse().unwrap();
    world.driver.lose_power(world.name(), &third);
    world.calls.take();
    let (wanted, nodes) = smaller(&world.cluster, |role| role == Role::ControlPlane);
    resize(&mut world, &wanted, &nodes, false).await.unwrap();
    insta::assert_snapshot!(powers(&world).join("\n"), @"
    ensure demo-m03
    stop demo
    ensure demo
    stop demo-m02
    ensure demo-m02
    ");
    assert_eq!(world.store.get(world.name()).unwrap().spec, wanted);
}

#[tokio::test]
async fn if_the_dead_one_cannot_be_started_nobody_else_is_turned_off() {
    let mut world = World::running_of(with_control_planes()).await;
    let third: NodeName = "demo-m03".parse().unwrap();
    world.driver.lose_power(world.name(), &third);
    world.calls.fail("ensure demo-m03", When::Before);
    let before = world.cluster.spec.clone();
    let (wanted, _) = smaller(&world.cluster, |role| role == Role::ControlPlane);
    resize(&mut world, &wanted, &["demo-m02".parse().unwrap()], false).await.unwrap_err();
    assert_eq!(world.store.get(world.name()).unwrap().spec, before);
    assert_eq!(world.found().await.machines[&"demo-m02".parse().unwrap()].power, Power::On);
}

#[tokio::test]
async fn one_whose_restart_would_cost_the_majority_is_not_turned_off_unless_forced() {
    let mut world = World::running_of(with_control_planes()).await;
    // It is on, and its etcd is silent anyway.
    world.bootstrapper.set_up(world.name(), &"demo-m03".parse().unwrap(), false);
    world.calls.take();
    let (wanted, _) = smaller(&world.cluster, |role| role == Role::ControlPlane);
    let second = ["demo-m02".parse().unwrap()];
    let refused = resize(&mut world, &wanted, &second, false).await.unwrap_err();
    assert_eq!(refused.to_string(), "restarting demo-m02 would lose quorum: 1 of 3 members left");
    assert!(powers(&world).is_empty());
    resize(&mut world, &wanted, &second, true).await.unwrap();
    assert_eq!(powers(&world), ["stop demo-m02", "ensure demo-m02"]);
}

#[tokio::test]
async fn workers_and_the_only_control_plane_are_turned_off_together() {
    let mut world = World::running_of(with_two_workers()).await;
    let (wanted, nodes) = smaller(&world.cluster, |_| true);
    assert_eq!(resize(&mut world, &wanted, &nodes, false).await.unwrap(), Changed::Yes);
    assert_eq!(powers(&world), ["stop demo", "stop demo-m02", "stop demo-m03"]);
    assert_eq!(world.store.get(world.name()).unwrap().spec, wanted);
    world.start().await.unwrap();
    assert_eq!(world.found().await, World::running_of(with_two_workers()).await.found().await);
}

#[tokio::test]
async fn after_a_fault_in_any_call_the_same_restart_gets_there() {
    let sound = async || {
        let mut world = World::running_of(with_control_planes()).await;
        let (wanted, nodes) = smaller(&world.cluster, |_| true);
        world.calls.take();
        let done = resize(&mut world, &wanted, &nodes, false).await;
        (world, done)
    };
    let (world, done) = sound().await;
    done.unwrap();
    for nth in 1..=world.calls.take().len() {
        for when in [When::Before, When::After] {
            let mut world = World::running_of(with_control_planes()).await;
            let (wanted, nodes) = smaller(&world.cluster, |_| true);
            world.calls.take();
            world.calls.fail_nth(nth, when);
            // As the next command finds it.
            drop(resize(&mut world, &wanted, &nodes, false).await);
            world.cluster = world.store.get(world.name()).unwrap();
            let known = world.cluster.spec.clone();
            let differs = |name: &&NodeName| {
                let cpus =
                    |spec: &ClusterSpec| spec.nodes.iter().find(|node| node.name == **name).unwrap().cpus;
                cpus(&known) != cpus(&wanted)
            };
            let left: Vec<_> = nodes.iter().filter(differs).cloned().collect();
            resize(&mut world, &wanted, &left, false).await.unwrap();
            world.start().await.unwrap();
            assert_eq!(world.store.get(world.name()).unwrap().spec, wanted, "{nth} {when:?}");
            let well = World::running_of(with_control_planes()).await.found().await;
            assert_eq!(world.found().await, well, "{nth} {when:?}");
        }
    }
}
