//! `recover`: an etcd that has lost its quorum for good.

use std::path::{Path, PathBuf};

use flotilla_core::{Changed, Driver, Event, MachineId};
use flotilla_engine::store::WhenBusy;
use flotilla_ops::recover::{self, Recovered, Request};
use flotilla_ops::{Context, OpError};
use flotilla_spec::{NodeName, WantedPower};
use flotilla_testkit::fake;

use crate::world::{World, demo, killed_anywhere, killed_only};

const ROLES: [&str; 4] = ["control-plane", "control-plane", "control-plane", "worker"];

fn request() -> Request {
    Request { cluster: demo(), from: None, force: false, busy: WhenBusy::Fail }
}

fn forced() -> Request {
    Request { force: true, ..request() }
}

fn name(node: &str) -> NodeName {
    node.parse().unwrap()
}

async fn recover(cx: &Context<'_>, request: Request) -> Result<Recovered, OpError> {
    recover::prepare(cx, request).await?.run(cx).await
}

/// The machines of these nodes are gone for good, with their disks.
async fn lose(world: &World, nodes: &[&str]) {
    for node in nodes {
        world.host.driver.remove(&MachineId::new(&demo(), &name(node))).await.unwrap();
        world.host.bootstrapper.set_up(&demo(), &name(node), false);
    }
    world.forget();
}

/// One survivor of three.
async fn survivor() -> World {
    let world = World::running(&ROLES).await;
    lose(&world, &["demo", "demo-m02"]).await;
    world
}

async fn set_revision(world: &World, node: &str, revision: u64) {
    let machine = world.machine(node).await;
    world.host.bootstrapper.set_revision(machine.as_ref(), revision).await;
}

fn warnings(world: &World) -> Vec<String> {
    let text = |event| match event {
        Event::Warning { text } => Some(text),
        _ => None,
    };
    world.host.take_events().into_iter().filter_map(text).collect()
}

#[tokio::test(start_paused = true)]
async fn the_survivor_becomes_the_only_member_and_the_primary() {
    let world = survivor().await;
    let recovered = recover(&world.context(), request()).await.unwrap();
    assert_eq!(
        (recovered.node.as_ref(), recovered.changed, recovered.keys),
        ("demo-m03", Changed::Yes, Some(7))
    );
    let copy = recovered.copies.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(copy, ["demo-m03:/var/lib/etcd.before-1"]);
    assert!(recovered.has_others);
    let found = world.found().await;
    assert_eq!(found.members.into_iter().collect::<Vec<_>>(), ["demo-m03"]);
    assert_eq!(found.cluster.unwrap().spec.primary().name, name("demo-m03"));
    let again = recover(&world.context(), request()).await.unwrap();
    assert_eq!((again.changed, again.keys), (Changed::No, None));
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_call_the_same_command_goes_on() {
    killed_anywhere(survivor, async |cx| recover(cx, request()).await).await;
}

/// Two of three still have their machines, and their etcd does not answer.
async fn silent() -> World {
    let world = World::running(&ROLES).await;
    set_revision(&world, "demo", 5).await;
    set_revision(&world, "demo-m02", 9).await;
    lose(&world, &["demo-m03"]).await;
    for node in ["demo", "demo-m02"] {
        world.host.bootstrapper.set_up(&demo(), &name(node), false);
    }
    world
}

#[tokio::test(start_paused = true)]
async fn forced_and_killed_at_any_call_the_same_command_goes_on() {
    // A database that cannot be read is left out, so that an error there ends in another recovery.
    killed_only(silent, async |cx| recover(cx, forced()).await).await;
}

#[tokio::test(start_paused = true)]
async fn of_members_that_are_silent_the_one_with_the_last_write_is_taken() {
    let world = silent().await;
    let recovered = recover(&world.context(), forced()).await.unwrap();
    assert_eq!(recovered.node, name("demo-m02"));
    assert_eq!(
        warnings(&world),
        [
            "etcd does not answer in node demo; its data on disk has revision 5",
            "etcd does not answer in node demo-m02; its data on disk has revision 9",
        ]
    );
    let copies: Vec<_> = recovered.copies.iter().map(|copy| copy.node.as_ref()).collect();
    assert_eq!(copies, ["demo", "demo-m02"], "nothing was deleted");
    assert_eq!(world.found().await.members.into_iter().collect::<Vec<_>>(), ["demo-m02"]);
}

#[tokio::test(start_paused = true)]
async fn a_majority_that_answers_or_has_its_data_is_refused() {
    let world = World::running(&ROLES).await;
    let error = recover(&world.context(), forced()).await.unwrap_err();
    assert_eq!(error.code().name, "GUEST_HAS_QUORUM");
    let silent = silent().await;
    let error = recover(&silent.context(), request()).await.unwrap_err();
    assert_eq!(
        (error.code().name, error.to_string().as_str()),
        ("GUEST_HAS_DATA", "2 of 3 control planes of cluster demo have their data: demo, demo-m02")
    );
    for world in [world, silent] {
        assert_eq!(world.found().await.members.len(), 3, "nothing was changed");
        assert_eq!(world.store.recovery(&demo()).unwrap(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn without_data_and_keys_nothing_can_be_recovered() {
    let world = World::running(&ROLES).await;
    lose(&world, &["demo", "demo-m02", "demo-m03"]).await;
    let error = recover(&world.context(), request()).await.unwrap_err();
    assert_eq!(error.code().name, "GUEST_NO_SURVIVOR");
}

/// A control plane that was stopped by force is still a member of the old etcd.
#[tokio::test(start_paused = true)]
async fn a_control_plane_that_was_stopped_sets_its_data_aside_and_is_off_again() {
    let world = World::running(&ROLES).await;
    let mut cluster = world.store.get(&demo()).unwrap();
    cluster.spec.nodes[2].power = WantedPower::Stopped;
    world.save(&cluster);
    world.host.driver.lose_power(&demo(), &name("demo-m03"));
    world.host.bootstrapper.set_up(&demo(), &name("demo-m03"), false);
    lose(&world, &["demo-m02"]).await;
    set_revision(&world, "demo", 9).await;
    let recovered = recover(&world.context(), forced()).await.unwrap();
    assert_eq!(recovered.node, name("demo"));
    let machines = world.machines().await;
    assert_eq!(machines[&name("demo-m03")].state().power, flotilla_core::Power::Off);
    assert_eq!(recovered.copies.iter().filter(|copy| copy.node == name("demo-m03")).count(), 1);
}

fn snapshot(directory: &Path, text: &str) -> PathBuf {
    let file = directory.join("a.snap");
    std::fs::write(&file, text).unwrap();
    file
}

#[tokio::test(start_paused = true)]
async fn from_a_snapshot_newer_data_is_kept_and_reported() {
    let directory = flotilla_testkit::directory();
    let from = Some(snapshot(directory.path(), &fake::snapshot("ca", 3)));
    let world = survivor().await;
    set_revision(&world, "demo-m03", 8).await;
    recover(&world.context(), Request { from: from.clone(), ..request() }).await.unwrap();
    assert_eq!(
        warnings(&world),
        ["node demo-m03 had newer data (revision 8) than the snapshot (revision 3), which is kept in \
          demo-m03:/var/lib/etcd.before-1"]
    );
    let again = recover(&world.context(), Request { from: from.clone(), ..request() }).await.unwrap_err();
    assert_eq!(again.code().name, "GUEST_HAS_QUORUM", "the file would be ignored");
    let request = || Request { from: from.clone(), ..request() };
    killed_after_the_exchange_it_is_done_again(request).await;
}

/// Whoever names a file gets what is in it, also if an earlier recovery without it was killed.
async fn killed_after_the_exchange_it_is_done_again(request: impl Fn() -> Request) {
    let world = survivor().await;
    world.host.calls.fail("finish-restore demo-m03", fake::When::Before);
    assert!(recover(&world.context(), Request { from: None, ..request() }).await.is_err());
    assert_eq!(recover(&world.context(), request()).await.unwrap().changed, Changed::Yes);
}

#[tokio::test]
async fn a_snapshot_that_proves_nothing_is_refused_before_anything_is_changed() {
    let directory = flotilla_testkit::directory();
    let world = survivor().await;
    for (text, code) in [
        ("no snapshot", "HOST_BAD_SNAPSHOT"),
        ("etcd snapshot\nauthority ca\nrevision 3\n", "HOST_BAD_SNAPSHOT"),
        (&fake::snapshot("another", 3), "GUEST_FOREIGN_SNAPSHOT"),
        ("etcd snapshot\nrevision 3\nchecksum\n", "GUEST_FOREIGN_SNAPSHOT"),
    ] {
        let from = Some(snapshot(directory.path(), text));
        let error = recover::prepare(&world.context(), Request { from, ..request() }).await.unwrap_err();
        assert_eq!(error.code().name, code, "{text}");
    }
    let absent = Request { from: Some("/absent".into()), ..request() };
    let error = recover::prepare(&world.context(), absent).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot read /absent");
    let prepared = recover::prepare(&world.context(), request()).await.unwrap();
    assert_eq!(prepared.control_planes(), ["demo", "demo-m02", "demo-m03"].map(name));
    let busy = recover::prepare(&world.context(), request()).await.unwrap_err();
    assert_eq!(busy.code().name, "CLUSTER_BUSY", "it is locked while a person thinks");
    drop(prepared);
    assert!(!world.host.calls.log().iter().any(|call| call.starts_with("ensure")), "nothing was started");
}
