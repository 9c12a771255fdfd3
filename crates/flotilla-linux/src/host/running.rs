//! A started program, until it is reaped.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flotilla_core::Exit;
use flotilla_core::cancel::{Cancel, OnCancel};
use rustix::io::retry_on_intr;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, chdir, chroot, getpid, getppid, kill_process_group,
    set_parent_process_death_signal, waitid,
};

use super::lines::Tail;
use super::{Command, CommandError};
use crate::process::Process;

/// How long a program that was killed may take to end before it is left alone.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// How a program ended that was waited for.
pub(crate) fn exit(status: ExitStatus) -> Exit {
    let byte = |number: i32| u8::try_from(number).unwrap_or(u8::MAX);
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(byte(code)),
        (None, signal) => Exit::Signal(byte(signal.unwrap_or_default())),
    }
}

/// Asks every process of the group to end. As long as a child is not waited for, the kernel does not reuse its number:
/// so a signal sent before the guard of [`Cancel::on_cancel`] is dropped meets the child or its zombie, never a stranger.
fn terminate(group: Pid) {
    // It can fail only because the child has changed its identity or is a zombie: nothing to do about either.
    let _ = kill_process_group(group, Signal::TERM);
}

/// A child that is waited for in the thread that started it; dropped too early, it is killed.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    program: String,
    argv: String,
    cancel: Option<Cancel>,
    attached: Option<OnCancel>,
    reaped: bool,
    since: Instant,
}

impl Running {
    /// Starts the program with both outputs as pipes.
    pub(super) fn start(mut spec: Command) -> Result<Self, CommandError> {
        let program = spec.shown_program();
        if spec.cancel.as_ref().is_some_and(Cancel::is_cancelled) {
            return Err(CommandError::Cancelled { program });
        }
        let started = || spec.program.to_string_lossy().into_owned();
        if let Some(source) = spec.refused.take() {
            return Err(CommandError::Start { program: started(), source });
        }
        let mut command = spec.to_std();
        command.stdin(spec.stdin.take().map_or_else(Stdio::null, Stdio::from));
        if spec.cancel.is_some() {
            command.process_group(0);
        }
        die_with_parent(&mut command);
        if let Some(root) = &spec.root {
            change_root(&mut command, root)
                .map_err(|source| CommandError::Start { program: started(), source })?;
        }
        let child = command.spawn().map_err(|source| {
            // A missing working directory or root gives the same error as a missing program.
            let mut directories = spec.current_dir.iter().chain(&spec.root);
            let directory_missing = directories.any(|dir| !dir.is_dir());
            if source.kind() == io::ErrorKind::NotFound && !directory_missing {
                CommandError::NotFound { program: started() }
            } else {
                CommandError::Start { program: started(), source }
            }
        })?;
        let group = pid_of(&child);
        let attached = spec.cancel.as_ref().map(|cancel| cancel.on_cancel(move || terminate(group)));
        let argv = spec.shown_argv();
        tracing::trace!("started `{argv}`");
        let since = Instant::now();
        Ok(Self { argv, child, program, cancel: spec.cancel, attached, reaped: false, since })
    }

    pub(super) fn take_stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().expect("it was started with a pipe, taken once")
    }

    pub(super) fn take_stderr(&mut self) -> ChildStderr {
        self.child.stderr.take().expect("it was started with a pipe, taken once")
    }

    /// Waits for the end of the program.
    pub(super) fn wait(&mut self) -> Result<ExitStatus, CommandError> {
        let status = self.reap();
        if let Ok(status) = &status {
            tracing::debug!("`{}`: {status} after {} ms", self.argv, self.since.elapsed().as_millis());
        }
        status.map_err(|source| CommandError::Read { program: self.program.clone(), source })
    }

    /// Waits for the end of the program, but no longer than `limit`. None: it has not ended.
    pub(super) fn wait_within(
        &mut self,
        limit: Option<Duration>,
    ) -> Result<Option<ExitStatus>, CommandError> {
        if let Some(limit) = limit {
            // Our child, not reaped yet: the number is its own.
            let process = Process::open(pid_of(&self.child)).map_err(|source| self.read_error(source))?;
            if !process.wait_for_end(limit) {
                return Ok(None);
            }
        }
        self.wait().map(Some)
    }

    /// Kills the program and everything in its process group, and does not wait for one that does not even end by that:
    /// it ends when it is thawed, or the kernel lets go of it.
    pub(super) fn abandon(&mut self) {
        let child = pid_of(&self.child);
        if self.attached.is_some() {
            let _ = kill_process_group(child, Signal::KILL);
        }
        drop(self.child.kill());
        if Process::open(child).is_ok_and(|process| process.wait_for_end(LAST_PATIENCE)) {
            drop(self.reap());
        }
        self.attached = None;
        self.reaped = true;
    }

    pub(super) fn timed_out(&self, limit: Duration) -> CommandError {
        if self.is_cancelled() {
            return CommandError::Cancelled { program: self.program.clone() };
        }
        CommandError::TimedOut { argv: self.argv.clone(), limit }
    }

    pub(super) fn too_much_output(&self, limit: usize) -> CommandError {
        CommandError::TooMuchOutput { argv: self.argv.clone(), limit }
    }

    /// What to say of a program that ended with `status`, given its last lines (standard output, error).
    pub(super) fn failure(&self, status: ExitStatus, (stdout, stderr): (Tail, Tail)) -> CommandError {
        if self.is_cancelled() {
            return CommandError::Cancelled { program: self.program.clone() };
        }
        let tail = if stderr.is_blank() { stdout } else { stderr };
        CommandError::Failed { argv: self.argv.clone(), exit: exit(status), tail: tail.into_lines() }
    }

    pub(super) fn read_error(&self, source: io::Error) -> CommandError {
        CommandError::Read { program: self.program.clone(), source }
    }

    /// A reader's failure, unless it is only the echo of a cancel.
    pub(super) fn read_error_or_cancelled(&self, source: io::Error) -> CommandError {
        if self.is_cancelled() {
            return CommandError::Cancelled { program: self.program.clone() };
        }
        self.read_error(source)
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(Cancel::is_cancelled)
    }

    /// Waits until the child is dead, takes it out of the cancel's registry, and only then reaps it: from that
    /// moment its number may belong to somebody else.
    fn reap(&mut self) -> io::Result<ExitStatus> {
        let dead = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        // An error here comes back from the real wait below.
        let _ = retry_on_intr(|| waitid(WaitId::Pid(pid_of(&self.child)), dead));
        self.attached = None;
        self.reaped = true;
        self.child.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.reaped {
            drop(self.child.kill());
            drop(self.reap());
        }
    }
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// Has the kernel kill the child when the thread that starts it ends.
#[expect(unsafe_code, reason = "code between fork and exec")]
fn die_with_parent(command: &mut std::process::Command) {
    let parent = getpid();
    let ask = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // We may have died before the child asked: then it has another parent by now and must go itself.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::Error::from(rustix::io::Errno::SRCH)) }
    };
    // SAFETY: between fork and exec only async-signal-safe work is allowed. The closure makes two plain system
    // calls without libc, allocates nothing (an error made of a number does not) and takes no lock.
    unsafe { command.pre_exec(ask) };
}

/// Gives the program descriptors of ours, which others do not get.
#[expect(unsafe_code, reason = "code between fork and exec")]
pub(super) fn keep_open(command: &mut std::process::Command, descriptors: Vec<Arc<OwnedFd>>) {
    let keep = move || {
        descriptors.iter().try_for_each(|fd| Ok(rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?))
    };
    // SAFETY: between fork and exec only async-signal-safe work is allowed. The closure makes system calls without libc,
    // on descriptors that live in it, allocates nothing and takes no lock.
    unsafe { command.pre_exec(keep) };
}

/// Has the child take `root` for the whole file system.
#[expect(unsafe_code, reason = "code between fork and exec")]
fn change_root(command: &mut std::process::Command, root: &Path) -> io::Result<()> {
    // Made here, because the child must not allocate.
    let root = CString::new(root.as_os_str().as_bytes())?;
    let enter = move || {
        chroot(root.as_c_str())?;
        chdir(c"/").map_err(io::Error::from)
    };
    // SAFETY: between fork and exec only async-signal-safe work is allowed. The closure makes two plain system
    // calls without libc on strings made before, allocates nothing (an error made of a number does not) and takes
    // no lock.
    unsafe { command.pre_exec(enter) };
    Ok(())
}
