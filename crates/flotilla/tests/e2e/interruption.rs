//! Killed at any moment, a build leaves nothing that looks like a bundle, and the next one goes on.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::lab;

/// Takes parts away, so that there is something to build.
fn forget(home: &Path, names: &[&str]) {
    for item in fs::read_dir(home.join("cache/parts")).unwrap().flatten() {
        if names.iter().any(|name| item.file_name().to_string_lossy().starts_with(name)) {
            fs::remove_dir_all(item.path()).unwrap();
        }
    }
}

pub(crate) fn killed_at_any_step_the_next_run_finishes_with_the_same_digest() {
    let home = lab::home_with_parts();
    forget(home.path(), &["cni-plugins-", "runc-", "pause-"]);
    let traces = lab::traces(home.path());
    for step in ["userland", "pause", "cni-plugins", "runc", "rootfs", "images", "manifest"] {
        let mut building = lab::build(home.path());
        assert!(building.wait_for_step(step), "the build ended before {step}");
        building.kill();
        assert_eq!(lab::succeed(home.path(), &["bundle", "list", "-o", "json"]).trim(), "[]", "after {step}");
    }
    kill_in_the_image_store(home.path());
    assert_resumed(home.path(), &traces);
}

pub(crate) fn an_interrupted_and_a_killed_build_are_resumed() {
    let home = lab::home_with_parts();
    forget(home.path(), &["runc-"]);
    let traces = lab::traces(home.path());
    let mut building = lab::build(home.path());
    assert!(building.wait_for_step("runc"));
    building.signal(rustix::process::Signal::INT);
    let (status, last) = building.finish();
    assert_eq!(status, 130, "{last}");
    assert!(last["data"]["advice"].as_str().unwrap().contains("again"), "{last}");
    assert!(lab::bundle_store(home.path()).is_empty());

    kill_in_the_image_store(home.path());
    assert_resumed(home.path(), &traces);
}

/// In the middle of the image store, containerd at work.
fn kill_in_the_image_store(home: &Path) {
    let mut building = lab::build(home);
    let is_image =
        |event: &Value| event["data"]["message"].as_str().is_some_and(|text| text.contains("kube-"));
    assert!(building.wait_for(is_image));
    building.kill();
}

/// The next build has the same result, and nothing unfinished is left.
#[track_caller]
fn assert_resumed(home: &Path, before: &[String]) {
    let (status, last) = lab::build(home).finish();
    assert_eq!(status, 0, "{last}");
    assert_eq!(last["data"]["digest"], lab::digest());
    assert_eq!(lab::bundle_store(home), [lab::digest()], "nothing unfinished is left");
    let parts = fs::read_dir(home.join("cache/parts")).unwrap().flatten();
    let unfinished = parts.filter(|item| item.file_name().to_string_lossy().starts_with('.')).count();
    assert_eq!(unfinished, 0, "nothing unfinished is left in the cache");
    let left: Vec<String> = lab::traces(home).into_iter().filter(|trace| !before.contains(trace)).collect();
    assert!(left.is_empty(), "mounts or temporary directories are left: {left:?}");
}

pub(crate) fn the_second_of_two_waits_and_says_for_whom() {
    let home = lab::home_with_parts();
    let mut first = lab::build(home.path());
    assert!(first.wait_for_step("rootfs"));
    let second = lab::flotilla(home.path(), &["bundle", "build"])
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = first.pid();
    assert_eq!(first.finish().0, 0);
    let second = second.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(second.status.success(), "{said}");
    assert!(said.contains(&format!("waiting for process {pid}")), "{said}");
    assert!(String::from_utf8_lossy(&second.stdout).contains("already"));
}
