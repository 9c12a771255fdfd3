//! `etcd status`, `etcd snapshot save` and `etcd snapshot restore`.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flotilla_core::Condition;
use flotilla_engine::converge::Wait;
use flotilla_engine::store::WhenBusy;
use flotilla_ops::etcd::{restore, save, status};
use flotilla_ops::{Context, OpError};
use flotilla_testkit::fake;

use crate::world::{World, demo, killed_anywhere};

const ROLES: [&str; 3] = ["control-plane"; 3];

async fn members(world: &World) -> Result<status::Status, OpError> {
    status::run(&world.context(), &status::Request { cluster: demo() }).await
}

#[tokio::test]
async fn members_are_asked_through_one_that_sees_a_majority() {
    let world = World::running(&ROLES).await;
    let seen = members(&world).await.unwrap();
    let names: Vec<_> = seen.members.0.iter().map(|status| status.member.name.as_str()).collect();
    assert_eq!(names, ["demo", "demo-m02", "demo-m03"]);
    assert!(seen.members.is_well());
    world.host.bootstrapper.cut_off(&"demo".parse().unwrap());
    assert_eq!(members(&world).await.unwrap().members.quorum().up, 2);
    world.host.bootstrapper.raise_alarm(&demo(), "demo-m02", "NOSPACE");
    let seen = members(&world).await.unwrap();
    assert!(!seen.members.is_well());
    assert_eq!(seen.members.0[1].alarms, ["NOSPACE"]);
    let again: status::Status = serde_json::from_value(serde_json::to_value(&seen).unwrap()).unwrap();
    assert_eq!(again, seen);
}

#[tokio::test]
async fn a_cluster_that_is_stopped_has_no_member_to_ask() {
    let world = World::running(&["control-plane"]).await;
    world.host.driver.lose_power(&demo(), &"demo".parse().unwrap());
    assert_eq!(members(&world).await.unwrap_err().code().name, "GUEST_NOT_RUNNING");
}

async fn save(cx: &Context<'_>, file: &Path, force: bool) -> Result<save::Saved, OpError> {
    save::run(cx, &save::Request { cluster: demo(), file: file.to_owned(), force }).await
}

#[tokio::test]
async fn a_snapshot_is_saved_of_the_member_that_knows_most_whole_or_not_at_all() {
    let directory = flotilla_testkit::directory();
    let file = directory.path().join("a.snap");
    let world = World::running(&ROLES).await;
    world.host.calls.fail("save-snapshot demo", fake::When::After);
    assert!(save(&world.context(), &file, false).await.is_err());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing unfinished is left");
    let other = directory.path().join("a.snap.unfinished");
    std::fs::write(&other, "the user's").unwrap();
    let saved = save(&world.context(), &file, false).await.unwrap();
    assert_eq!((saved.snapshot.revision, saved.snapshot.keys), (1, 7));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let json = serde_json::to_value(&saved).unwrap();
    assert_eq!((&json["cluster"], &json["keys"], &json["bytes"]), (&"demo".into(), &7.into(), &20.into()));
    let error = save(&world.context(), &file, false).await.unwrap_err();
    assert_eq!(error.code().name, "HOST_FILE_EXISTS");
    assert!(save(&world.context(), &file, true).await.is_ok());
    assert_eq!(std::fs::read_to_string(other).unwrap(), "the user's");
}

#[tokio::test]
async fn a_save_that_was_killed_is_done_by_the_same_command() {
    let directory = flotilla_testkit::directory();
    let file = directory.path().join("a.snap");
    let run = async |cx: &Context<'_>| save(cx, &file, true).await;
    killed_anywhere(async || World::running(&ROLES).await, run).await;
}

fn snapshot(directory: &Path, text: &str) -> PathBuf {
    let file = directory.join("a.snap");
    std::fs::write(&file, text).unwrap();
    file
}

async fn prepare(cx: &Context<'_>, file: &Path, force: bool) -> Result<restore::Prepared, OpError> {
    let request = restore::Request { cluster: demo(), file: file.to_owned(), force, busy: WhenBusy::Fail };
    restore::prepare(cx, request).await
}

async fn restore(cx: &Context<'_>, file: &Path) -> Result<restore::Restored, OpError> {
    let wait = Wait { conditions: [Condition::NodeReady].into(), limit: Duration::from_mins(1) };
    prepare(cx, file, false).await?.run(cx, &wait).await
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_is_restored_and_all_control_planes_are_members_again() {
    let directory = flotilla_testkit::directory();
    let file = snapshot(directory.path(), &fake::snapshot("ca", 4));
    let world = World::running(&ROLES).await;
    let before = world.found().await;
    let restored = restore(&world.context(), &file).await.unwrap();
    assert_eq!((restored.snapshot.revision, restored.copies.len()), (4, 3));
    let found = world.found().await;
    assert_eq!((found.members, found.joined), (before.members, before.joined));
    assert!(world.store.recovery(&demo()).unwrap().unwrap().finished);
}

#[tokio::test(start_paused = true)]
async fn a_restoration_that_was_killed_is_done_by_the_same_command() {
    let directory = flotilla_testkit::directory();
    let file = snapshot(directory.path(), &fake::snapshot("ca", 4));
    let run = async |cx: &Context<'_>| restore(cx, &file).await;
    killed_anywhere(async || World::running(&ROLES).await, run).await;
}

#[tokio::test]
async fn a_foreign_snapshot_is_refused_unless_forced() {
    let directory = flotilla_testkit::directory();
    let file = snapshot(directory.path(), &fake::snapshot("another", 4));
    let world = World::running(&ROLES).await;
    let error = prepare(&world.context(), &file, false).await.unwrap_err();
    assert_eq!(error.code().name, "GUEST_FOREIGN_SNAPSHOT");
    assert!(prepare(&world.context(), &file, true).await.unwrap().others_join_again());
    assert_eq!(world.host.take_events().len(), 1, "it is a warning then");
}

#[tokio::test]
async fn what_is_no_file_is_no_snapshot() {
    let directory = flotilla_testkit::directory();
    let world = World::running(&ROLES).await;
    let error = prepare(&world.context(), directory.path(), false).await.unwrap_err();
    assert_eq!(error.code().name, "HOST_BAD_SNAPSHOT");
}
