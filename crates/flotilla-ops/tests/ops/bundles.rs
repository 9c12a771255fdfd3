//! `bundle …`: what the host's bundles are, and that nobody loses one that is in use.

use flotilla_engine::converge::Wait;
use flotilla_engine::store::WhenBusy;
use flotilla_ops::OpError;
use flotilla_ops::bundles::remove::{self, Request};
use flotilla_ops::bundles::{build, export, import, list, verify};

use crate::world::{World, demo};

async fn removed(world: &World, which: &str) -> Result<String, OpError> {
    let request = Request { which: which.to_owned() };
    remove::run(&world.context(), &request).await.map(|removed| removed.digest)
}

fn build_other(world: &World) {
    let request = build::Request { kubernetes: Some("v1.36.4".to_owned()), ..build::Request::default() };
    build::run(&world.context(), &request).unwrap();
}

fn versions(world: &World) -> Vec<String> {
    let listed = list::run(&world.context()).unwrap();
    listed.bundles.into_iter().map(|bundle| bundle.kubernetes).collect()
}

/// The default bundle for what nodes of `demo` are made from.
const USED: &str = "sha256-of-v1.37.1";

#[tokio::test]
async fn a_bundle_that_nobody_uses_is_removed() {
    let world = World::running(&["control-plane"]).await;
    build_other(&world);
    assert_eq!(versions(&world), ["v1.37.1", "v1.36.4"]);
    assert_eq!(removed(&world, "v1.36.4").await.unwrap(), "sha256-of-v1.36.4");
    assert_eq!(versions(&world), ["v1.37.1"]);
    let again = removed(&world, "v1.36.4").await.unwrap_err();
    assert_eq!((again.code().name, again.code().exit_status), ("BUNDLE_NOT_FOUND", 15));
}

#[tokio::test]
async fn a_bundle_of_a_saved_node_stays_though_the_node_has_no_machine_yet() {
    let world = World::running(&["control-plane", "worker"]).await;
    let mut cluster = world.store.get(&demo()).unwrap();
    cluster.allocations.bundles.insert("demo-m02".parse().unwrap(), USED.to_owned());
    world.save(&cluster);
    let error = removed(&world, "v1.37.1").await.unwrap_err();
    assert_eq!((error.code().name, error.code().exit_status), ("BUNDLE_IN_USE", 11));
    assert_eq!(error.to_string(), format!("{USED} is used by node demo-m02 of cluster demo"));
    assert_eq!(error.hints(), ["delete those clusters first: flotilla delete -p NAME"]);
    cluster.allocations.bundles.clear();
    cluster.allocations.bundles.insert("demo".parse().unwrap(), "another".to_owned());
    cluster.allocations.bundles.insert("demo-m02".parse().unwrap(), "another".to_owned());
    cluster.allocations.bundle = USED.to_owned();
    world.save(&cluster);
    let error = removed(&world, "v1.37.1").await.unwrap_err();
    assert_eq!(error.to_string(), format!("{USED} is used by cluster demo"), "for its next node");
    assert_eq!(versions(&world), ["v1.37.1"]);
}

#[tokio::test]
async fn a_machine_of_a_damaged_cluster_keeps_its_bundle() {
    let world = World::empty();
    let mut cluster = flotilla_testkit::fake::cluster("10.213.0.0/24");
    cluster.allocations.bundle = USED.to_owned();
    world.save(&cluster);
    let cx = world.context();
    let locked = cx.lock(&demo(), "a test", WhenBusy::Fail).unwrap();
    cx.engine(&demo()).start(&locked, &cluster, &Wait::for_cluster(Wait::LIMIT)).await.unwrap();
    drop(locked);
    std::fs::write(world.store.folder(&demo()).join("state.json"), "{").unwrap();
    let error = removed(&world, "v1.37.1").await.unwrap_err();
    assert_eq!(error.to_string(), format!("{USED} is used by node demo of cluster demo"));
}

#[tokio::test]
async fn a_bundle_that_a_command_holds_is_not_removed() {
    let world = World::empty();
    let cx = world.context();
    let held = cx.bundles.hold(USED).unwrap();
    let error = removed(&world, "v1.37.1").await.unwrap_err();
    assert_eq!(error.to_string(), format!("{USED} is used by a command that creates nodes"));
    drop(held);
    removed(&world, "v1.37.1").await.unwrap();
}

#[tokio::test]
async fn an_archive_brings_a_bundle_back() {
    let world = World::empty();
    let folder = flotilla_testkit::directory();
    let file = folder.path().join("bundle");
    let cx = world.context();
    let exported =
        export::run(&cx, &export::Request { which: "v1.37.1".into(), file: file.clone() }).unwrap();
    removed(&world, "v1.37.1").await.unwrap();
    assert_eq!(versions(&world), [""; 0]);
    let request = import::Request { file, digest: Some(exported.digest.clone()) };
    let imported = import::run(&cx, &request).unwrap();
    assert_eq!((imported.digest, imported.imported), (exported.digest, true));
    assert_eq!(verify::run(&cx, &verify::Request { which: "v1.37.1".into() }).unwrap().files, 418);
}
