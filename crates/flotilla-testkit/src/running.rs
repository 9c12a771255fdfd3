//! A program under way.

use std::fs::File;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::filter::Filter;
use crate::ran::Ran;

/// No program in a test takes as long, however busy the machine is.
const LIMIT: Duration = Duration::from_mins(5);

/// A program that runs while the test goes on.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: Collected,
    stderr: Collected,
    filter: Filter,
}

impl Running {
    /// Starts a program whose outputs are pipes, or are discarded.
    pub(crate) fn start(command: Command, filter: Filter) -> Self {
        let mut child = spawn(command);
        let stdout = Collected::from(child.stdout.take());
        let stderr = Collected::from(child.stderr.take());
        Self { child, stdout, stderr, filter }
    }

    /// Starts a program both of whose outputs come out of `output`, which counts as its standard output.
    pub(crate) fn start_with(command: Command, output: File, filter: Filter) -> Self {
        let child = spawn(command);
        Self { child, stdout: Collected::from(Some(output)), stderr: Collected::from(None::<File>), filter }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the program has written this to standard error.
    pub fn wait_for_stderr(&self, text: &str) {
        let seen = self.stderr.wait_until(|state| state.text().contains(text) || state.ended);
        assert!(seen.is_some_and(|state| state.text().contains(text)), "no {text:?} in:\n{}", self.so_far());
    }

    /// Sends SIGINT, as Ctrl-C does.
    pub fn interrupt(&self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("the program has not been waited for");
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Ran {
        for stream in [&self.stdout, &self.stderr] {
            assert!(stream.wait_until(|state| state.ended).is_some(), "it does not end:\n{}", self.so_far());
        }
        let status = self.child.wait().expect("the status of the program");
        self.so_far_with(status_of(status))
    }

    fn so_far(&self) -> Ran {
        self.so_far_with(-1)
    }

    fn so_far_with(&self, status: i32) -> Ran {
        let (stdout, stderr) = (self.stdout.lock().text(), self.stderr.lock().text());
        Ran { status, stdout, stderr, filter: self.filter.clone() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Neither does anything to a program that has been waited for.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Starts the program and closes our copies of what it writes to, so that they end with it.
fn spawn(mut command: Command) -> Child {
    command.spawn().expect("the program under test can be started")
}

/// As a shell has it in `$?`.
fn status_of(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().expect("without a code, a signal ended it"))
}

/// What came out of a stream so far.
#[derive(Debug, Default, Clone)]
struct Collected(Arc<(Mutex<State>, Condvar)>);

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    ended: bool,
}

impl State {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

impl Collected {
    /// Collects in a thread until the stream ends; one that goes elsewhere has ended.
    fn from(stream: Option<impl Read + Send + 'static>) -> Self {
        let collected = Self::default();
        let Some(mut stream) = stream else {
            collected.lock().ended = true;
            return collected;
        };
        let into = collected.clone();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            loop {
                // Reading a terminal that no program has open fails (EIO) instead of ending.
                let read = stream.read(&mut buffer).unwrap_or(0);
                let mut state = into.lock();
                state.bytes.extend_from_slice(&buffer[..read]);
                state.ended = read == 0;
                let ended = state.ended;
                drop(state);
                into.0.1.notify_all();
                if ended {
                    return;
                }
            }
        });
        collected
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().expect("a reader does not panic")
    }

    /// The state once it is so; nothing if that takes too long.
    fn wait_until(&self, so: impl Fn(&State) -> bool) -> Option<MutexGuard<'_, State>> {
        let (state, waited) = self
            .0
            .1
            .wait_timeout_while(self.lock(), LIMIT, |state| !so(state))
            .expect("a reader does not panic");
        (!waited.timed_out()).then_some(state)
    }
}
