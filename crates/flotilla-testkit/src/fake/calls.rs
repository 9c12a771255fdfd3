//! The log that fakes share, and what is to go wrong in it.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use flotilla_core::{BootstrapError, Code, DriverError, GuestError, KubeconfigError};
use futures::FutureExt;
use tokio::sync::watch;

/// Every call, in order, and which of them fail or take long. Clones are handles on the same log.
#[derive(Debug, Clone, Default)]
pub struct Calls {
    state: Arc<watch::Sender<State>>,
}

#[derive(Debug, Default)]
struct State {
    log: Vec<String>,
    questions: Vec<String>,
    faults: Vec<(Which, When)>,
    /// The call, counted from 1, in which the program is killed.
    kill: Option<(usize, When)>,
    /// A call, and the one that it waits for.
    holds: Vec<(String, String)>,
    /// What calls begin with, and how long they take.
    durations: Vec<(String, Duration)>,
    under_way: Vec<String>,
    /// The calls that were under way each time a call began, including the new one.
    crowds: Vec<Vec<String>>,
}

#[derive(Debug)]
enum Which {
    /// Counted from 1, since the log was last taken.
    Nth(usize),
    Line(String),
}

/// When a call fails: before it did anything, or after all of it, like one whose answer was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    Before,
    After,
}

/// A call failed because a test asked for it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("`{0}` failed on purpose")]
pub struct Fault(String);

/// What unwinds the stack where the program is killed. Nothing catches it, so no code runs after it that a real kill would
/// not run either, but for the ends of what the kernel ends as well: locks, open files.
struct Killed;

/// Runs something to its end, or until [`Calls::kill_nth`] kills it: then there is no result.
pub fn until_killed<T>(run: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => Some(result),
        Err(cause) if cause.is::<Killed>() => None,
        Err(cause) => resume_unwind(cause),
    }
}

/// The same for a future.
pub async fn until_killed_async<T>(run: impl Future<Output = T>) -> Option<T> {
    match AssertUnwindSafe(run).catch_unwind().await {
        Ok(result) => Some(result),
        Err(cause) if cause.is::<Killed>() => None,
        Err(cause) => resume_unwind(cause),
    }
}

impl Calls {
    pub fn log(&self) -> Vec<String> {
        self.state.borrow().log.clone()
    }

    /// The log until now; a new one begins.
    pub fn take(&self) -> Vec<String> {
        let mut log = Vec::new();
        self.state.send_modify(|state| log = std::mem::take(&mut state.log));
        log
    }

    /// What nodes were asked about themselves until now; a new list begins. Questions are in no log: they change nothing, and
    /// none of them is made to fail.
    pub fn take_questions(&self) -> Vec<String> {
        let mut questions = Vec::new();
        self.state.send_modify(|state| questions = std::mem::take(&mut state.questions));
        questions
    }

    /// Makes the nth call from the last [`Calls::take`] fail, whatever it is; counted from 1.
    pub fn fail_nth(&self, nth: usize, when: When) {
        self.state.send_modify(|state| state.faults.push((Which::Nth(nth), when)));
    }

    /// Makes the next call that is logged by this line fail.
    pub fn fail(&self, line: &str, when: When) {
        self.state.send_modify(|state| state.faults.push((Which::Line(line.to_owned()), when)));
    }

    /// Kills the program in the nth call from the last [`Calls::take`], counted from 1: see [`until_killed`].
    pub fn kill_nth(&self, nth: usize, when: When) {
        self.state.send_modify(|state| state.kill = Some((nth, when)));
    }

    /// Lets the call that is logged by this line take until another one has begun.
    pub fn hold(&self, line: &str, until: &str) {
        self.state.send_modify(|state| state.holds.push((line.to_owned(), until.to_owned())));
    }

    /// Lets calls that begin like this take some time.
    pub fn take_time(&self, beginning: &str, time: Duration) {
        self.state.send_modify(|state| state.durations.push((beginning.to_owned(), time)));
    }

    /// How many calls that begin like this were under way at once, at most.
    pub fn most_at_once(&self, beginning: &str) -> usize {
        let state = self.state.borrow();
        let crowds = state.crowds.iter();
        crowds.map(|crowd| crowd.iter().filter(|call| call.starts_with(beginning)).count()).max().unwrap_or(0)
    }

    /// Notes a question, which may take time like a call.
    pub(super) async fn ask(&self, line: String) {
        let time = self.time_of(&line);
        self.state.send_modify(|state| state.questions.push(line));
        if !time.is_zero() {
            tokio::time::sleep(time).await;
        }
    }

    fn time_of(&self, line: &str) -> Duration {
        let state = self.state.borrow();
        let time = state.durations.iter().find(|(beginning, _)| line.starts_with(beginning));
        time.map_or(Duration::ZERO, |(_, time)| *time)
    }

    pub(super) async fn begin(&self, line: String) -> Result<Call, Fault> {
        let hold = self.state.borrow().holds.iter().find(|(held, _)| *held == line).cloned();
        let time = self.time_of(&line);
        let call = self.begin_now(line);
        if !time.is_zero() {
            tokio::time::sleep(time).await;
        }
        if let Some((_, until)) = hold {
            let mut log = self.state.subscribe();
            // The sender is ours: it cannot be gone.
            let _ = log.wait_for(|state| state.log.contains(&until)).await;
        }
        call
    }

    /// Notes a call that does nothing else.
    pub fn note(&self, line: impl Into<String>) -> Result<(), Fault> {
        self.begin_now(line.into())?.end()
    }

    /// Like `begin`, for calls that cannot wait.
    pub(super) fn begin_now(&self, line: String) -> Result<Call, Fault> {
        let (mut when, mut killed) = (None, None);
        self.state.send_modify(|state| {
            state.log.push(line.clone());
            killed = state.kill.take_if(|(nth, _)| *nth == state.log.len()).map(|(_, when)| when);
            state.under_way.push(line.clone());
            state.crowds.push(state.under_way.clone());
            let nth = state.log.len();
            let is_it = |which: &Which| match which {
                Which::Nth(wanted) => *wanted == nth,
                Which::Line(wanted) => *wanted == line,
            };
            let at = state.faults.iter().position(|(which, _)| is_it(which));
            when = at.map(|at| state.faults.remove(at).1);
        });
        if killed == Some(When::Before) {
            resume_unwind(Box::new(Killed));
        }
        let is_killed = killed.is_some();
        let call =
            Call { calls: self.clone(), line: line.clone(), fails: when == Some(When::After), is_killed };
        if when == Some(When::Before) { Err(Fault(line)) } else { Ok(call) }
    }
}

/// A call under way, until it ends or is dropped.
#[must_use]
pub(super) struct Call {
    calls: Calls,
    line: String,
    fails: bool,
    is_killed: bool,
}

impl Call {
    pub(super) fn end(self) -> Result<(), Fault> {
        if self.is_killed {
            resume_unwind(Box::new(Killed));
        }
        if self.fails { Err(Fault(self.line.clone())) } else { Ok(()) }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.calls.state.send_modify(|state| {
            if let Some(at) = state.under_way.iter().position(|line| *line == self.line) {
                state.under_way.remove(at);
            }
        });
    }
}

impl From<Fault> for DriverError {
    fn from(fault: Fault) -> Self {
        let code = Code { name: "DRV_FAKE", exit_status: 50 };
        Self::Failed { what: fault.to_string(), code, hints: Vec::new(), source: None }
    }
}

impl From<Fault> for BootstrapError {
    fn from(fault: Fault) -> Self {
        Self::Api { action: "do as the test wants".to_owned(), source: Box::new(fault) }
    }
}

impl From<Fault> for KubeconfigError {
    fn from(fault: Fault) -> Self {
        Self::Personal { source: Box::new(fault) }
    }
}

impl From<Fault> for GuestError {
    fn from(fault: Fault) -> Self {
        let source = std::io::Error::other(fault.clone());
        Self::Start { node: "demo".to_owned(), argv: fault.0, source }
    }
}
