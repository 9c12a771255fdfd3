//! A test in a process of its own.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getppid, kill_process_group, set_parent_process_death_signal};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::Test;
use super::left_over::RUN;
use crate::lab;

/// Whether somebody wants the tests to end, by Ctrl-C or SIGTERM.
#[derive(Debug, Clone, Default)]
pub(super) struct Interruption(Arc<AtomicBool>);

impl Interruption {
    pub(super) fn watch() -> Self {
        let seen = Self::default();
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&seen.0)).unwrap();
        }
        seen
    }

    fn came(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Ends this process with the suite that started it, if one did: a test that goes on alone would meet those of the next run.
#[expect(clippy::disallowed_methods, reason = "tests read their own switches")]
pub(super) fn end_with_suite() {
    let Some(suite) = std::env::var(RUN).ok().filter(|suite| !suite.is_empty()) else { return };
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    // It may have ended before we asked.
    let parent = getppid().map(|parent| parent.to_string());
    assert_eq!(parent, Some(suite), "the suite of this test has ended");
}

/// Runs a test to its end, or to its limit. Gives what it printed, too.
#[expect(clippy::disallowed_methods, reason = "the process of a test is watched and killed")]
pub(super) fn run(test: &Test, interruption: &Interruption) -> (Result<(), String>, String) {
    let mut output = tempfile::tempfile().unwrap();
    let end = || Stdio::from(output.try_clone().unwrap());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--nocapture", "--exact", test.name])
        .env(RUN, std::process::id().to_string())
        .stdin(Stdio::null())
        .stdout(end())
        .stderr(end())
        // So that what it has started can be ended with it.
        .process_group(0)
        .spawn()
        .unwrap();
    let ended = wait(&mut child, test.tier.limit(), interruption);
    let printed = read(&mut output);
    let done = match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{status}; what it printed is above")),
        Err(why) => {
            delete_clusters(child.id());
            Err(why)
        }
    };
    (done, printed)
}

/// Waits for its end. One that is killed is an error that says why.
fn wait(child: &mut Child, limit: Duration, interruption: &Interruption) -> Result<ExitStatus, String> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Ok(status);
        }
        let why = if interruption.came() {
            "interrupted".to_owned()
        } else if begun.elapsed() > limit {
            format!("killed: it did not end within {} minutes", limit.as_secs() / 60)
        } else {
            pause();
            continue;
        };
        // It may have ended by itself meanwhile.
        let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
        child.wait().unwrap();
        return Err(why);
    }
}

#[expect(clippy::disallowed_methods, reason = "a process and a flag cannot be waited for together")]
fn pause() {
    std::thread::sleep(Duration::from_millis(100));
}

fn read(output: &mut File) -> String {
    let mut bytes = Vec::new();
    output.rewind().unwrap();
    output.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Deletes what a killed test could not. What cannot be deleted now is tried again by the next run.
fn delete_clusters(process: u32) {
    for cluster in lab::clusters().into_iter().filter(|cluster| cluster.process == process) {
        drop(cluster.delete());
    }
}
