//! `node add`, `start`, `stop`, `delete`, `update`.

use std::time::Duration;

use flotilla_core::{Changed, Drain, Power};
use flotilla_engine::converge::Wait;
use flotilla_engine::store::WhenBusy;
use flotilla_ops::node::settings::{Edits, Settings};
use flotilla_ops::node::{NodesChanged, add, delete, start, stop, update};
use flotilla_ops::{Context, OpError};
use flotilla_spec::{Cpus, Isolation, Role, WantedPower};

use crate::world::{World, demo, killed_anywhere, killed_anywhere_once, refused};

const DRAIN: Drain = Drain { limit: Duration::from_secs(30), force: false };
const TWO: [&str; 2] = ["control-plane", "worker"];
const THREE: [&str; 4] = ["control-plane", "control-plane", "control-plane", "worker"];

fn owned(nodes: &[&str]) -> Vec<String> {
    nodes.iter().map(ToString::to_string).collect()
}

async fn start(cx: &Context<'_>, nodes: &[&str]) -> Result<NodesChanged, OpError> {
    let request = start::Request {
        cluster: demo(),
        nodes: owned(nodes),
        wait_limit: Wait::LIMIT,
        busy: WhenBusy::Wait,
    };
    start::run(cx, &request).await
}

async fn stop(cx: &Context<'_>, nodes: &[&str]) -> Result<NodesChanged, OpError> {
    let request =
        stop::Request { cluster: demo(), nodes: owned(nodes), drain: true, how: DRAIN, busy: WhenBusy::Wait };
    stop::run(cx, &request).await
}

async fn delete(cx: &Context<'_>, nodes: &[&str]) -> Result<NodesChanged, OpError> {
    let request =
        delete::Request { cluster: demo(), nodes: owned(nodes), drain: DRAIN, busy: WhenBusy::Wait };
    delete::run(cx, &request).await
}

fn adding(count: usize, role: Role) -> add::Request {
    let (settings, making) = (Settings::default(), add::Making::default());
    let (names, wait_limit, busy) = (vec![None; count], Wait::LIMIT, WhenBusy::Wait);
    add::Request { cluster: demo(), names, role, settings, making, wait_limit, busy }
}

fn updating(settings: Settings) -> update::Request {
    let (wait_limit, busy) = (Wait::LIMIT, WhenBusy::Wait);
    update::Request { cluster: demo(), node: "m02".into(), settings, force: false, wait_limit, busy }
}

async fn update(cx: &Context<'_>, settings: Settings) -> Result<Changed, OpError> {
    let (_, prepared) = update::prepare(cx, &updating(settings)).await?;
    prepared.run().await
}

fn cpus() -> Settings {
    Settings { cpus: Some(Cpus::Max), ..Settings::default() }
}

fn labels() -> Settings {
    let come = vec!["disk=ssd".parse().unwrap()];
    Settings { labels: Edits { come, go: Vec::new() }, ..Settings::default() }
}

/// Nodes that are on, in the order of their names.
async fn on(world: &World) -> Vec<String> {
    let found = world.found().await;
    let on = found.machines.iter().filter(|(_, machine)| machine.power == Power::On);
    on.map(|(name, _)| name.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn nodes_are_added_stopped_started_and_deleted() {
    let world = World::running(&["control-plane"]).await;
    let added = add::run(&world.context(), &adding(2, Role::Worker)).await.unwrap();
    assert_eq!(added.nodes.iter().map(AsRef::as_ref).collect::<Vec<&str>>(), ["demo-m02", "demo-m03"]);
    assert_eq!(on(&world).await, ["demo", "demo-m02", "demo-m03"]);
    assert_eq!(stop(&world.context(), &["m02"]).await.unwrap().changed, Changed::Yes);
    assert_eq!(on(&world).await, ["demo", "demo-m03"]);
    assert_eq!(start(&world.context(), &[]).await.unwrap().changed, Changed::Yes);
    assert_eq!(start(&world.context(), &["m02"]).await.unwrap().changed, Changed::No);
    delete(&world.context(), &["m02", "demo-m03"]).await.unwrap();
    assert_eq!(on(&world).await, ["demo"]);
    let cluster = world.found().await.cluster.unwrap();
    assert_eq!((cluster.spec.nodes.len(), cluster.allocations.adding.len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_node_is_updated_and_only_as_far_as_it_must_be() {
    let world = World::running(&TWO).await;
    assert_eq!(update(&world.context(), Settings::default()).await.unwrap(), Changed::No);
    world.forget();
    update(&world.context(), labels()).await.unwrap();
    let log = world.host.calls.take();
    assert!(log.contains(&"update-labels demo-m02 disk=ssd ".to_owned()), "{log:?}");
    assert!(!log.contains(&"stop demo-m02".to_owned()), "{log:?}");
    let cx = world.context();
    let (node, prepared) = update::prepare(&cx, &updating(cpus())).await.unwrap();
    assert!(prepared.plan.restarts());
    assert_eq!((node.as_ref(), prepared.plan.outages().len()), ("demo-m02", 0));
    prepared.run().await.unwrap();
    let log = world.host.calls.take();
    assert!(log.contains(&"stop demo-m02".to_owned()) && !log.contains(&"stop demo".to_owned()), "{log:?}");
    assert_eq!(on(&world).await, ["demo", "demo-m02"]);
    assert_eq!(world.found().await.cluster.unwrap().spec.nodes[1].cpus, Cpus::Max);
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_is_dropped_changes_nothing() {
    let world = World::running(&TWO).await;
    let before = world.found().await;
    let cx = world.context();
    let (_, prepared) = update::prepare(&cx, &updating(cpus())).await.unwrap();
    // Held while a person thinks.
    let busy = world.context().lock(&demo(), "another", WhenBusy::Fail).unwrap_err();
    assert_eq!(busy.code().name, "CLUSTER_BUSY");
    drop(prepared);
    assert_eq!(world.found().await, before);
}

#[tokio::test(start_paused = true)]
async fn refusals_touch_nothing() {
    let mut world = World::running(&THREE).await;
    let cx = world.context();
    insta::assert_snapshot!(refused(&world, stop(&cx, &["m09"]).await), @"GUEST_NODE_NOT_FOUND: cluster demo has no node m09");
    insta::assert_snapshot!(refused(&world, stop(&cx, &["demo", "m02", "m03"]).await), @"GUEST_QUORUM: stopping demo, demo-m02, demo-m03 would lose quorum: 0 of 3 members left");
    insta::assert_snapshot!(refused(&world, delete(&cx, &["demo", "m02", "m03"]).await), @"GUEST_LAST_CONTROL_PLANE: cannot delete all 3 control planes of cluster demo");
    let named =
        |name: &str| add::Request { names: vec![Some(name.parse().unwrap())], ..adding(1, Role::Worker) };
    insta::assert_snapshot!(refused(&world, add::run(&cx, &named("demo-m02")).await), @"MK_USAGE: the cluster already has a node demo-m02");
    let version = add::Making { version: Some("v1.99.0".parse().unwrap()), ..add::Making::default() };
    let newer = add::Request { making: version, ..adding(1, Role::Worker) };
    insta::assert_snapshot!(refused(&world, add::run(&cx, &newer).await), @"MK_USAGE: kubelet v1.99.0 of node demo-m05 is too new for Kubernetes v1.37.1");
    let bundle = add::Making { bundle: Some("beef".into()), ..add::Making::default() };
    let absent = add::Request { making: bundle, ..adding(1, Role::Worker) };
    insta::assert_snapshot!(refused(&world, add::run(&cx, &absent).await), @"BUNDLE_NOT_FOUND: no bundle for beef");
    world.is_root = false;
    let cx = world.context();
    for done in [stop(&cx, &["m02"]).await, start(&cx, &[]).await, delete(&cx, &["m02"]).await] {
        assert_eq!(done.unwrap_err().code().name, "HOST_PERMISSION");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_added_to_a_cluster_that_is_stopped_or_paused() {
    let world = World::running(&["control-plane"]).await;
    let cx = world.context();
    for machine in world.machines().await.values() {
        cx.bootstrapper.pause(machine.as_ref(), None).await.unwrap();
    }
    insta::assert_snapshot!(refused(&world, add::run(&cx, &adding(1, Role::Worker)).await), @"GUEST_PAUSED: cluster demo is paused");
    let mut cluster = world.found().await.cluster.unwrap();
    cluster.spec.nodes[0].power = WantedPower::Stopped;
    world.save(&cluster);
    insta::assert_snapshot!(refused(&world, add::run(&cx, &adding(1, Role::Worker)).await), @"GUEST_NOT_RUNNING: cluster demo is stopped");
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_call_add_goes_on() {
    for role in [Role::Worker, Role::ControlPlane] {
        killed_anywhere_once(
            async || World::running(&["control-plane"]).await,
            async |cx| add::run(cx, &adding(2, role)).await,
        )
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_call_stop_goes_on() {
    for node in ["demo", "m04"] {
        killed_anywhere(async || World::running(&THREE).await, async |cx| stop(cx, &[node]).await).await;
    }
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_call_start_goes_on() {
    let stopped = async || {
        let world = World::running(&TWO).await;
        stop(&world.context(), &["m02"]).await.unwrap();
        world.forget();
        world
    };
    for nodes in [&["m02"][..], &[]] {
        killed_anywhere(stopped, async |cx| start(cx, nodes).await).await;
    }
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_call_delete_goes_on() {
    for node in ["demo", "m04"] {
        killed_anywhere_once(
            async || World::running(&THREE).await,
            async |cx| {
                match delete(cx, &[node]).await {
                    // Killed after its last save, the node is gone already.
                    Err(error) if error.code().name == "GUEST_NODE_NOT_FOUND" => Ok(None),
                    done => done.map(Some),
                }
            },
        )
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_call_update_goes_on() {
    for settings in [cpus(), labels()] {
        killed_anywhere(async || World::running(&TWO).await, async |cx| update(cx, settings.clone()).await)
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_with_a_user_namespace_have_ids_of_their_own_until_they_are_deleted() {
    let world = World::running(&["control-plane"]).await;
    let mut request = adding(2, Role::Worker);
    request.making.isolation = Some(Isolation::User);
    add::run(&world.context(), &request).await.unwrap();
    let ids = async || world.found().await.cluster.unwrap().allocations.ids;
    let first = ids().await;
    let ranges: Vec<_> = first.values().collect();
    assert_eq!(first.keys().map(AsRef::as_ref).collect::<Vec<&str>>(), ["demo-m02", "demo-m03"]);
    assert!(!ranges[0].overlaps(ranges[1]), "{first:?}");
    delete(&world.context(), &["m02"]).await.unwrap();
    assert_eq!(ids().await.keys().map(AsRef::as_ref).collect::<Vec<&str>>(), ["demo-m03"]);
    // Another cluster's are not given a second time.
    let mut other = flotilla_testkit::fake::cluster("10.213.9.0/24");
    other.spec.name = "other".parse().unwrap();
    other.spec.nodes[0].name = "other".parse().unwrap();
    other.allocations.nodes.clear();
    other.allocate().unwrap();
    let taken = *first.values().next().unwrap();
    other.allocations.ids.insert("other".parse().unwrap(), taken);
    world.save(&other);
    add::run(&world.context(), &request).await.unwrap();
    let all = ids().await;
    assert_eq!(all.len(), 3);
    assert!(!all.values().any(|range| range.overlaps(&taken)), "{all:?}");
    assert_eq!(all[&"demo-m03".parse().unwrap()], first[&"demo-m03".parse().unwrap()], "it keeps its own");
}

#[tokio::test(start_paused = true)]
async fn an_update_of_one_node_does_not_take_back_the_deletion_of_another() {
    let world = World::running(&["control-plane", "worker", "worker"]).await;
    let mut cluster = world.store.get(&demo()).unwrap();
    cluster.allocations.leaving.insert("demo-m03".parse().unwrap());
    world.save(&cluster);
    update(&world.context(), labels()).await.unwrap();
    assert_eq!(world.store.get(&demo()).unwrap().allocations.leaving, cluster.allocations.leaving);
}
