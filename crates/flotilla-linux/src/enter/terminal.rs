//! A terminal of the machine's own.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use flotilla_core::TtySize;
use rustix::process::ioctl_tiocsctty;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::stdio::stdin;
use rustix::termios::{InputModes, OptionalActions, Termios, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

/// Opens a terminal in the mount namespace that we are in: our side, and the program's.
pub(super) fn open(size: TtySize) -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags)?;
    unlockpt(&master)?;
    // Not by its name, which the machine could have given to something else.
    let slave = ioctl_tiocgptpeer(&master, flags)?;
    let mut modes: Termios = tcgetattr(&slave)?;
    // A character may be several bytes: erasing one erases all of them.
    modes.input_modes |= InputModes::IUTF8;
    tcsetattr(&slave, OptionalActions::Now, &modes)?;
    resize(&master, size)?;
    Ok((master, slave))
}

/// Starts the program, which is the first of a session, with the slave as its terminal.
#[expect(unsafe_code, reason = "code between fork and exec")]
pub(super) fn start(mut command: Command, slave: OwnedFd) -> io::Result<Child> {
    command.stdin(slave.try_clone()?).stdout(slave.try_clone()?).stderr(slave);
    // SAFETY: one system call without libc, which allocates nothing and takes no lock.
    unsafe { command.pre_exec(|| Ok(ioctl_tiocsctty(stdin())?)) };
    command.spawn()
}

/// Whoever is in the foreground of the terminal is told of its new size.
pub(super) fn resize(master: &OwnedFd, TtySize { rows, columns }: TtySize) -> io::Result<()> {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(tcsetwinsize(master, size)?)
}
