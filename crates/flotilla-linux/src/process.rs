//! Other processes, and how much of a host there is.

use std::fs;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// What all processes of the host have together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostSize {
    pub cpus: u32,
    /// Bytes.
    pub memory: u64,
}

/// The host's processors and memory.
pub fn host_size() -> HostSize {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes = memory.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    HostSize { cpus: u32::try_from(cpus).unwrap_or(u32::MAX), memory: kilobytes.unwrap_or_default() * 1024 }
}

/// Waits until a process, which need not be our child, has ended. Says whether it has.
pub fn wait_for_end(pid: Pid, limit: Duration) -> bool {
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return true };
    let limit = Timespec::try_from(limit).expect("nobody waits for centuries");
    // A pidfd becomes readable when its process ends.
    let mut ended = [PollFd::new(&process, PollFlags::IN)];
    loop {
        match poll(&mut ended, Some(&limit)) {
            Err(rustix::io::Errno::INTR) => {}
            polled => return polled.is_ok_and(|count| count > 0),
        }
    }
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
        let own = rustix::process::getpid();
        assert!(!wait_for_end(own, Duration::from_millis(1)));
        assert!(wait_for_end(Pid::from_raw(i32::MAX).unwrap(), Duration::from_millis(1)));
    }
}
