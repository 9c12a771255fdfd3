//! The supervisor of a sandbox, on the host's side.
//!
//! It stays in the host's namespaces, apart from the pid namespace of its children, so that the host's control
//! groups stay in its sight: `pivot_root` moves the root of *every* process of the mount namespace.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, getppid, set_parent_process_death_signal};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

use super::{STAGE_INIT, SandboxError, Spec};
use crate::cgroup::{Group, Layout};
use crate::process;

/// How long a program may take to end after SIGTERM before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// Runs the sandbox and gives the exit status of its program.
pub(super) fn run(spec: &Spec) -> Result<i32, SandboxError> {
    if !geteuid().is_root() {
        return Err(SandboxError::NotRoot);
    }
    let signals = Signals::watch().map_err(|source| SandboxError::Signals { source })?;
    let group = match &spec.cgroup {
        None => None,
        Some(name) => {
            let layout = Layout::of_host().map_err(|source| crate::cgroup::CgroupError::Layout { source })?;
            Some(Group::new(&layout, name)?)
        }
    };
    let made = group.as_ref().map_or(Ok(()), Group::create);
    let ended = made.map_err(SandboxError::from).and_then(|()| supervise(spec, signals));
    // Also after a failure half-way. The first error is the one to tell.
    let removed = group.as_ref().map_or(Ok(()), Group::remove);
    let status = ended?;
    removed?;
    Ok(status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(super::EXIT_NOT_MADE))
}

/// Starts init and waits for its end; ends it on SIGTERM.
fn supervise(spec: &Spec, mut signals: Signals) -> Result<ExitStatus, SandboxError> {
    let program = spec.program()?.to_owned();
    let mut init = start_init(spec)?;
    let waited = wait(&mut init, &mut signals);
    if waited.is_err() {
        drop(init.kill().and_then(|()| init.wait()));
    }
    waited.map_err(|source| SandboxError::Wait { program, source })
}

fn wait(init: &mut Child, signals: &mut Signals) -> io::Result<ExitStatus> {
    let mut deadline: Option<Instant> = None;
    loop {
        if let Some(status) = init.try_wait()? {
            return Ok(status);
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        match left {
            Some(Duration::ZERO) => {
                init.kill()?;
                return init.wait();
            }
            left => signals.wait(left)?,
        }
        if deadline.is_none() && signals.ending() {
            // The signal went to the whole process group, so the program has got it as well: give it time. If
            // our caller is dead, no one waits for the result.
            let grace = if signals.orphaned() { Duration::ZERO } else { GRACE };
            deadline = Some(Instant::now() + grace);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the child needs our standard streams and a new pid namespace")]
#[expect(unsafe_code, reason = "unshare")]
fn start_init(spec: &Spec) -> Result<Child, SandboxError> {
    // SAFETY: no file descriptor tables are unshared, which is the only thing that can go wrong.
    unsafe { unshare_unsafe(UnshareFlags::NEWPID) }
        .map_err(|errno| SandboxError::Namespace { what: "pid", source: errno.into() })?;
    let failed = |source| SandboxError::Start { program: STAGE_INIT.to_owned(), source };
    let json = serde_json::to_string(spec).map_err(|source| SandboxError::Spec { source })?;
    let mut command = Command::new("/proc/self/exe");
    command.args([STAGE_INIT, &json]);
    process::die_with_us(&mut command).map_err(failed)?;
    command.spawn().map_err(failed)
}

/// The signals that concern the supervisor, as bytes in a pipe.
#[derive(Debug)]
struct Signals {
    /// Gets a byte for each signal that came.
    woken: UnixStream,
    /// Holds a byte after a signal that asks us to end.
    ending: UnixStream,
    caller: Option<Pid>,
}

impl Signals {
    /// From here on we notice the end of our child, and a signal to end us does not end us at once: the control
    /// groups must be removed first. That holds for our caller's death too.
    fn watch() -> io::Result<Self> {
        let caller = getppid();
        let (woken, wake) = UnixStream::pair()?;
        let (ending, end) = UnixStream::pair()?;
        ending.set_nonblocking(true)?;
        // In this order: the reader that this wakes must see the reason.
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            signal_hook::low_level::pipe::register(signal, end.try_clone()?)?;
        }
        for signal in [SIGTERM, SIGINT, SIGHUP, SIGCHLD] {
            signal_hook::low_level::pipe::register(signal, wake.try_clone()?)?;
        }
        // Until now it was SIGKILL (host::Command), so no moment was without.
        set_parent_process_death_signal(Some(Signal::TERM))?;
        Ok(Self { woken, ending, caller })
    }

    /// Waits for the next signal, but not longer than `limit`.
    fn wait(&mut self, limit: Option<Duration>) -> io::Result<()> {
        self.woken.set_read_timeout(limit)?;
        let mut bytes = [0; 64];
        match self.woken.read(&mut bytes) {
            Err(error) if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Whether a signal has asked us to end since the last call.
    fn ending(&mut self) -> bool {
        let mut bytes = [0; 64];
        self.ending.read(&mut bytes).is_ok()
    }

    fn orphaned(&self) -> bool {
        getppid() != self.caller
    }
}
