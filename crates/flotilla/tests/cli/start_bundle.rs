//! What `start` says of the bundle that nodes are made from.

use std::fs;

use flotilla_core::Cancel;
use flotilla_engine::store::{ClusterStore, WhenBusy};
use flotilla_testkit::bundles::TINY_VERSION;

use super::{home, home_with_bundle, may_be_root};

const TOLD: &str = "no bundle for v1.37.1: building Kubernetes from source once, about 14 min, 11 GB";

#[test]
fn a_person_is_asked_before_kubernetes_is_built() {
    if !may_be_root() {
        return;
    }
    let home = home();
    let seen = home.answer_on_terminal("n\n", ["start", "--force"]);
    let text = seen.screen.join("\n");
    assert!(text.contains(TOLD) && text.contains("Build it now? [y/N]"), "{seen}");
    assert!(text.contains("nothing was changed"), "{seen}");
    assert_eq!(seen.status(), 0, "{seen}");
    assert!(home.files().is_empty(), "{:?}", home.files());
}

#[test]
fn who_agrees_or_cannot_be_asked_is_told_and_not_asked_again() {
    if !may_be_root() {
        return;
    }
    // Without compilers it ends before anything is built.
    let home = home().with_env("PATH", "/nowhere");
    let agreed = home.answer_on_terminal("y\n", ["start", "--force"]);
    assert_eq!(agreed.status(), 39, "{agreed}");
    let beforehand = home.answer_on_terminal("", ["start", "--force", "--yes"]);
    assert_eq!(beforehand.status(), 39, "{beforehand}");
    assert!(!beforehand.screen.join("\n").contains("[y/N]"), "{beforehand}");
    let script = home.run(["start", "--force"]);
    assert_eq!(script.status, 39, "{script}");
    assert!(script.stdout.contains(TOLD), "{script}");
}

/// What `start` says of the tiny bundle, until it finds that somebody else is at the cluster.
fn said_at_start(home: &flotilla_testkit::Home) -> String {
    let store = ClusterStore::new(&home.state());
    let name = "flotilla".parse().expect("a good name");
    let _lock =
        store.lock(&name, "test", WhenBusy::Fail, &Cancel::new(), |_| ()).expect("no other process has it");
    let start = ["start", "--force", "--no-wait-lock", "--kubernetes-version", TINY_VERSION];
    let ran = home.run(start);
    assert_ne!(ran.status, 0, "{ran}");
    ran.stdout
}

#[test]
fn start_says_that_a_bundle_was_imported_or_built_by_another_flotilla() {
    if !may_be_root() {
        return;
    }
    let (first, digest) = home_with_bundle();
    let said = said_at_start(&first);
    assert!(said.contains("was built by another version of flotilla"), "{said}");
    drop(first.run(["bundle", "export", TINY_VERSION, "bundle.tar.zst"]).success());
    let second = home();
    fs::rename(first.path().join("bundle.tar.zst"), second.path().join("bundle.tar.zst")).unwrap();
    drop(second.run(["bundle", "import", "bundle.tar.zst"]).success());
    let said = said_at_start(&second);
    let expected = "for v1.30.0 was imported: its sources are not verified";
    assert!(said.contains(expected), "{said}");
    let list = second.run(["bundle", "list"]).success();
    assert!(list.stdout.contains("imported"), "{list}");
    assert!(second.run(["bundle", "show", &digest]).stdout.contains("Imported:"), "{list}");
}
