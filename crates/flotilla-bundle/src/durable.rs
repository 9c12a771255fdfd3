//! What makes a finished thing appear at once or not at all, also through a power cut.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use crate::error::{At, Result};

/// Waits until everything written to the file system that holds `path` is on disk: one call for thousands of files.
pub(crate) fn sync_file_system(path: &Path) -> Result<()> {
    let folder = File::open(path).at("open", path)?;
    rustix::fs::syncfs(&folder).map_err(io::Error::from).at("sync", path)
}

/// Writes a file that is either the old or the new one, never a part of it. Until then it is in `workshop`, a folder
/// on the same file system, under a name that begins with `prefix`.
pub(crate) fn write(path: &Path, bytes: &[u8], workshop: &Path, prefix: &str) -> Result<()> {
    let mut file = tempfile::Builder::new().prefix(prefix).tempfile_in(workshop).at("write", path)?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).at("write", path)?;
    file.persist(path).map_err(|error| error.error).at("write", path)?;
    Ok(())
}

/// Removes the folders and files in `folder` whose names begin with `prefix`: what a killed run left.
pub(crate) fn remove_leftovers(folder: &Path, prefix: &str) -> Result<()> {
    let items = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        items => items.at("read", folder)?,
    };
    for item in items {
        let item = item.at("read", folder)?;
        if item.file_name().to_string_lossy().starts_with(prefix) {
            let path = item.path();
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.at("remove", &path)?;
        }
    }
    Ok(())
}
