//! kubectl's lock on a kubeconfig: a file beside it that only one can make.
//!
//! Not [`flotilla_files`] alone: kubectl would not respect it. The price is that the lock of a killed program
//! stays behind. kubectl then fails for ever. We take such a lock over: our own at once, since the kernel knows whether
//! its maker lives, that of another program after a while.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flotilla_linux::poll;

use super::KubeconfigError;
use flotilla_files::directory_of;

/// Nobody takes that long to change a kubeconfig.
const STALE_AFTER: Duration = Duration::from_mins(1);

/// What is in a lock of ours, from when the kernel's lock on it is held.
const OURS: &[u8] = b"flotilla\n";

/// A held lock, given back on drop.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    /// Kept open so that its inode number stays ours, and the kernel's lock on it as well.
    file: File,
}

impl Lock {
    /// Takes the lock of a kubeconfig, waiting for it as long as `patience`. The directory must be there.
    pub(super) fn acquire(kubeconfig: &Path, patience: Duration) -> Result<Self, KubeconfigError> {
        let mut path = OsString::from(kubeconfig);
        path.push(".lock");
        let path = PathBuf::from(path);
        let try_once = || {
            remove_if_stale(&path)?;
            let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
            file.lock()?;
            file.write_all(OURS)?;
            Ok::<_, io::Error>(file)
        };
        let made = poll::until(patience, try_once, |error| error.kind() != io::ErrorKind::AlreadyExists);
        match made {
            Ok(file) => Ok(Self { path, file }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(KubeconfigError::Busy { lock: path })
            }
            Err(source) => Err(KubeconfigError::Lock { lock: path, source }),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // If we were so slow that somebody took the lock over, the file is no longer ours to remove.
        let inode = |metadata: io::Result<fs::Metadata>| metadata.map(|metadata| metadata.ino()).ok();
        if inode(self.file.metadata()) == inode(fs::symlink_metadata(&self.path)) {
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Removes the lock of a program that is gone.
fn remove_if_stale(lock: &Path) -> io::Result<()> {
    if !is_stale(lock) {
        return Ok(());
    }
    // Of two that find the same stale lock, the second could remove the new lock of the first. So one looks again
    // and removes at a time: on the directory, because kubectl makes its lock with no right to open it.
    let directory = File::open(directory_of(lock))?;
    directory.lock()?;
    if !is_stale(lock) {
        return Ok(());
    }
    match fs::remove_file(lock) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn is_stale(lock: &Path) -> bool {
    is_old(lock) || is_abandoned(lock).unwrap_or(false)
}

/// Whether it is a lock of ours whose maker has ended without giving it back.
fn is_abandoned(lock: &Path) -> io::Result<bool> {
    // It may be anything by now: nothing that blocks is opened, and no more is read than there should be.
    if !fs::symlink_metadata(lock)?.is_file() || fs::metadata(lock)?.len() != OURS.len() as u64 {
        return Ok(false);
    }
    let file = File::open(lock)?;
    Ok(io::read_to_string(&file)?.as_bytes() == OURS && file.try_lock().is_ok())
}

fn is_old(lock: &Path) -> bool {
    let modified = fs::symlink_metadata(lock).and_then(|metadata| metadata.modified());
    // A time in the future is no age: then it counts as young.
    modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age > STALE_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    fn age(lock: &Path, age: Duration) {
        let file = File::create(lock).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
    }

    #[test]
    fn a_held_lock_is_waited_for_and_then_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        let held = Lock::acquire(&path, Duration::ZERO).unwrap();
        let error = Lock::acquire(&path, Duration::from_millis(60)).unwrap_err();
        let text = error.to_string();
        assert!(text.ends_with(&format!("remove {}.lock", path.display())), "{text}");
        drop(held);
        Lock::acquire(&path, Duration::ZERO).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_stale_lock_is_taken_over_and_a_young_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        let lock = dir.path().join("config.lock");
        age(&lock, Duration::from_secs(50));
        Lock::acquire(&path, Duration::ZERO).unwrap_err();
        age(&lock, Duration::from_secs(70));
        drop(Lock::acquire(&path, Duration::ZERO).unwrap());
        assert!(!lock.exists());
    }

    #[test]
    fn a_lock_of_ours_whose_maker_was_killed_is_taken_over_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        fs::write(dir.path().join("config.lock"), OURS).unwrap();
        let held = Lock::acquire(&path, Duration::ZERO).unwrap();
        // Not so the lock of one that lives.
        Lock::acquire(&path, Duration::ZERO).unwrap_err();
        drop(held);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_lock_that_was_taken_over_is_left_to_its_new_holder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        let slow = Lock::acquire(&path, Duration::ZERO).unwrap();
        fs::remove_file(dir.path().join("config.lock")).unwrap();
        let next = Lock::acquire(&path, Duration::ZERO).unwrap();
        drop(slow);
        assert!(dir.path().join("config.lock").exists());
        drop(next);
        assert!(!dir.path().join("config.lock").exists());
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error_at_once() {
        let error = Lock::acquire(Path::new("/not/there/config"), Duration::from_mins(1)).unwrap_err();
        assert_eq!(error.to_string(), "cannot create the lock file /not/there/config.lock");
    }
}
