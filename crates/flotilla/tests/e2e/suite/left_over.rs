//! What a run that was killed has left: processes of its tests, clusters, and state directories. The next run removes it
//! before it begins, under a lock that says that no other run is using it.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use flotilla_files::{FileLock, Holder};
use rustix::process::{Pid, Signal, kill_process};

use super::times::say;
use crate::lab;

/// In the environment of a test's process and of all that it starts: the process that runs the tests.
pub(crate) const RUN: &str = "FLOTILLA_TEST_RUN";
/// Names in the state directory that do not end with their test's process.
const KEPT: &str = "test-run";

/// Held while tests run.
pub(super) fn lock() -> FileLock {
    let path = lab::real_home().join(KEPT).join("lock");
    let holder =
        Holder { pid: std::process::id(), what: "tests on real clusters".to_owned(), since: String::new() };
    let wait = |holder: Option<Holder>| {
        let pid = holder.map_or_else(|| "unknown".to_owned(), |holder| holder.pid.to_string());
        say(&format!("waiting for the tests of process {pid}"));
    };
    FileLock::acquire(&path, &holder, wait).unwrap()
}

/// Removes what others have left. Called by the one who holds the lock, so all of it is left over.
pub(super) fn remove() {
    end_processes();
    for cluster in lab::clusters() {
        say(&format!("deleting the cluster {}, which a killed run has left", cluster.name));
        if let Err(error) = cluster.delete() {
            say(&format!("cannot delete the cluster {}: {error}", cluster.name));
        }
    }
    let home = lab::real_home();
    let left = fs::read_dir(&home).into_iter().flatten().flatten().filter(|entry| {
        let name = entry.file_name();
        name.as_bytes().starts_with(b"test-") && name != KEPT
    });
    for entry in left {
        let path = entry.path();
        let removed = delete_all(&path).and_then(|()| fs::remove_dir_all(&path));
        if let Err(error) = removed {
            say(&format!("cannot remove {}: {error}", path.display()));
        }
    }
}

/// Deletes the clusters of a test's state directory.
fn delete_all(home: &Path) -> io::Result<()> {
    if !home.join("clusters").exists() {
        return Ok(());
    }
    let output =
        lab::flotilla(home, &["delete", "--all"]).env("KUBECONFIG", home.join("kubeconfig")).output()?;
    if output.status.success() {
        Ok(())
    } else {
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))
    }
}

fn end_processes() {
    for (process, runner) in processes() {
        if runner != std::process::id() && !Path::new("/proc").join(runner.to_string()).exists() {
            // It may have ended by itself meanwhile.
            let _ = kill_process(process, Signal::KILL);
        }
    }
}

/// Processes that tests have started, each with the runner of its test.
pub(crate) fn processes() -> Vec<(Pid, u32)> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let of_test = |entry: fs::DirEntry| {
        let process = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
        let environment = fs::read(entry.path().join("environ")).ok()?;
        let runner = environment.split(|byte| *byte == 0).find_map(|entry| {
            let (name, value) = OsStr::from_bytes(entry).to_str()?.split_once('=')?;
            if name == RUN { value.parse().ok() } else { None }
        })?;
        Some((process, runner))
    };
    all.filter_map(of_test).collect()
}
