//! One run of the tests on a machine at a time: they share its kernel, and its two cores.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::program::{Interruption, pause};

/// A directory in which every user may lock a file.
const PATH: &str = "/var/lock/flotilla-tests";
/// Names another file, for tests of the tests.
const NAMED: &str = "FLOTILLA_TEST_LOCK";

/// Waits until no other run holds the lock. It is free when the file is dropped, also if the process is killed. Nothing if the wait
/// was interrupted.
pub(crate) fn take(interruption: &Interruption, waiting: impl FnOnce(&str)) -> io::Result<Option<File>> {
    let named = crate::run::variable(NAMED);
    at(named.as_deref().map_or(Path::new(PATH), Path::new), interruption, waiting)
}

fn at(path: &Path, interruption: &Interruption, waiting: impl FnOnce(&str)) -> io::Result<Option<File>> {
    let mut file = open(path)?;
    let mut waiting = Some(waiting);
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) => {}
        }
        if interruption.came() {
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

/// Not created if it exists: in a directory like /tmp the kernel refuses that even root creates another user's file.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    let file = options.create(true).mode(0o666).open(path)?;
    // Whatever our umask is.
    file.set_permissions(PermissionsExt::from_mode(0o666))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_waits_and_knows_for_whom() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = at(&path, &Interruption::default(), |_| panic!("it is free")).unwrap().unwrap();
        let mut held = Some(first);
        let mut holder = String::new();
        let second = at(&path, &Interruption::default(), |who| {
            holder = who.to_owned();
            held = None;
        });
        assert!(second.unwrap().is_some());
        assert!(holder.starts_with(&format!("process {} in /", std::process::id())), "{holder}");
    }
}
