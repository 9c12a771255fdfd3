//! The loop that PID 1 spends its life in.

use std::os::fd::AsFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, getpid, wait};

use crate::boot;
use crate::config::Config;
use crate::control::Control;
use crate::error::NodeError;
use crate::journal::Journal;
use crate::root::Root;
use crate::services::{self, Services};
use crate::shutdown::{self, Shutdown};
use crate::signals::Signals;
use crate::watch::Watch;

/// Runs the node. From here on the caller is its PID 1.
///
/// Calls `ready` at once, when programs can run in the node: what they prepare need not wait for containerd. The kubelet
/// does. Returns after SIGTERM, SIGINT or SIGPWR, when everybody
/// else has ended or been killed; the kernel ends the namespace when the caller then ends. The process must have one
/// thread only.
pub fn supervise(config: &Config, ready: impl FnOnce()) -> Result<(), NodeError> {
    // Anywhere else the last step, a SIGKILL to everybody, would end the host.
    if getpid() != Pid::INIT {
        return Err(NodeError::NotInit);
    }
    let root = Root::new(&config.root);
    let signals = Signals::watch().map_err(|source| NodeError::Signals { source })?;
    boot::prepare_process();
    boot::make_folders(&root)?;
    let path = root.logs().join("init.log");
    let mut journal =
        Journal::open(&path, config.log_bytes).map_err(|source| NodeError::Log { path, source })?;
    journal.say("the node starts");
    let supervisor = Supervisor::new(config, root, signals);
    supervisor.and_then(|mut supervisor| supervisor.run(ready, &mut journal)).inspect_err(|error| {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
        journal.say(format_args!("the node cannot go on: {error}{cause}"));
    })
}

/// Everything that the loop turns around.
#[derive(Debug)]
struct Supervisor<'node> {
    config: &'node Config,
    root: Root,
    signals: Signals,
    control: Control,
    /// The directories that the services' files come into.
    watch: Watch,
    services: Services<'node>,
    shutdown: Option<Shutdown>,
}

impl<'node> Supervisor<'node> {
    fn new(config: &'node Config, root: Root, signals: Signals) -> Result<Self, NodeError> {
        boot::load_packet_filter(&root, config)?;
        let path = root.control_socket();
        let control = Control::listen(&path).map_err(|source| NodeError::Listen { path, source })?;
        // Before the first look at the files, or one could come in between unseen.
        let watch = Watch::new(services::folders(&config.services(), &root))?;
        let services = Services::new(config, root.clone())?;
        Ok(Self { config, root, signals, control, watch, services, shutdown: None })
    }

    fn run(&mut self, ready: impl FnOnce(), journal: &mut Journal) -> Result<(), NodeError> {
        ready();
        loop {
            let now = Instant::now();
            // Whoever woke us, everybody is asked: a read that finds nothing costs next to nothing.
            self.services.drain();
            self.handle_signals(now, journal);
            self.reap(now, journal);
            self.look_for_files(journal);
            self.control.receive(now, |request| self.services.act(request, now, journal));
            self.services.tick(now, journal);
            self.control.answer(now, |unit| self.services.settled(unit, now));
            let cgroups = self.root.cgroups();
            if let Some(shutdown) = &mut self.shutdown
                && shutdown.advance(&mut self.services, &cgroups, now, journal)
            {
                shutdown::kill_everybody(&cgroups, journal);
                self.services.drain();
                journal.say("the node is down");
                return Ok(());
            }
            self.sleep().map_err(|errno| NodeError::Wait { source: errno.into() })?;
        }
    }

    fn handle_signals(&mut self, now: Instant, journal: &mut Journal) {
        self.signals.drain();
        if self.signals.take_tell() {
            journal.say(self.services.describe(now));
        }
        if self.signals.going_down() && self.shutdown.is_none() {
            journal.say("the node goes down");
            self.shutdown = Some(Shutdown::begin(&mut self.services, &self.config.graces, now, journal));
        }
    }

    /// Reaps all exited children.
    fn reap(&mut self, now: Instant, journal: &mut Journal) {
        // Ends with none that has ended, or with none that is left.
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            self.services.ended(pid, status, now, journal);
        }
    }

    fn look_for_files(&mut self, journal: &mut Journal) {
        match self.watch.changed() {
            Ok(false) => {}
            Ok(true) => self.services.look_for_files(),
            // Who waits for a file can still be started by `systemctl start`.
            Err(error) => journal.say(error),
        }
    }

    /// Waits until something happens or is due.
    fn sleep(&self) -> Result<(), Errno> {
        let now = Instant::now();
        let due = [
            self.services.next_look(now),
            self.control.next_look(),
            self.shutdown.as_ref().map(|shutdown| shutdown.next_look(now)),
        ];
        let limit = due.into_iter().flatten().min().map(|due| due.saturating_duration_since(now));
        let limit =
            limit.map(|limit| Timespec::try_from(limit).expect("no wait here is longer than a minute"));
        let own = [self.signals.as_fd(), self.watch.as_fd()];
        let fds = own.into_iter().chain(self.services.fds()).chain(self.control.fds());
        let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        match poll(&mut fds, limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}
