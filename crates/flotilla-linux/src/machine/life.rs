//! The proof that a machine runs: a lock on a file in its directory, which its PID 1 holds as long as it lives.
//!
//! Control groups say the same, but only as long as the host's mounts are what they were when the machine was started. The
//! lock is on the very disk that two machines must not share, and the kernel tells who holds it (fcntl(2), `F_GETLK`).

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk};

use super::MachineError;
use crate::poll;
use crate::process::Process;

const FILE: &str = "alive";
/// How long a predecessor that is ending may still hold the lock.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether the machine of a directory runs.
#[derive(Debug, Clone)]
pub enum Life {
    /// No.
    None,
    /// Its PID 1.
    Runs(Process),
    /// Yes, but its processes cannot be seen from here: it was started outside of our process namespace.
    Unseen,
}

/// Held by PID 1; given back when it ends.
#[derive(Debug)]
pub struct Held(#[expect(dead_code, reason = "closing it gives the lock back")] File);

/// Takes the lock of a machine's directory, for its PID 1. An error if another machine runs on it.
pub fn hold(folder: &Path) -> Result<Held, MachineError> {
    let path = folder.join(FILE);
    let opened = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path);
    let file = opened.map_err(|source| MachineError::Make { path: path.clone(), source })?;
    let take = || fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive);
    let taken = poll::until(PATIENCE, take, |errno| !is_taken(*errno));
    match taken {
        Ok(()) => Ok(Held(file)),
        Err(errno) if is_taken(errno) => Err(MachineError::Runs { folder: folder.to_owned() }),
        Err(errno) => Err(MachineError::Make { path, source: errno.into() }),
    }
}

/// Whether a machine runs on this directory, and which process is its PID 1. One that was booted before this lock existed
/// is not seen.
pub fn of(folder: &Path) -> io::Result<Life> {
    // To read only: on a disk that the kernel has made read-only machines may still run.
    let file = match File::open(folder.join(FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Life::None),
        file => file?,
    };
    loop {
        let Some(held) = holder(&file)? else { return Ok(Life::None) };
        let Some(pid) = held.pid else { return Ok(Life::Unseen) };
        let process = match Process::open(pid) {
            // It has ended meanwhile, and holds nothing.
            Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => continue,
            process => process?,
        };
        // Asked again now that it is held: its number may have been given away in between.
        if holder(&file)?.is_some_and(|held| held.pid == Some(pid)) && !process.has_ended() {
            return Ok(Life::Runs(process));
        }
    }
}

fn holder(file: &File) -> io::Result<Option<Flock>> {
    Ok(fcntl_getlk(file, &Flock::from(FlockType::WriteLock))?)
}

fn is_taken(errno: Errno) -> bool {
    matches!(errno, Errno::AGAIN | Errno::ACCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_cannot_be_written_is_still_read() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(of(folder.path()).unwrap(), Life::None));
        let path = folder.path().join(FILE);
        File::create(&path).unwrap();
        let mut read_only = std::fs::metadata(&path).unwrap().permissions();
        read_only.set_readonly(true);
        // Root may write to it in spite of that; for anybody else it is like a disk that was remounted.
        std::fs::set_permissions(&path, read_only).unwrap();
        assert!(matches!(of(folder.path()).unwrap(), Life::None));
    }
}
