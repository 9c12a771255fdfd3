//! Writes a kubeconfig atomically, and keeps its owner.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown, fchown};
use std::path::{Path, PathBuf};

use flotilla_files::{AtomicFile, directory_of};

/// The kernel gives up after as many links (`path_resolution(7)`).
const MAX_LINKS: usize = 40;

/// A user and a group.
type Owner = (u32, u32);

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
