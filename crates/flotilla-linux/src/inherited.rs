//! What a process has from whoever started it, and a machine must not have: the settings of a user's shell would reach
//! every pod.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setpriority_process, setrlimit, umask};
use rustix::thread::{CpuSet, Gid, sched_setaffinity, set_thread_gid, set_thread_groups};

/// What files of a machine are made with, as on any server.
const UMASK: Mode = Mode::WGRP.union(Mode::WOTH);
/// Limits that `ulimit` sets and no machine has. That of open files is PID 1's own business.
const UNLIMITED: [Resource; 6] =
    [Resource::Cpu, Resource::Fsize, Resource::Data, Resource::Rss, Resource::Nproc, Resource::As];

/// Gives this process what a fresh one has: umask, descriptors, groups, priority, CPUs, limits, keys. Signals are
/// those of the program it starts: [`default_signals`].
///
/// Closes all descriptors but the standard streams and `keep`: for the first lines of a stage, before it has opened any.
/// What may not be changed stays, since a machine works with it as well.
pub(crate) fn shed(keep: &[BorrowedFd<'_>]) {
    umask(UMASK);
    let keep: Vec<RawFd> = keep.iter().map(AsRawFd::as_raw_fd).collect();
    close_all_but(&keep);
    let _ = set_thread_groups(&[]);
    let _ = set_thread_gid(Gid::ROOT);
    let _ = fs::write("/proc/self/oom_score_adj", "0");
    let _ = setpriority_process(None, 0);
    let mut all = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|cpu| all.set(cpu));
    // The kernel leaves out those that this host does not have or that our control group may not use.
    let _ = sched_setaffinity(None, &all);
    for resource in UNLIMITED {
        if setrlimit(resource, Rlimit { current: None, maximum: None }).is_err() {
            // To raise the hard limit may be forbidden; to use all of it is not.
            let maximum = getrlimit(resource).maximum;
            let _ = setrlimit(resource, Rlimit { current: maximum, maximum });
        }
    }
    join_new_keyring();
}

/// Lets the program start with no signal blocked or ignored.
#[expect(unsafe_code, reason = "code between fork and exec")]
pub(crate) fn default_signals(command: &mut Command) {
    // SAFETY: between fork and exec only async-signal-safe work is allowed, which both sigaction(2) and sigprocmask(2) are.
    unsafe { command.pre_exec(reset_signals) };
}

/// How long the kernel's sets of signals are.
const MASK_BYTES: usize = 8;

#[expect(unsafe_code, reason = "signals")]
fn reset_signals() -> io::Result<()> {
    // The last real-time signal of Linux.
    const LAST: libc::c_int = 64;
    // The kernel's own `sigaction`: handler, flags, restorer, mask. All zeroes are the default.
    let default = [0_u64; 4];
    for signal in 1..=LAST {
        // SAFETY: the kernel reads what `default` holds and writes nothing. No handler is set. Not by libc, which keeps two
        // signals to itself. The two that cannot be changed are refused.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                ptr::null_mut::<u64>(),
                MASK_BYTES,
            )
        };
    }
    let mut none = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset fills the set, which is only read afterwards.
    let done = unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut())
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[expect(unsafe_code, reason = "descriptors that were not opened here")]
fn close_all_but(keep: &[RawFd]) {
    const STANDARD: [RawFd; 3] = [0, 1, 2];
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return };
    let open = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<RawFd>().ok());
    // Collected first, so that the list itself is closed again.
    let strange: Vec<_> = open.filter(|fd| !STANDARD.contains(fd) && !keep.contains(fd)).collect();
    for fd in strange {
        // SAFETY: it is no descriptor of ours: a stage calls this before it has opened any but those it keeps. That of
        // the list is closed already: that error does not matter.
        unsafe { libc::close(fd) };
    }
}

/// Leaves the session's keys of whoever started us: they would be seen, and count, in the machine.
#[expect(unsafe_code, reason = "a system call that no crate here has")]
fn join_new_keyring() {
    /// keyctl(2).
    const JOIN_SESSION_KEYRING: libc::c_int = 1;
    // SAFETY: the call takes no pointer but the name, and null means a keyring without one. It may be forbidden, or keys
    // may be none of this kernel's business.
    unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, ptr::null::<libc::c_char>()) };
}
