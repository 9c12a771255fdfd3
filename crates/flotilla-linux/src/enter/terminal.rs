//! A terminal in the machine, tied to the one the person sits at.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{ioctl_tiocsctty, setsid};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::stdio::{stdin, stdout};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize};
use signal_hook::consts::{SIGCHLD, SIGWINCH};

use super::{EnterError, Request, exit_status};

/// Runs the program on a new terminal of the machine and passes everything on until it ends.
pub(super) fn run(command: Command, request: &Request) -> Result<i32, EnterError> {
    let failed = |source| EnterError::Terminal { source };
    let (master, slave) = open().map_err(|errno| failed(errno.into()))?;
    // Theirs is like ours in size and in what keys mean.
    if let Ok(ours) = tcgetattr(stdin()) {
        let _ = tcsetattr(&slave, OptionalActions::Now, &ours);
    }
    let (woken, wake) = UnixStream::pair().map_err(failed)?;
    for signal in [SIGCHLD, SIGWINCH] {
        let wake = wake.try_clone().map_err(failed)?;
        signal_hook::low_level::pipe::register(signal, wake).map_err(failed)?;
    }
    copy_size(&master);
    let mut child = start(command, slave)
        .map_err(|source| EnterError::Run { program: request.argv[0].clone(), source })?;
    let raw = Raw::enter();
    let ended = pass_on(&master, &woken, || child.try_wait());
    drop(raw);
    ended.map(exit_status).map_err(failed)
}

fn open() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
    let slave = rustix::fs::open(name.as_c_str(), flags, rustix::fs::Mode::empty())?;
    Ok((master, slave))
}

/// Makes the slave the program's terminal.
#[expect(unsafe_code, reason = "code between fork and exec")]
fn start(mut command: Command, slave: OwnedFd) -> io::Result<std::process::Child> {
    command.stdin(slave.try_clone()?).stdout(slave.try_clone()?).stderr(slave);
    // SAFETY: two system calls without libc, which allocate nothing and take no lock.
    unsafe {
        command.pre_exec(|| {
            setsid()?;
            Ok(ioctl_tiocsctty(stdin())?)
        })
    };
    command.spawn()
}

/// Passes bytes both ways and the window's size one way, until the program has ended and all it wrote is out.
fn pass_on<T>(
    master: &OwnedFd,
    mut woken: &UnixStream,
    mut ended: impl FnMut() -> io::Result<Option<T>>,
) -> io::Result<T> {
    let mut buffer = vec![0; 1 << 16];
    let mut typing = true;
    loop {
        let keys = if typing { PollFlags::IN } else { PollFlags::empty() };
        let (input, screen) = (stdin(), master.as_fd());
        let mut ready = [
            PollFd::new(&screen, PollFlags::IN),
            PollFd::new(&woken, PollFlags::IN),
            PollFd::new(&input, keys),
        ];
        match poll(&mut ready, None) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        let [from_program, signalled, from_person] = ready.map(|fd| !fd.revents().is_empty());
        if from_program {
            match rustix::io::read(master, &mut buffer[..]) {
                // The last holder of the other side is gone: nothing more can come.
                Ok(0) | Err(rustix::io::Errno::IO) => return last(ended),
                Ok(read) => write_all(&buffer[..read])?,
                Err(errno) => return Err(errno.into()),
            }
        } else if signalled {
            // How many signals came does not matter.
            let _ = woken.read(&mut buffer)?;
            copy_size(master);
            if let Some(status) = ended()? {
                // What runs on in the background keeps the terminal open; the person wants their own back.
                return Ok(status);
            }
        }
        if from_person && typing {
            match rustix::io::read(stdin(), &mut buffer[..]) {
                Ok(0) | Err(_) => typing = false,
                Ok(read) => {
                    let mut rest = &buffer[..read];
                    while !rest.is_empty() {
                        rest = &rest[rustix::io::write(master, rest)?..];
                    }
                }
            }
        }
    }
}

/// The program closed its terminal: it ends in a moment, if it has not already.
fn last<T>(mut ended: impl FnMut() -> io::Result<Option<T>>) -> io::Result<T> {
    loop {
        if let Some(status) = ended()? {
            return Ok(status);
        }
        crate::poll::pause(std::time::Duration::from_millis(5));
    }
}

fn write_all(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

fn copy_size(master: &OwnedFd) {
    // Where ours has no size, theirs needs none.
    if let Ok(size) = tcgetwinsize(stdout()).or_else(|_| tcgetwinsize(stdin())) {
        let _ = tcsetwinsize(master, size);
    }
}

/// Our terminal hands over every key as it is, until this is dropped.
struct Raw(Option<Termios>);

impl Raw {
    fn enter() -> Self {
        let before = tcgetattr(stdin()).ok();
        if let Some(before) = &before {
            let mut raw = before.clone();
            raw.make_raw();
            let _ = tcsetattr(stdin(), OptionalActions::Now, &raw);
        }
        Self(before)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(stdin(), OptionalActions::Now, before);
        }
    }
}
