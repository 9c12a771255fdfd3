//! Writes and removes files so that a crash or a power cut leaves no partial result.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flotilla_files::AtomicFile;
use flotilla_linux::disk;

use crate::error::{At, Result};

/// Waits until everything written to the file system that holds `path` is on disk: one call for thousands of files.
pub(crate) fn sync_file_system(path: &Path) -> Result<()> {
    let directory = File::open(path).at("open", path)?;
    rustix::fs::syncfs(&directory).map_err(io::Error::from).at("sync", path)
}

/// Replaces a file atomically. Until then it is in `workshop`, a directory on the same file system, under a name that
/// begins with `prefix`.
pub(crate) fn write(path: &Path, bytes: &[u8], workshop: &Path, prefix: &str) -> Result<()> {
    let file = AtomicFile::within(workshop, prefix, path).at("write", path)?;
    file.file().write_all(bytes).and_then(|()| file.finish()).at("write", path)
}

/// Removes the directories and files in `directory` whose names begin with `prefix`: what a killed run left.
pub(crate) fn remove_leftovers(directory: &Path, prefix: &str) -> Result<()> {
    leftovers(directory, prefix)?.iter().try_for_each(|path| remove(path).map(drop))
}

/// The bytes of what [`remove_leftovers`] would remove.
pub(crate) fn leftover_bytes(directory: &Path, prefix: &str) -> u64 {
    let leftovers = leftovers(directory, prefix).unwrap_or_default();
    leftovers.iter().filter_map(|path| disk::allocated_bytes(path).ok()).sum()
}

fn leftovers(directory: &Path, prefix: &str) -> Result<Vec<PathBuf>> {
    let mut paths = crate::bundle_store::directories(directory)?;
    paths.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)));
    Ok(paths)
}

/// Removes a file or a directory with all that is in it. Gives its bytes: none if it does not exist.
pub(crate) fn remove(path: &Path) -> Result<u64> {
    let bytes = disk::allocated_bytes(path).unwrap_or_default();
    let removed =
        if path.is_dir() && !path.is_symlink() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        removed => removed.at("remove", path).map(|()| bytes),
    }
}
