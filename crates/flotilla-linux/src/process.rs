//! Other processes, and how much of a host there is.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal, set_parent_process_death_signal,
};

/// What all processes of the host have together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostSize {
    pub cpus: u32,
    /// Bytes.
    pub memory: u64,
}

/// The host's CPUs and memory.
pub fn host_size() -> HostSize {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes = memory.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    HostSize { cpus: u32::try_from(cpus).unwrap_or(u32::MAX), memory: kilobytes.unwrap_or_default() * 1024 }
}

/// A process that is held by a descriptor: its number may go to another process once it has ended, the descriptor never
/// does (`pidfd_open(2)`). Clones hold the same.
#[derive(Debug, Clone)]
pub struct Process {
    pid: Pid,
    handle: Arc<OwnedFd>,
}

impl Process {
    /// Holds the process that has this number now. The caller checks afterwards that it is the wanted one.
    pub fn open(pid: Pid) -> io::Result<Self> {
        Ok(Self { pid, handle: Arc::new(pidfd_open(pid, PidfdFlags::empty())?) })
    }

    /// Its number, for names and messages: it may have ended.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// What holds it.
    pub(crate) fn descriptor(&self) -> &Arc<OwnedFd> {
        &self.handle
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.wait_for_end(Duration::ZERO)
    }

    /// Sends it a signal; an error if it has ended.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(pidfd_send_signal(&*self.handle, signal)?)
    }

    /// Waits until it has ended; it need not be our child. Says whether it has.
    pub fn wait_for_end(&self, limit: Duration) -> bool {
        let limit = Timespec::try_from(limit).expect("nobody waits for centuries");
        // A pidfd becomes readable when its process ends.
        let mut ended = [PollFd::new(&*self.handle, PollFlags::IN)];
        loop {
            match poll(&mut ended, Some(&limit)) {
                Err(rustix::io::Errno::INTR) => {}
                polled => return polled.is_ok_and(|count| count > 0),
            }
        }
    }

    /// Opens or reads something in the process's directory of `/proc`. An error if the process has ended, since the directory
    /// may have been another's then.
    pub fn look<T>(&self, look: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
        let found = look(&Path::new("/proc").join(self.pid.to_string()))?;
        if self.has_ended() { Err(rustix::io::Errno::SRCH.into()) } else { Ok(found) }
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

/// Has the kernel kill the program when this process ends, in whatever pid namespace the program is. The thread that
/// starts it must be the one that waits for it: the kernel looks at the thread.
#[expect(unsafe_code, reason = "code between fork and exec")]
pub(crate) fn die_with_us(command: &mut Command) -> io::Result<()> {
    let us = Process::open(getpid())?;
    let ask = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // We may have died before it asked. In another namespace our number is 0, dead or alive, so the program cannot
        // see that by its parent's number.
        let mut dead = [PollFd::from_borrowed_fd(us.as_fd(), PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut dead, Some(&now))? == 0 { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
    };
    // SAFETY: between fork and exec only async-signal-safe work is allowed. The closure makes two system calls
    // without libc, allocates nothing and takes no lock; the pidfd it uses lives in the closure.
    unsafe { command.pre_exec(ask) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_something() {
        let host = host_size();
        assert!(host.cpus > 0 && host.memory > 1 << 20, "{host:?}");
    }

    #[test]
    fn a_process_that_lives_on_is_told_from_one_that_ended() {
        let own = Process::open(rustix::process::getpid()).unwrap();
        assert!(!own.has_ended());
        assert_eq!(
            own.look(|proc| fs::read(proc.join("stat"))).map(|stat| stat.is_empty()).ok(),
            Some(false)
        );
        assert!(Process::open(Pid::from_raw(i32::MAX).unwrap()).is_err());
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "a child that is not reaped until the test has looked at it"
    )]
    fn a_number_says_nothing_once_its_process_has_ended() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let process = Process::open(Pid::from_child(&child)).unwrap();
        process.signal(Signal::KILL).unwrap();
        assert!(process.wait_for_end(Duration::from_mins(1)));
        // The kernel still shows it, until it is reaped: what is found there is not believed any more.
        assert!(process.look(|proc| fs::read(proc.join("stat"))).is_err());
        child.wait().unwrap();
        assert!(process.signal(Signal::KILL).is_err());
    }
}
