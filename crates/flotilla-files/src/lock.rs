//! One process at a time, and the others know whom they wait for.
//!
//! The lock is the kernel's (flock(2)): it ends with its holder, however that dies, so there are no stale locks.
//! The file's content only tells who holds it. Its holder may delete it, with the directory it is in: who then gets
//! the lock on a file that has no name any more notices, and tries again with the one that has it now.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::directory::make_directory;

/// How often a waiting process looks again. A blocking lock could not be cancelled.
const POLL: Duration = Duration::from_millis(100);

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    pub pid: u32,
    /// What it does, as the user who waits should read it: `flotilla bundle build`.
    pub what: String,
    /// Since when, RFC 3339.
    pub since: String,
}

/// A held lock, given back on drop.
#[derive(Debug)]
pub struct FileLock {
    file: File,
}

/// A lock could not be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("cannot open the lock file {}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("cannot lock {}", path.display())]
    Lock { path: PathBuf, source: io::Error },
    #[error("cancelled while waiting for {}", path.display())]
    Cancelled { path: PathBuf },
}

impl FileLock {
    /// Takes the lock, waiting for it as long as it takes.
    ///
    /// Makes the directory if need be. If somebody has the lock, `on_wait` is called once, with who that is if it can
    /// be told, before the waiting begins.
    pub fn acquire(
        path: &Path,
        holder: &Holder,
        on_wait: impl FnOnce(Option<Holder>),
    ) -> Result<Self, LockError> {
        Self::acquire_unless(path, holder, || false, on_wait)
    }

    /// Takes the lock like [`FileLock::acquire`], but stops waiting when `is_cancelled` says so.
    pub fn acquire_unless(
        path: &Path,
        holder: &Holder,
        is_cancelled: impl Fn() -> bool,
        on_wait: impl FnOnce(Option<Holder>),
    ) -> Result<Self, LockError> {
        let mut on_wait = Some(on_wait);
        loop {
            let who = match Self::try_acquire(path, holder)? {
                Ok(lock) => return Ok(lock),
                Err(who) => who,
            };
            if is_cancelled() {
                return Err(LockError::Cancelled { path: path.to_owned() });
            }
            if let Some(on_wait) = on_wait.take() {
                on_wait(who);
            }
            pause();
        }
    }

    /// Takes the lock if nobody has it; else tells who does, if that can be told.
    pub fn try_acquire(path: &Path, holder: &Holder) -> Result<Result<Self, Option<Holder>>, LockError> {
        let failed = |source| LockError::Lock { path: path.to_owned(), source };
        loop {
            if let Some(folder) = path.parent() {
                make_directory(folder).map_err(|source| LockError::Open { path: path.to_owned(), source })?;
            }
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
            let mut file = match file {
                // The holder deleted the directory just now.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                file => file.map_err(|source| LockError::Open { path: path.to_owned(), source })?,
            };
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(Err(read_holder(&mut file))),
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
            let ours = file.metadata().map_err(failed)?;
            if !fs::metadata(path).is_ok_and(|named| named.ino() == ours.ino() && named.dev() == ours.dev()) {
                continue;
            }
            write_holder(&mut file, holder).map_err(failed)?;
            return Ok(Ok(Self { file }));
        }
    }
}

/// Waits before looking again.
#[expect(clippy::disallowed_methods, reason = "no event says that another process gave back a lock")]
fn pause() {
    std::thread::sleep(POLL);
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // So that nobody reads our name in the moment before the next holder writes its own.
        drop(self.file.set_len(0));
        // Unlocked explicitly: a child that another thread is starting may have a copy of the open file, and closing
        // ours would then keep the lock.
        drop(self.file.unlock());
    }
}

/// The holder as written in the file; none while it is being written.
fn read_holder(file: &mut File) -> Option<Holder> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn write_holder(file: &mut File, holder: &Holder) -> io::Result<()> {
    let mut text = serde_json::to_vec(holder)?;
    text.push(b'\n');
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(&text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    fn holder(what: &str) -> Holder {
        Holder { pid: 7, what: what.to_owned(), since: "2026-11-05T10:00:00Z".to_owned() }
    }

    fn nobody_waits(_: Option<Holder>) {
        panic!("the lock is free");
    }

    #[test]
    fn waiting_tells_the_holder_and_ends_with_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = FileLock::acquire(&path, &holder("first"), nobody_waits).unwrap();
        let (sender, told) = mpsc::channel();
        let second = thread::spawn({
            let path = path.clone();
            move || FileLock::acquire(&path, &holder("second"), |who| sender.send(who).unwrap())
        });
        assert_eq!(told.recv().unwrap(), Some(holder("first")));
        assert!(!second.is_finished());
        drop(first);
        let second = second.join().unwrap().unwrap();
        let mut content = File::open(&path).unwrap();
        assert_eq!(read_holder(&mut content), Some(holder("second")));
        drop(second);
        assert_eq!(read_holder(&mut content), None);
        assert!(path.exists());
    }

    #[test]
    fn a_lock_that_was_given_back_is_free_though_a_child_has_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = FileLock::acquire(&path, &holder("first"), nobody_waits).unwrap();
        let _inherited = first.file.try_clone().unwrap();
        drop(first);
        FileLock::acquire(&path, &holder("second"), nobody_waits).unwrap();
    }

    #[test]
    fn a_longer_name_before_leaves_no_trace() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        std::fs::write(&path, "x".repeat(1000)).unwrap();
        let _lock = FileLock::acquire(&path, &holder("next"), nobody_waits).unwrap();
        assert_eq!(read_holder(&mut File::open(&path).unwrap()), Some(holder("next")));
    }

    #[test]
    fn waiting_can_be_cancelled() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let _first = FileLock::acquire(&path, &holder("first"), nobody_waits).unwrap();
        let waits = std::cell::Cell::new(false);
        let error = FileLock::acquire_unless(&path, &holder("second"), || waits.get(), |_| waits.set(true));
        let error = error.unwrap_err();
        assert!(matches!(error, LockError::Cancelled { .. }), "{error}");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_an_error_that_names_the_lock() {
        let path = Path::new("/proc/not/there/lock");
        let error = FileLock::acquire(path, &holder("x"), nobody_waits).unwrap_err();
        assert_eq!(error.to_string(), "cannot open the lock file /proc/not/there/lock");
    }

    #[test]
    fn a_lock_that_is_taken_is_refused_with_its_holder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let _first = FileLock::acquire(&path, &holder("first"), nobody_waits).unwrap();
        let refused = FileLock::try_acquire(&path, &holder("second")).unwrap();
        assert_eq!(refused.unwrap_err(), Some(holder("first")));
    }

    #[test]
    fn a_lock_deleted_with_its_folder_locks_nobody_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cluster/lock");
        let first = FileLock::acquire(&path, &holder("first"), nobody_waits).unwrap();
        let (sender, told) = mpsc::channel();
        let second = thread::spawn({
            let path = path.clone();
            move || FileLock::acquire(&path, &holder("second"), |who| sender.send(who).unwrap())
        });
        told.recv().unwrap();
        std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
        drop(first);
        let _second = second.join().unwrap().unwrap();
        assert!(FileLock::try_acquire(&path, &holder("third")).unwrap().is_err());
    }
}
