//! Runs of the tests wait for each other: all on a machine share its kernel and its processors, and those in one checkout
//! also the compiled programs and the log.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::program::pause;

/// A directory in which every user may lock a file.
const MACHINE: &str = "/var/lock/flotilla-tests";
/// Names another file, for tests of the tests.
const NAMED: &str = "FLOTILLA_TEST_LOCK";

/// The file whose lock gives a run the machine.
pub(crate) fn of_machine() -> PathBuf {
    crate::run::variable(NAMED).unwrap_or_else(|| MACHINE.into()).into()
}

/// The file that is locked while tests of a run are under way, even if the run itself was killed.
pub(crate) fn of_guard() -> PathBuf {
    let mut path = of_machine().into_os_string();
    path.push(".guard");
    path.into()
}

/// Waits until no other run holds the lock, and calls `waiting` with the holder if there is one. The lock is free when the file is
/// dropped, also if the process is killed. Nothing if it gave up.
pub(crate) fn take(
    path: &Path,
    give_up: impl Fn() -> bool,
    waiting: impl FnOnce(&str),
) -> io::Result<Option<File>> {
    let mut file = open(path)?;
    let mut waiting = Some(waiting);
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) => {}
        }
        if give_up() {
            return Ok(None);
        }
        if let Some(waiting) = waiting.take() {
            let mut holder = String::new();
            file.read_to_string(&mut holder)?;
            waiting(holder.trim());
        }
        pause();
    }
    file.set_len(0)?;
    file.rewind()?;
    let here = std::env::current_dir()?;
    writeln!(file, "process {} in {}", std::process::id(), here.display())?;
    Ok(Some(file))
}

/// Not created if it exists: in a directory like /tmp the kernel refuses that even root creates another user's file. Another user may
/// have put anything there, and we write: only a plain file that has no other name.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    let file = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(&options, path)?,
        opened => opened?,
    };
    let found = file.metadata()?;
    if found.is_file() && found.nlink() == 1 {
        return Ok(file);
    }
    Err(io::Error::other(format!("{} is no plain file of its own: remove it", path.display())))
}

fn create(options: &OpenOptions, path: &Path) -> io::Result<File> {
    let file = match options.clone().create_new(true).mode(0o666).open(path) {
        // Another run created it just now.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return options.open(path),
        created => created?,
    };
    // Whatever our umask is.
    file.set_permissions(PermissionsExt::from_mode(0o666))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_second_waits_and_knows_for_whom() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = take(&path, || false, |_| panic!("it is free")).unwrap().unwrap();
        let mut held = Some(first);
        let mut holder = String::new();
        let second = take(
            &path,
            || false,
            |who| {
                holder = who.to_owned();
                held = None;
            },
        );
        assert!(second.unwrap().is_some());
        assert!(holder.starts_with(&format!("process {} in /", std::process::id())), "{holder}");
    }

    #[test]
    fn who_gives_up_has_no_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let _held = take(&path, || true, |_| panic!("it is free")).unwrap().unwrap();
        assert!(take(&path, || true, |_| ()).unwrap().is_none());
    }

    #[test]
    fn what_another_user_may_have_put_there_is_not_emptied() {
        let dir = tempfile::tempdir().unwrap();
        let precious = dir.path().join("precious");
        fs::write(&precious, "data").unwrap();
        let [symbolic, hard, folder] = ["symbolic", "hard", "folder"].map(|name| dir.path().join(name));
        symlink(&precious, &symbolic).unwrap();
        fs::hard_link(&precious, &hard).unwrap();
        fs::create_dir(&folder).unwrap();
        let dangling = dir.path().join("dangling");
        symlink(dir.path().join("new"), &dangling).unwrap();
        for path in [symbolic, hard, folder, dangling] {
            assert!(take(&path, || false, |_| ()).is_err(), "{}", path.display());
        }
        assert_eq!(fs::read_to_string(precious).unwrap(), "data");
        assert!(!dir.path().join("new").exists());
    }
}
