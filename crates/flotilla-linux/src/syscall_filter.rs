//! System calls that a machine's programs may not make although they have the capability for them (seccomp(2)).
//!
//! Only what reaches beyond the machine and what no part of Kubernetes needs: `SYS_ADMIN` would allow it. Programs in
//! containers inherit the filter; those of containers come on top.

use std::io;

use rustix::io::Errno;

/// A call that is refused.
#[derive(Debug, Clone, Copy)]
struct Refused {
    call: u32,
    /// What the program gets for an answer.
    answer: Errno,
    only_if: Option<Condition>,
}

/// The number of an argument, and what refuses it. Only its lower half is looked at: they are all `int`s.
#[derive(Debug, Clone, Copy)]
enum Condition {
    Is(u8, u32),
    HasAny(u8, u32),
}

/// The calls by their numbers on one kind of processor.
struct Calls {
    keys: [u32; 3],
    swap: [u32; 2],
    fanotify_init: u32,
    fanotify_mark: u32,
    ioctl: u32,
}

/// Of `fanotify_init`: whoever opens a file waits until the watcher allows it.
const ASKED_FOR_PERMISSION: u32 = 0x4 | 0x8;
/// Of `fanotify_mark`: all files of a file system, also those outside of the machine.
const WHOLE_FILE_SYSTEM: u32 = 0x100;
/// FIFREEZE, FITHAW, and the `FS_IOC_SHUTDOWN` of ext4, XFS and others: they act on the file system that `/var` is on, which is
/// the host's.
const OF_FILE_SYSTEMS: [u32; 3] = [0xC004_5877, 0xC004_5878, 0x8004_587D];

impl Calls {
    fn refused(&self) -> Vec<Refused> {
        let always = |call, answer| Refused { call, answer, only_if: None };
        let if_ = |call, condition| Refused { call, answer: Errno::PERM, only_if: Some(condition) };
        // Keys of user 0 are the host's, too. As if the kernel had none: with this answer runc goes on.
        let keys = self.keys.map(|call| always(call, Errno::NOSYS));
        let swap = self.swap.map(|call| always(call, Errno::PERM));
        let watches = [
            if_(self.fanotify_init, Condition::HasAny(0, ASKED_FOR_PERMISSION)),
            if_(self.fanotify_mark, Condition::HasAny(1, WHOLE_FILE_SYSTEM)),
        ];
        let file_systems = OF_FILE_SYSTEMS.map(|request| if_(self.ioctl, Condition::Is(1, request)));
        keys.into_iter().chain(swap).chain(watches).chain(file_systems).collect()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "numbers of system calls are small")]
const NATIVE: Calls = Calls {
    keys: [libc::SYS_add_key as u32, libc::SYS_request_key as u32, libc::SYS_keyctl as u32],
    swap: [libc::SYS_swapon as u32, libc::SYS_swapoff as u32],
    fanotify_init: libc::SYS_fanotify_init as u32,
    fanotify_mark: libc::SYS_fanotify_mark as u32,
    ioctl: libc::SYS_ioctl as u32,
};

/// What programs are written for, by the kernel's number for it (`AUDIT_ARCH_…`). Calls of others pass.
#[cfg(target_arch = "x86_64")]
const KINDS: &[(u32, &Calls)] = &[(0xC000_003E, &NATIVE), (0x4000_0003, &I386)];
#[cfg(target_arch = "aarch64")]
const KINDS: &[(u32, &Calls)] = &[(0xC000_00B7, &NATIVE)];

/// Programs of 32 bits make the same calls by other numbers.
#[cfg(target_arch = "x86_64")]
const I386: Calls =
    Calls { keys: [286, 287, 288], swap: [87, 115], fanotify_init: 338, fanotify_mark: 339, ioctl: 54 };

/// Refuses these calls to this process, for good, and to whatever it starts.
#[expect(unsafe_code, reason = "a system call that no crate here has")]
pub(crate) fn limit() -> io::Result<()> {
    const SET_MODE_FILTER: libc::c_uint = 1;
    /// Without it older kernels slow down every program that has a filter, against attacks that the filter is not for.
    const SPEC_ALLOW: libc::c_ulong = 1 << 2;
    let mut filter = program();
    let length = libc::c_ushort::try_from(filter.len()).map_err(io::Error::other)?;
    let handed = libc::sock_fprog { len: length, filter: filter.as_mut_ptr() };
    // SAFETY: the kernel copies the program, which lives until the call returns.
    let done = unsafe { libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, SPEC_ALLOW, &raw const handed) };
    match io::Error::last_os_error() {
        _ if done == 0 => Ok(()),
        // A kernel without filters: containers have none there either.
        error if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL)) => Ok(()),
        error => Err(error),
    }
}

/// Where the kernel puts them: `struct seccomp_data`.
const CALL: u32 = 0;
const KIND: u32 = 4;
const ARGUMENTS: u32 = 16;

fn program() -> Vec<libc::sock_filter> {
    let mut program = vec![load(KIND)];
    for (kind, calls) in KINDS {
        let block = block(&calls.refused());
        let length = u8::try_from(block.len()).expect("a few dozen instructions");
        program.push(jump(libc::BPF_JEQ, *kind, 0, length));
        program.extend(block);
    }
    program.push(answer(libc::SECCOMP_RET_ALLOW));
    program
}

fn block(refused: &[Refused]) -> Vec<libc::sock_filter> {
    let mut block = vec![load(CALL)];
    if cfg!(target_arch = "x86_64") {
        /// Marks calls of x32, a second set of numbers for the same calls, which nobody uses.
        const X32: u32 = 0x4000_0000;
        block.extend([jump(libc::BPF_JSET, X32, 0, 1), refuse(Errno::NOSYS)]);
    }
    for Refused { call, answer, only_if } in refused {
        let Some(condition) = only_if else {
            block.extend([jump(libc::BPF_JEQ, *call, 0, 1), refuse(*answer)]);
            continue;
        };
        let (argument, test) = match *condition {
            Condition::Is(argument, value) => (argument, jump(libc::BPF_JEQ, value, 0, 1)),
            Condition::HasAny(argument, bits) => (argument, jump(libc::BPF_JSET, bits, 0, 1)),
        };
        let of_argument = [load(ARGUMENTS + u32::from(argument) * 8), test, refuse(*answer), load(CALL)];
        block.push(jump(libc::BPF_JEQ, *call, 0, 4));
        block.extend(of_argument);
    }
    block.push(answer(libc::SECCOMP_RET_ALLOW));
    block
}

fn load(offset: u32) -> libc::sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset)
}

fn jump(test: u32, value: u32, if_true: u8, if_false: u8) -> libc::sock_filter {
    instruction(libc::BPF_JMP | test | libc::BPF_K, if_true, if_false, value)
}

fn answer(action: u32) -> libc::sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, 0, 0, action)
}

fn refuse(errno: Errno) -> libc::sock_filter {
    answer(libc::SECCOMP_RET_ERRNO | errno.raw_os_error().unsigned_abs())
}

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    let code = u16::try_from(code).expect("codes have sixteen bits");
    libc::sock_filter { code, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer to a call, 0 if there is none but success.
    #[expect(unsafe_code, reason = "system calls that no crate here has")]
    fn call(number: libc::c_long, arguments: [libc::c_ulong; 3]) -> i32 {
        // SAFETY: every call that the tests make is given numbers that are no memory.
        let done = unsafe { libc::syscall(number, arguments[0], arguments[1], arguments[2]) };
        if done < 0 { io::Error::last_os_error().raw_os_error().unwrap() } else { 0 }
    }

    #[test]
    fn what_reaches_beyond_a_machine_is_refused_and_the_rest_passes() {
        let limited = || {
            // Only root may set a filter without giving up programs that run as root.
            rustix::thread::set_no_new_privs(true).unwrap();
            limit().unwrap();
            // Descriptor -1 exists for nobody: what passes says so.
            let ioctl = |request| call(libc::SYS_ioctl, [libc::c_ulong::MAX, request, 0]);
            let file_systems = OF_FILE_SYSTEMS.map(|request| ioctl(libc::c_ulong::from(request)));
            assert_eq!(file_systems, [libc::EPERM; 3]);
            assert_eq!(ioctl(libc::TIOCGWINSZ), libc::EBADF);
            assert_eq!(call(libc::SYS_keyctl, [0, 0, 0]), libc::ENOSYS);
            assert_eq!(call(libc::SYS_add_key, [0, 0, 0]), libc::ENOSYS);
            assert_eq!(call(libc::SYS_swapoff, [0, 0, 0]), libc::EPERM);
            assert_eq!(call(libc::SYS_fanotify_init, [0x4, 0, 0]), libc::EPERM);
            let mark = |flags| call(libc::SYS_fanotify_mark, [libc::c_ulong::MAX, flags, 0]);
            assert_eq!((mark(0x101), mark(0x1)), (libc::EPERM, libc::EINVAL));
            assert_eq!(call(libc::SYS_getppid, [0, 0, 0]), 0);
        };
        // The filter is that of the thread.
        std::thread::spawn(limited).join().unwrap();
    }
}
