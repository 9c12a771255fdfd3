//! A terminal in the machine, tied to the one the user sits at.

use std::io::{self, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{ioctl_tiocsctty, setsid};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::stdio::{stdin, stdout};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize};
use signal_hook::consts::{SIGCHLD, SIGWINCH};

use super::{EnterError, GiveUp, Request, exit_status};

/// Runs the program on a new terminal of the machine and passes everything on until it ends.
pub(super) fn run(command: Command, request: &Request, give_up: Option<GiveUp>) -> Result<i32, EnterError> {
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
    drop(give_up);
    let raw = Raw::enter();
    let person = Person { keys: stdin(), screen: &mut io::stdout().lock() };
    let ended = pass_on(&master, &woken, person, || child.try_wait());
    drop(raw);
    ended.map(exit_status).map_err(failed)
}

fn open() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    // A program that does not read what is typed must not keep us from showing what it writes.
    fcntl_setfl(&master, fcntl_getfl(&master)? | OFlags::NONBLOCK)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
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

/// The user's side.
struct Person<'a> {
    keys: BorrowedFd<'a>,
    screen: &'a mut dyn Write,
}

/// Passes bytes both ways and the window's size one way, until the program has ended and all it wrote is out.
fn pass_on<T>(
    master: &OwnedFd,
    mut woken: &UnixStream,
    person: Person<'_>,
    mut ended: impl FnMut() -> io::Result<Option<T>>,
) -> io::Result<T> {
    let Person { keys, screen } = person;
    let mut buffer = vec![0; 1 << 16];
    // What was typed and the program has not taken yet. Nothing more is read until it has.
    let mut typed: Vec<u8> = Vec::new();
    let mut typing = true;
    loop {
        let mut ready = vec![
            PollFd::new(
                master,
                if typed.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT },
            ),
            PollFd::new(&woken, PollFlags::IN),
        ];
        if typing && typed.is_empty() {
            ready.push(PollFd::from_borrowed_fd(keys, PollFlags::IN));
        }
        match poll(&mut ready, None) {
            Err(Errno::INTR) => continue,
            other => other?,
        };
        let events: Vec<_> = ready.iter().map(PollFd::revents).collect();
        let from_program = !events[0].difference(PollFlags::OUT).is_empty();
        let signalled = !events[1].is_empty();
        let from_person = events.get(2).is_some_and(|events| !events.is_empty());
        if from_program {
            match rustix::io::read(master, &mut buffer[..]) {
                // The last holder of the other side is gone: nothing more can come.
                Ok(0) | Err(Errno::IO) => return last(ended),
                Ok(read) => {
                    screen.write_all(&buffer[..read])?;
                    screen.flush()?;
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        } else if signalled {
            // How many signals came does not matter.
            let _ = woken.read(&mut buffer)?;
            copy_size(master);
            if let Some(status) = ended()? {
                // What runs on in the background keeps the terminal open; the user wants their own back.
                return Ok(status);
            }
        }
        if from_person {
            match rustix::io::read(keys, &mut buffer[..]) {
                Ok(0) | Err(_) => typing = false,
                Ok(read) => typed.extend_from_slice(&buffer[..read]),
            }
        }
        if !typed.is_empty() {
            match rustix::io::write(master, &typed) {
                Ok(taken) => drop(typed.drain(..taken)),
                Err(Errno::AGAIN | Errno::INTR) => {}
                // It will be seen when it is read.
                Err(Errno::IO) => typed.clear(),
                Err(errno) => return Err(errno.into()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn a_program_that_does_not_read_what_is_typed_is_still_seen() {
        let (master, slave) = open().unwrap();
        let mut raw = tcgetattr(&slave).unwrap();
        raw.make_raw();
        tcsetattr(&slave, OptionalActions::Now, &raw).unwrap();
        // More than any terminal takes.
        let mut keys = tempfile::tempfile().unwrap();
        keys.write_all(&vec![b'x'; 1 << 20]).unwrap();
        io::Seek::rewind(&mut keys).unwrap();
        let (woken, _wake) = UnixStream::pair().unwrap();
        let (done, ended) = mpsc::channel();
        let passing = std::thread::spawn(move || {
            let mut screen = Vec::new();
            let person = Person { keys: keys.as_fd(), screen: &mut screen };
            let status = pass_on(&master, &woken, person, || Ok(Some(7)));
            done.send((status.unwrap(), screen)).unwrap();
        });
        rustix::io::write(&slave, b"seen").unwrap();
        // The program ends without having read anything.
        drop(slave);
        let (status, screen) = ended.recv_timeout(Duration::from_mins(1)).unwrap();
        assert_eq!((status, screen.as_slice()), (7, &b"seen"[..]));
        passing.join().unwrap();
    }
}
