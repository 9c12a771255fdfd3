//! Trees of directories that somebody else has filled: walked to the end however deep they are, and removed whatever is in them.
//!
//! One directory is open at a time, and every step is by name in that directory: no path gets too long, no stack too deep, no
//! symbolic link is followed, and no other file system is entered. Whoever renames directories meanwhile gets an error.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, IFlags, Mode, OFlags, ResolveFlags, fstat, ioctl_getflags, ioctl_setflags,
    openat, openat2, statat, unlinkat,
};
use rustix::io::Errno;

/// What is done on a walk, which goes from the top down and comes back up.
pub(crate) trait Visit {
    /// At a directory, before everything in it.
    fn enter(&mut self, _directory: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }

    /// At everything in it that is no directory.
    fn file(&mut self, _directory: BorrowedFd<'_>, _name: &CStr) -> io::Result<()> {
        Ok(())
    }

    /// At a directory, called `name` in `parent`, after everything in it.
    fn leave(&mut self, _parent: BorrowedFd<'_>, _name: &CStr) -> io::Result<()> {
        Ok(())
    }
}

/// A directory on the way from the top to where the walk is.
struct Level {
    name: CString,
    /// Device and number of the directory that it is in.
    parent: (u64, u64),
    /// The directories in it that are still to be visited.
    left: Vec<CString>,
}

/// Walks a directory and everything below it. One that does not exist is a success; one that something is mounted at is an
/// error.
pub(crate) fn walk(top: &Path, visit: &mut dyn Visit) -> io::Result<()> {
    walk_from(top, HERE, visit)
}

/// The same for a directory that something may be mounted at.
pub(crate) fn walk_mount(top: &Path, visit: &mut dyn Visit) -> io::Result<()> {
    walk_from(top, INSIDE, visit)
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);
/// Only what is in this directory.
const INSIDE: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);
/// Only what is on the same file system as well.
const HERE: ResolveFlags = INSIDE.union(ResolveFlags::NO_XDEV);

fn walk_from(top: &Path, resolve: ResolveFlags, visit: &mut dyn Visit) -> io::Result<()> {
    let (Some(parent), Some(name)) = (top.parent(), top.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let parent = match openat(CWD, parent, DIRECTORY & !OFlags::NOFOLLOW, Mode::empty()) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
        parent => parent?,
    };
    let name = CString::new(name.as_encoded_bytes())?;
    let Some((mut here, top)) = descend(parent.as_fd(), name, resolve, visit)? else { return Ok(()) };
    let mut way = vec![top];
    while let Some(level) = way.last_mut() {
        if let Some(name) = level.left.pop() {
            // What is gone need not be visited.
            if let Some((directory, next)) = descend(here.as_fd(), name, HERE, visit)? {
                here = directory;
                way.push(next);
            }
            continue;
        }
        let Some(level) = way.pop() else { break };
        let above = if way.is_empty() {
            parent.try_clone()?
        } else {
            openat(&here, c"..", DIRECTORY, Mode::empty())?
        };
        if identity(above.as_fd())? != level.parent {
            return Err(io::Error::other("a directory was moved while it was read"));
        }
        here = above;
        visit.leave(here.as_fd(), &level.name)?;
    }
    Ok(())
}

/// Opens a directory and visits the files in it; none if it is gone.
fn descend(
    parent: BorrowedFd<'_>,
    name: CString,
    resolve: ResolveFlags,
    visit: &mut dyn Visit,
) -> io::Result<Option<(OwnedFd, Level)>> {
    let directory = match openat2(parent, &name, DIRECTORY, Mode::empty(), resolve) {
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::XDEV) => {
            return Err(io::Error::other(format!("something is mounted at {}", name.to_string_lossy())));
        }
        directory => directory?,
    };
    visit.enter(directory.as_fd())?;
    let mut left = Vec::new();
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        match kind(directory.as_fd(), name, entry.file_type())? {
            None => {}
            Some(FileType::Directory) => left.push(name.to_owned()),
            Some(_) => visit.file(directory.as_fd(), name)?,
        }
    }
    Ok(Some((directory, Level { name, parent: identity(parent)?, left })))
}

/// What something is; none if it is gone. Not every file system says so in its lists.
fn kind(directory: BorrowedFd<'_>, name: &CStr, listed: FileType) -> io::Result<Option<FileType>> {
    if listed != FileType::Unknown {
        return Ok(Some(listed));
    }
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(None),
        found => Ok(Some(FileType::from_raw_mode(found?.st_mode))),
    }
}

fn identity(directory: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    let stat = fstat(directory)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// Removes a directory with everything in it, also what is marked as immutable or append-only. What does not exist is a success;
/// a symbolic link or a file is removed itself.
pub fn remove(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(())
        }
        Ok(found) if !found.is_dir() => std::fs::remove_file(path),
        _ => walk(path, &mut Removal),
    }
}

struct Removal;

impl Visit for Removal {
    fn file(&mut self, directory: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
        let remove = || gone(unlinkat(directory, name, AtFlags::empty()));
        match remove() {
            Err(Errno::PERM) => {
                unprotect(directory);
                // Only what opens without side effects. Others cannot be protected.
                let is_plain = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
                    .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
                let flags =
                    OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
                if is_plain && let Ok(file) = openat2(directory, name, flags, Mode::empty(), HERE) {
                    unprotect(file.as_fd());
                }
                Ok(remove()?)
            }
            removed => Ok(removed?),
        }
    }

    fn leave(&mut self, parent: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
        let remove = || gone(unlinkat(parent, name, AtFlags::REMOVEDIR));
        match remove() {
            Err(Errno::PERM) => {
                unprotect(parent);
                unprotect(openat2(parent, name, DIRECTORY, Mode::empty(), HERE)?.as_fd());
                Ok(remove()?)
            }
            removed => Ok(removed?),
        }
    }
}

/// Takes away the marks that keep root from changing a file or directory. A file system without such marks has none.
fn unprotect(file: BorrowedFd<'_>) {
    if let Ok(flags) = ioctl_getflags(file) {
        let _ = ioctl_setflags(file, flags - (IFlags::IMMUTABLE | IFlags::APPEND));
    }
}

fn gone(removed: rustix::io::Result<()>) -> rustix::io::Result<()> {
    match removed {
        Err(Errno::NOENT) => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::{mkdirat, mknodat};

    use super::*;

    /// More than a stack or a path holds.
    const DEEP: usize = 30_000;

    #[test]
    fn a_tree_is_removed_however_deep_it_is() {
        // In memory if possible: on a busy disk each directory takes milliseconds.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let top = dir.path().join("top");
        fs::create_dir(&top).unwrap();
        let mut here = openat(CWD, &top, DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..DEEP {
            mkdirat(&here, c"d", Mode::RWXU).unwrap();
            mknodat(&here, c"pipe", FileType::Fifo, Mode::RUSR, 0).unwrap();
            here = openat(&here, c"d", DIRECTORY, Mode::empty()).unwrap();
        }
        drop(here);
        // As in a thread that commands use.
        let small = std::thread::Builder::new().stack_size(256 << 10);
        small.spawn(move || remove(&top)).unwrap().join().unwrap().unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        remove(&dir.path().join("top")).unwrap();
        remove(&dir.path().join("none/top")).unwrap();
    }

    #[test]
    fn links_are_removed_and_not_followed() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("file"), "host").unwrap();
        let top = dir.path().join("top");
        fs::create_dir_all(top.join("below")).unwrap();
        symlink(outside.path(), top.join("link")).unwrap();
        symlink(outside.path(), top.join("below/link")).unwrap();
        symlink(outside.path(), dir.path().join("itself")).unwrap();
        remove(&top).unwrap();
        remove(&dir.path().join("itself")).unwrap();
        assert!(!top.exists() && fs::symlink_metadata(dir.path().join("itself")).is_err());
        assert_eq!(fs::read(outside.path().join("file")).unwrap(), b"host");
    }

    #[test]
    fn what_is_immutable_or_append_only_is_removed() {
        if !flotilla_testkit::is_root() {
            return flotilla_testkit::skip("only root protects files");
        }
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        fs::create_dir_all(top.join("folder/empty")).unwrap();
        for name in ["plain", "folder/plain", "folder/other"] {
            fs::write(top.join(name), "").unwrap();
        }
        for (name, flags) in [
            ("plain", IFlags::IMMUTABLE),
            ("folder/other", IFlags::APPEND),
            ("folder/empty", IFlags::IMMUTABLE),
            ("folder", IFlags::IMMUTABLE),
            ("", IFlags::APPEND),
        ] {
            let file = fs::File::open(top.join(name)).unwrap();
            if ioctl_setflags(&file, ioctl_getflags(&file).unwrap_or(IFlags::empty()) | flags).is_err() {
                return flotilla_testkit::does_not_apply("this file system has no such marks");
            }
        }
        assert!(fs::remove_dir_all(&top).is_err());
        remove(&top).unwrap();
        assert!(!top.exists());
    }
}
