//! Writes a kubeconfig atomically, and keeps its owner.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown, fchown};
use std::path::{Path, PathBuf};

use flotilla_files::{AtomicFile, directory_of};

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
    let path = follow(path)?;
    make_directory_of(&path, owner)?;
    let file = AtomicFile::within(directory_of(&path), ".kubeconfig-", &path)?;
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
    owner.map_or(Ok(()), |(user, group)| chown(directory, Some(user), Some(group)))
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
