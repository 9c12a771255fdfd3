//! User namespaces: root of one is somebody without rights on the host.
//!
//! A namespace is made by a process of its own ([`Ids::namespace`]), since whoever makes one is in it, and has no rights
//! outside any more.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{Gid, Uid};
use rustix::process::{
    DumpableBehavior, getppid, parent_process_death_signal, set_dumpable_behavior,
    set_parent_process_death_signal,
};
use rustix::thread::{
    LinkNameSpaceType, UnshareFlags, move_into_link_name_space, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid, unshare_unsafe,
};
use serde::{Deserialize, Serialize};

use crate::{capabilities, process};

mod acting;

pub(crate) use acting::Acting;

/// The first argument of the stage that is in a new user namespace until its input ends.
const STAGE_HOLD: &str = "__user-namespace";

/// User and group ids of the host that are 0 and up in a user namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ids {
    pub first: u32,
    pub count: u32,
}

impl Ids {
    /// Makes a user namespace with these ids. It is there as long as what is returned, or a process in it.
    ///
    /// Starts the running binary again, whose `main` must call [`run_if_stage`].
    #[expect(
        clippy::disallowed_methods,
        reason = "it talks to us by its standard streams, and ends with them"
    )]
    pub(crate) fn namespace(self) -> io::Result<OwnedFd> {
        let mut command = Command::new("/proc/self/exe");
        command.arg(STAGE_HOLD).stdin(Stdio::piped()).stdout(Stdio::piped());
        process::die_with_us(&mut command)?;
        let mut holder = command.spawn()?;
        let made = self.map(&mut holder);
        // Its input ends, and with that the process.
        drop(holder.stdin.take());
        holder.wait()?;
        made
    }

    fn map(self, holder: &mut std::process::Child) -> io::Result<OwnedFd> {
        let mut said = [0];
        holder.stdout.take().map_or(Ok(()), |mut stdout| stdout.read_exact(&mut said))?;
        let of_holder = Path::new("/proc").join(holder.id().to_string());
        let map = format!("0 {} {}\n", self.first, self.count);
        for file in ["uid_map", "gid_map"] {
            // One write: the kernel takes no second.
            File::options().write(true).open(of_holder.join(file))?.write_all(map.as_bytes())?;
        }
        Ok(File::open(of_holder.join("ns/user"))?.into())
    }

    /// Owner and group that are root in the namespace.
    pub(crate) fn root(self) -> (Uid, Gid) {
        (Uid::from_raw(self.first), Gid::from_raw(self.first))
    }
}

/// Runs the stage if the arguments (with the program's own name first) ask for it.
///
/// For the first lines of `main`: the process must have one thread only.
pub fn run_if_stage(args: &[OsString]) -> Option<i32> {
    (args.get(1)?.to_str()? == STAGE_HOLD).then(|| i32::from(hold().is_err()))
}

#[expect(unsafe_code, reason = "unshare")]
fn hold() -> io::Result<()> {
    // SAFETY: no file descriptor tables are unshared, which is the only thing that can go wrong.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }?;
    let mut stdout = io::stdout();
    stdout.write_all(b"\n").and_then(|()| stdout.flush())?;
    io::stdin().read_to_end(&mut Vec::new()).map(drop)
}

/// Moves this process into a user namespace, as its root. It has no rights on the host afterwards.
pub(crate) fn join(namespace: BorrowedFd<'_>) -> io::Result<()> {
    enter(|| Ok(move_into_link_name_space(namespace, Some(LinkNameSpaceType::User))?))
}

/// Lets `enter` move this process into a user namespace, and makes it root of that. What is in its memory stays out of reach
/// of programs that are in the namespace already.
pub(crate) fn enter(enter: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let (parent, signal) = (getppid(), parent_process_death_signal()?);
    // Before: programs inside may trace a process of their namespace that can be dumped.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    enter()?;
    set_thread_groups(&[])?;
    set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT)?;
    set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT)?;
    // Whoever enters one has all capabilities there, also those that were given up before.
    capabilities::limit()?;
    // The kernel takes it away from a process whose user changes.
    set_parent_process_death_signal(signal)?;
    let is_orphan = signal.is_some() && getppid() != parent;
    if is_orphan { Err(rustix::io::Errno::SRCH.into()) } else { Ok(()) }
}

/// Whether a process, by its directory in `/proc`, has another user namespace than we.
pub(crate) fn is_another(process: &Path) -> io::Result<bool> {
    let number = |process: &Path| fs::metadata(process.join("ns/user")).map(|namespace| namespace.ino());
    Ok(number(process)? != number(Path::new("/proc/self"))?)
}
