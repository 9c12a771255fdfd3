//! One service: started, watched, ended, started again.
//!
//! ```text
//!            files there            exits
//! blocked ───────────────▶ running ───────▶ resting ──▶ running …
//!    ▲  start                │ stop, restart
//!    └────────── stopped ◀── ending ──▶ running (restart)
//! ```
//!
//! A service that is started on demand begins as stopped.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::time::{Duration, Instant};

use flotilla_node_api::{ServiceSpec, State, Status, UnitStatus};
use rustix::process::{Pid, Signal, WaitStatus, kill_process};

use crate::backoff::Backoff;
use crate::boot;
use crate::journal::Journal;
use crate::launch::Launch;
use crate::output::Output;
use crate::root::Root;

/// How long after a SIGKILL the next one follows, should the first not have been enough.
const KILL_AGAIN: Duration = Duration::from_secs(1);

/// A service and how it stands.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) spec: ServiceSpec,
    /// Whether it should run.
    wanted: bool,
    /// Whether files that it needs are missing.
    pub(crate) blocked: bool,
    /// Whether others could rely on it, some time since the node was booted.
    pub(crate) was_ready: bool,
    process: Option<Process>,
    /// When it may be restarted after a crash.
    rest_until: Option<Instant>,
    backoff: Backoff,
    starts: u32,
    deaths: u32,
    last_exit: Option<String>,
    output: Output,
}

#[derive(Debug)]
struct Process {
    pid: Pid,
    since: Instant,
    /// Set when it was signalled to stop.
    kill_at: Option<Instant>,
}

impl Service {
    pub(crate) fn new(spec: ServiceSpec, output: Output) -> Self {
        Self {
            wanted: !spec.on_demand,
            spec,
            blocked: false,
            was_ready: false,
            process: None,
            rest_until: None,
            backoff: Backoff::default(),
            starts: 0,
            deaths: 0,
            last_exit: None,
            output,
        }
    }

    pub(crate) fn pid(&self) -> Option<Pid> {
        self.process.as_ref().map(|process| process.pid)
    }

    /// Whether it is time to start it.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let rested = self.rest_until.is_none_or(|until| until <= now);
        self.wanted && !self.blocked && self.process.is_none() && rested
    }

    /// Whether no request is still in progress.
    pub(crate) fn is_settled(&self) -> bool {
        match &self.process {
            Some(process) => process.kill_at.is_none(),
            None => !self.wanted || self.blocked || self.rest_until.is_some(),
        }
    }

    /// The next timeout.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        match &self.process {
            Some(process) => process.kill_at,
            None => self.rest_until.filter(|_| self.wanted && !self.blocked),
        }
    }

    /// Starts it. A failed start counts as an immediate crash.
    pub(crate) fn start(
        &mut self,
        launch: io::Result<Launch>,
        env: &BTreeMap<String, String>,
        now: Instant,
        journal: &mut Journal,
    ) {
        match launch.and_then(|launch| self.spawn(&launch, env)) {
            Ok(pid) => {
                self.starts += 1;
                self.rest_until = None;
                self.was_ready |= self.spec.socket.is_none();
                self.process = Some(Process { pid, since: now, kill_at: None });
                journal.say(format_args!("{}: started as {pid}", self.spec.name));
            }
            Err(error) => {
                let rest = self.rest(Duration::ZERO, now);
                journal.say(format_args!("{}: cannot start: {error}; again in {rest:?}", self.spec.name));
            }
        }
    }

    fn spawn(&self, launch: &Launch, env: &BTreeMap<String, String>) -> io::Result<Pid> {
        let mut command = boot::command(Path::new(&launch.program), env);
        command.args(&launch.args).envs(launch.env.iter().map(|(name, value)| (name, value)));
        // A group of its own: what is sent to ours is not meant for it. Sessions need no parting, ours has no terminal.
        command.process_group(0).stdout(self.output.end()?).stderr(self.output.end()?);
        command.spawn().map(|child| Pid::from_child(&child))
    }

    /// Asks for it to run, at once even if it is resting.
    pub(crate) fn want(&mut self) {
        self.wanted = true;
        self.rest_until = None;
    }

    /// Asks for it to stay down from its next end on, without ending it.
    pub(crate) fn unwant(&mut self) {
        self.wanted = false;
        self.rest_until = None;
    }

    /// Whether its socket is tried from time to time.
    pub(crate) fn is_knocked(&self) -> bool {
        !self.was_ready && self.process.is_some() && self.spec.socket.is_some()
    }

    /// Tries its socket, until it answers for the first time.
    pub(crate) fn knock(&mut self, root: &Root, journal: &mut Journal) {
        let Some(socket) = self.spec.socket.as_ref().filter(|_| self.is_knocked()) else { return };
        if UnixStream::connect(root.at(socket.as_ref())).is_ok() {
            journal.say(format_args!("{} answers", self.spec.name));
            self.was_ready = true;
        }
    }

    /// Tells its process to end, and kills it if it does not within its own grace, or else within so many milliseconds. Gives
    /// the grace.
    pub(crate) fn end(&mut self, grace: u64, now: Instant, journal: &mut Journal) -> u64 {
        let grace = self.spec.grace.unwrap_or(grace);
        if let Some(process) = self.process.as_mut().filter(|process| process.kill_at.is_none()) {
            process.kill_at = Some(now + Duration::from_millis(grace));
            journal.say(format_args!("{}: ending {}", self.spec.name, process.pid));
            // It cannot be gone: we would have reaped it.
            let _ = kill_process(process.pid, Signal::TERM);
        }
        grace
    }

    /// Kills it if it was told to end and has had its time.
    pub(crate) fn kill_if_overdue(&mut self, now: Instant, journal: &mut Journal) {
        let Some(process) = &mut self.process else { return };
        if process.kill_at.is_some_and(|at| at <= now) {
            journal.say(format_args!("{}: does not end, killing {}", self.spec.name, process.pid));
            let _ = kill_process(process.pid, Signal::KILL);
            process.kill_at = Some(now + KILL_AGAIN);
        }
    }

    /// Takes note that its process has ended.
    pub(crate) fn ended(&mut self, status: WaitStatus, now: Instant, journal: &mut Journal) {
        let Some(process) = self.process.take() else { return };
        let lived = now.saturating_duration_since(process.since);
        let how = describe(status);
        if process.kill_at.is_some() || !self.wanted {
            self.backoff = Backoff::default();
            journal.say(format_args!("{}: ended ({how})", self.spec.name));
        } else {
            self.deaths += 1;
            let rest = self.rest(lived, now);
            journal
                .say(format_args!("{}: died after {lived:.1?} ({how}); again in {rest:?}", self.spec.name));
        }
        self.last_exit = Some(how);
    }

    fn rest(&mut self, lived: Duration, now: Instant) -> Duration {
        let rest = self.backoff.after(lived);
        self.rest_until = Some(now + rest);
        rest
    }

    /// Moves what it has printed into its log.
    pub(crate) fn drain(&mut self) {
        self.output.drain();
    }

    pub(crate) fn status(&self, now: Instant) -> Status {
        let (state, detail) = match &self.process {
            Some(Process { pid, since, kill_at: None }) => {
                let seconds = now.saturating_duration_since(*since).as_secs();
                (State::Active, format!("pid {pid} for {seconds} s, started {} times", self.starts))
            }
            Some(Process { pid, .. }) => (State::Deactivating, format!("pid {pid} was signalled to exit")),
            None if !self.wanted => (State::Inactive, "stopped".to_owned()),
            None if self.blocked => (State::Activating, "waits for its files".to_owned()),
            None if self.rest_until.is_none() => (State::Activating, "waits for other services".to_owned()),
            None => (State::Activating, format!("died, will start again; started {} times", self.starts)),
        };
        Status { unit: self.spec.name.clone(), state, detail }
    }

    /// The same for programs.
    pub(crate) fn unit_status(&self, now: Instant) -> UnitStatus {
        UnitStatus {
            unit: self.spec.name.clone(),
            state: self.status(now).state,
            starts: self.starts,
            deaths: self.deaths,
            last_exit: self.last_exit.clone(),
        }
    }
}

impl AsFd for Service {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }
}

fn describe(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => format!("wait status {:#x}", status.as_raw()),
    }
}
