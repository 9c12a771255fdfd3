//! A run of these tests that is killed in the middle.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::host_state;
use crate::lab::{self, PATIENCE, wait_until};
use crate::suite;

/// One that makes a cluster, and one that is quick and makes none.
const WITH_CLUSTER: &str = "faults::deletion::delete_needs_no_more_than_the_name";
const QUICK: &str = "contents::the_manifest_names_every_source_and_its_checksum";

pub(crate) fn the_next_run_removes_what_a_killed_one_has_left() {
    let home = lab::home_with_bundle();
    let before = host_state::groups();
    let machines =
        || host_state::groups().into_iter().filter(|group| !before.contains(group)).collect::<Vec<_>>();
    let mut killed = runner(home.path(), WITH_CLUSTER);
    wait_until("a machine of the inner run", PATIENCE, || {
        if machines().is_empty() { Err("there is none") } else { Ok(()) }.map_err(str::to_owned)
    });
    killed.kill().unwrap();
    killed.wait().unwrap();
    wait_until("the end of its processes", Duration::from_secs(20), || {
        let left = suite::processes().into_iter().filter(|(_, run)| *run == killed.id()).count();
        if left == 0 { Ok(()) } else { Err(format!("{left} are left")) }
    });
    assert!(!machines().is_empty(), "it was killed too late to leave anything");

    let next = runner(home.path(), QUICK).wait().unwrap();
    assert!(next.success());
    assert_eq!(machines(), Vec::<std::path::PathBuf>::new());
    assert!(!home.path().join("clusters").exists());
    assert_eq!(home.path().join("test-run/clusters").read_dir().unwrap().count(), 0);
}

/// Runs one of these tests by a runner of its own, which has a state directory of its own.
#[expect(clippy::disallowed_methods, reason = "it is killed, and must not die with us in another way")]
fn runner(home: &Path, test: &str) -> Child {
    let mut runner = Command::new(std::env::current_exe().unwrap());
    runner.args(["--ignored", "--exact", test]).env("FLOTILLA_HOME", home).env_remove(suite::RUN);
    runner.stdin(Stdio::null()).spawn().unwrap()
}
