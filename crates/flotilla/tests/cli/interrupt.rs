use std::path::Path;

use flotilla_files::{FileLock, Holder};
use flotilla_testkit::bundles::TINY_VERSION;
use insta::assert_snapshot;

use super::home_with_bundle;

/// Holds the lock as another flotilla does.
fn hold(state: &Path) -> FileLock {
    let holder =
        Holder { pid: 4711, what: "build the bundle for v1.37.1".into(), since: "10:00:00 UTC".into() };
    FileLock::acquire(&state.join("bundles.lock"), &holder, |_| panic!("no other process holds it"))
        .expect("the lock is free")
}

#[test]
fn waiting_tells_for_whom_and_ends_with_the_lock() {
    let (home, _) = home_with_bundle();
    let lock = hold(&home.state());
    let removing = home.start(["bundle", "remove", TINY_VERSION]);
    removing.wait_for_stderr("waiting for process");
    drop(lock);
    assert_snapshot!(removing.wait(), @"
    status: 0
    ----- stdout -----
    removed bundle [DIGEST]
    ----- stderr -----
    waiting for process [PID] to build the bundle for v1.37.1 (since [TIME])
    ");
}

#[test]
fn waiting_can_be_interrupted() {
    let (home, _) = home_with_bundle();
    let _lock = hold(&home.state());
    let removing = home.start(["bundle", "remove", TINY_VERSION]);
    removing.wait_for_stderr("waiting for process 4711 to build the bundle for v1.37.1");
    removing.interrupt();
    assert_snapshot!(removing.wait(), @"
    status: 130
    ----- stdout -----
    ----- stderr -----
    waiting for process [PID] to build the bundle for v1.37.1 (since [TIME])
    error[INTERRUPTED]: cancelled while waiting for [HOME]/flotilla/bundles.lock
    hint: run the command again to resume
    ");
    drop(home.run(["bundle", "verify", TINY_VERSION]).success());
}

#[test]
fn reading_does_not_wait() {
    let (home, _) = home_with_bundle();
    let _lock = hold(&home.state());
    for command in ["show", "verify"] {
        drop(home.run(["bundle", command, TINY_VERSION]).success());
    }
    drop(home.run(["bundle", "list"]).success());
    drop(home.run(["bundle", "export", TINY_VERSION, "bundle.tar.zst"]).success());
}
