//! The stage's side of a session: it starts the program, passes signals on, and tells of its end. It ends the program when
//! whoever opened the session goes away, however that happens: the kernel closes the socket.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

use flotilla_core::explain::one_line;
use flotilla_core::{Signal, TtySize};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal as Number, kill_process_group, setsid};

use super::super::{EXIT_NOT_RUN, EnterError, terminal};
use super::wire::{self, Report};
use crate::host::exit;
use crate::process::Process;

/// How long a program may take to end on its own before it is killed.
const GRACE: Duration = Duration::from_secs(2);
/// How long to wait for one that was killed: one that is frozen ends when it is thawed.
const LAST_PATIENCE: Duration = Duration::from_secs(1);
/// When a stage ends whose program does not begin: after whoever opened the session has given up, and for one who cannot.
const BEGIN_SECONDS: u32 = 180;

/// Runs the program that `enter` gives, from inside the machine.
pub(in super::super) fn run(
    control: &OwnedFd,
    tty: Option<TtySize>,
    name: &str,
    enter: impl FnOnce() -> Result<Command, EnterError>,
) -> i32 {
    let started = start(tty, name, enter).and_then(|(child, master)| {
        let failed = |source| EnterError::Run { program: name.to_owned(), source };
        Ok((Process::open(Pid::from_child(&child)).map_err(failed)?, child, master))
    });
    let (process, mut child, master) = match started {
        Ok(started) => started,
        Err(error) => {
            let errno = error.run_error().and_then(io::Error::raw_os_error);
            let text = one_line(&error).chars().take(wire::LONGEST_TEXT).collect();
            let report = Report::Failed { errno, text };
            // Nobody is left to be told if even this fails.
            let _ = wire::send(control, &report, None);
            return EXIT_NOT_RUN;
        }
    };
    let told = wire::send(control, &Report::Started, master.as_ref().map(AsFd::as_fd));
    // The terminal hangs up when whoever opened the session lets go of it.
    let has_terminal = master.is_some();
    drop(master);
    if told.is_err() || !attend(control, &process) {
        end(&process, has_terminal);
        return EXIT_NOT_RUN;
    }
    if let Ok(status) = child.wait() {
        let _ = wire::send(control, &Report::Ended(exit(status)), None);
    }
    0
}

fn start(
    tty: Option<TtySize>,
    name: &str,
    enter: impl FnOnce() -> Result<Command, EnterError>,
) -> Result<(Child, Option<OwnedFd>), EnterError> {
    let failed = |source| EnterError::Run { program: name.to_owned(), source };
    let nothing = File::options().read(true).write(true).open("/dev/null").map_err(failed)?;
    let _alarm = Alarm::set();
    let mut command = enter()?;
    lead_session(&mut command);
    if let Some(size) = tty {
        let (master, slave) = terminal::open(size).map_err(|source| EnterError::Terminal { source })?;
        return Ok((terminal::start(command, slave).map_err(failed)?, Some(master)));
    }
    let child = command.spawn().map_err(failed)?;
    // The streams are the program's alone: they end when it closes them.
    let closed = rustix::stdio::dup2_stdin(&nothing)
        .and_then(|()| rustix::stdio::dup2_stdout(&nothing))
        .and_then(|()| rustix::stdio::dup2_stderr(&nothing));
    closed.map_err(|errno| failed(errno.into()))?;
    Ok((child, None))
}

/// The program has no terminal of the host's, and its process group is its own.
#[expect(unsafe_code, reason = "code between fork and exec")]
fn lead_session(command: &mut Command) {
    // SAFETY: one system call without libc, which allocates nothing and takes no lock.
    unsafe { command.pre_exec(|| Ok(setsid().map(drop)?)) };
}

/// Passes signals on until the program ends. False: whoever opened the session is gone.
fn attend(control: &OwnedFd, process: &Process) -> bool {
    let ready = |fds: &mut [PollFd<'_>]| loop {
        match poll(fds, None) {
            Err(rustix::io::Errno::INTR) => {}
            polled => return polled.is_ok(),
        }
    };
    loop {
        let mut fds = [PollFd::new(process, PollFlags::IN), PollFd::new(control, PollFlags::IN)];
        if !ready(&mut fds) {
            return false;
        }
        if !fds[0].revents().is_empty() {
            return true;
        }
        match wire::receive::<Signal>(control) {
            Ok(Some((signal, _))) => kill(process, number(signal)),
            Ok(None) | Err(_) => return false,
        }
    }
}

/// Ends the program and its process group. The number of the group is its own, since the program is not reaped yet.
fn end(process: &Process, has_terminal: bool) {
    kill(process, if has_terminal { Number::HUP } else { Number::TERM });
    // What is stopped would not notice.
    kill(process, Number::CONT);
    process.wait_for_end(GRACE);
    kill(process, Number::KILL);
    process.wait_for_end(LAST_PATIENCE);
}

fn kill(process: &Process, signal: Number) {
    // A group that has ended needs no signal.
    let _ = kill_process_group(process.pid(), signal);
}

fn number(signal: Signal) -> Number {
    match signal {
        Signal::Hangup => Number::HUP,
        Signal::Interrupt => Number::INT,
        Signal::Quit => Number::QUIT,
        Signal::Terminate => Number::TERM,
        Signal::Kill => Number::KILL,
    }
}

/// Ends us, by the default action of SIGALRM, if the program does not begin: in a machine whose processes are frozen we
/// would wait for ever, and not even notice that nobody waits for us any more. Dropped when the program runs.
struct Alarm;

impl Alarm {
    #[expect(unsafe_code, reason = "alarm")]
    fn set() -> Self {
        // SAFETY: it takes a number.
        unsafe { libc::alarm(BEGIN_SECONDS) };
        Self
    }
}

impl Drop for Alarm {
    #[expect(unsafe_code, reason = "alarm")]
    fn drop(&mut self) {
        // SAFETY: it takes a number; 0 is none.
        unsafe { libc::alarm(0) };
    }
}
