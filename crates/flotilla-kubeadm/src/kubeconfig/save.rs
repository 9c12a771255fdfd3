//! Writes a kubeconfig atomically, and keeps its owner.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use flotilla_files::{AtomicFile, directory_of};
use rustix::fs::{CWD, Mode, OFlags, fstat, openat};

/// The kernel gives up after as many links (`path_resolution(7)`).
const MAX_LINKS: usize = 40;

/// A user and a group.
type Owner = (u32, u32);

/// Refuses a file that a link of the user behind sudo leads to outside of what is that user's: as root we would write
/// what the user, or a program of theirs, cannot.
pub(super) fn refuse_links_out(path: &Path, owner: Option<Owner>) -> io::Result<()> {
    if owner.is_none() {
        return Ok(());
    }
    let Led { to, by: Some((link, user)) } = lead(path)? else { return Ok(()) };
    let is_theirs = |path: &Path| fs::metadata(path).map(|found| found.uid() == user);
    let above = to.ancestors().skip(1).map(is_theirs).find_map(Result::ok);
    if is_theirs(&to).unwrap_or(false) || above == Some(true) {
        return Ok(());
    }
    let text = format!("the link {} leads to {}, which is not its owner's", link.display(), to.display());
    Err(io::Error::other(text))
}

/// Where a path leads.
struct Led {
    to: PathBuf,
    /// The last link on the way that is not root's, and its owner.
    by: Option<(PathBuf, u32)>,
}

/// Follows all links in a path, which may end at what is not there yet.
fn lead(path: &Path) -> io::Result<Led> {
    let path = std::path::absolute(path)?;
    let mut left: Vec<OsString> = path.iter().rev().map(ToOwned::to_owned).collect();
    let mut led = Led { to: PathBuf::new(), by: None };
    let mut links = 0;
    while let Some(part) = left.pop() {
        if part == ".." {
            led.to.pop();
            continue;
        }
        let here = led.to.join(&part);
        match fs::symlink_metadata(&here) {
            Ok(found) if found.is_symlink() => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(io::Error::other("too many links"));
                }
                left.extend(fs::read_link(&here)?.iter().rev().map(ToOwned::to_owned));
                if found.uid() != 0 {
                    led.by = Some((here, found.uid()));
                }
            }
            _ => led.to = here,
        }
    }
    Ok(led)
}

/// Makes the directory of a file, for its owner's eyes only, if it does not exist.
pub(super) fn make_directory_of(path: &Path, owner: Option<Owner>) -> io::Result<()> {
    make_directory(directory_of(path), owner)
}

/// Writes a file, through a link to what it points at.
///
/// A file that exists keeps its owner, and its mode but for what others may do with it: there is a key in it now. A
/// new one is for the eyes of `owner` only, or of whoever runs this.
pub(super) fn write(path: &Path, bytes: &[u8], owner: Option<Owner>) -> io::Result<()> {
    let led = follow(path)?;
    make_directory_of(&led, owner)?;
    let directory = open_directory(directory_of(&led), OFlags::empty())?;
    // The user may have put a link in the way since it was looked at: what counts is the directory that is open now.
    refuse_links_out(path, owner)?;
    if owner.is_some() && !is_at(&directory, directory_of(&lead(path)?.to))? {
        return Err(io::Error::other("its directory was replaced meanwhile"));
    }
    let opened = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    let path = opened.join(led.file_name().ok_or(io::ErrorKind::InvalidInput)?);
    let file = AtomicFile::within(&opened, ".kubeconfig-", &path)?;
    match fs::metadata(&path) {
        Ok(old) => {
            give(file.file(), Some((old.uid(), old.gid())))?;
            file.file().set_permissions(Permissions::from_mode(old.mode() & 0o700))?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => give(file.file(), owner)?,
        Err(error) => return Err(error),
    }
    file.file().write_all(bytes)?;
    file.finish()
}

fn make_directory(directory: &Path, owner: Option<Owner>) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    make_directory(directory_of(directory), owner)?;
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        made => made?,
    }
    let Some((user, group)) = owner else { return Ok(()) };
    // The new directory itself, not what its parent's owner may have put in its place.
    fchown(open_directory(directory, OFlags::NOFOLLOW)?, Some(user), Some(group))
}

fn open_directory(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::empty())?)
}

/// Whether an open directory is the one at a path.
fn is_at(directory: &OwnedFd, path: &Path) -> io::Result<bool> {
    let (open, found) = (fstat(directory)?, fs::metadata(path)?);
    Ok((open.st_dev, open.st_ino) == (found.dev(), found.ino()))
}

/// Where the links lead, also if nothing is there yet.
fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            Ok(link) => path = directory_of(&path).join(link),
            // Not a link, or not there.
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotFound) => {
                return Ok(path);
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("too many links"))
}

fn give(file: &File, owner: Option<Owner>) -> io::Result<()> {
    let now = file.metadata()?;
    match owner {
        // Also giving a file to whom it belongs can be forbidden.
        Some((user, group)) if (user, group) != (now.uid(), now.gid()) => {
            fchown(file, Some(user), Some(group))
        }
        _ => Ok(()),
    }
}
