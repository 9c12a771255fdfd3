//! A test in a process of its own.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::Test;
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

/// Runs a test to its end, or to its limit. Gives what it printed, too.
#[expect(clippy::disallowed_methods, reason = "the process of a test is watched and killed")]
pub(super) fn run(test: &Test, interruption: &Interruption) -> (Result<(), String>, String) {
    let mut output = tempfile::tempfile().unwrap();
    let end = || Stdio::from(output.try_clone().unwrap());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--nocapture", "--exact", test.name])
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
            delete_clusters(&printed);
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

/// Deletes what a killed test could not.
fn delete_clusters(output: &str) {
    for (name, home, kubeconfig) in output.lines().filter_map(lab::announced_cluster) {
        let mut delete = lab::flotilla(Path::new(home), &["-p", name, "delete"]);
        drop(delete.env("KUBECONFIG", kubeconfig).output());
        drop(Path::new(kubeconfig).parent().map(std::fs::remove_dir_all));
    }
}
