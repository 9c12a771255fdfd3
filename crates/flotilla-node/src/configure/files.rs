//! The files of a node. They are written whole, by a rename, and read by everybody, whatever our umask is.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use flotilla_node_api::NodeConfig;

use super::ConfigureError;
use crate::root::Root;

/// The files that have to be right while the node runs, and are not.
pub(super) fn differing<'a>(root: &Root, config: &'a NodeConfig) -> Result<Vec<&'a str>, ConfigureError> {
    let mut differing = Vec::new();
    for (path, file) in config.files.iter().filter(|(_, file)| file.always) {
        if read(root, Path::new(path))?.as_deref() != Some(file.text.as_bytes()) {
            differing.push(path.as_str());
        }
    }
    Ok(differing)
}

/// What is in a file; none if there is none.
pub(super) fn read(root: &Root, path: &Path) -> Result<Option<Vec<u8>>, ConfigureError> {
    let path = root.at(path);
    match fs::read(&path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ConfigureError::File { action: "read", path, source }),
    }
}

/// Writes a file, and makes the directories above it. It is not synced to the disk, which would take long at boot: each boot
/// writes it again.
pub(super) fn write(root: &Root, path: &Path, text: &str) -> Result<(), ConfigureError> {
    if is_written(&root.at(path), text) {
        return Ok(());
    }
    let (path, top) = (root.at(path), root.at("/".as_ref()));
    let above: Vec<_> = path.ancestors().skip(1).take_while(|directory| *directory != top).collect();
    let written = above.into_iter().rev().try_for_each(make_directory).and_then(|()| write_at(&path, text));
    written.map_err(|source| ConfigureError::File { action: "write", path, source })
}

/// Whether a file is as it should be already: then a node with a full disk can boot.
fn is_written(path: &Path, text: &str) -> bool {
    let is_plain = |file: fs::Metadata| file.is_file() && file.permissions().mode() & 0o777 == 0o644;
    fs::symlink_metadata(path).is_ok_and(is_plain)
        && fs::read(path).is_ok_and(|bytes| bytes == text.as_bytes())
}

fn write_at(path: &Path, text: &str) -> io::Result<()> {
    let unfinished = unfinished(path);
    // What a power cut left.
    remove_at(&unfinished)?;
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&unfinished)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(Permissions::from_mode(0o644))?;
    fs::rename(&unfinished, path)
}

/// Removes a file, if it exists.
pub(super) fn remove(root: &Root, path: &Path) -> Result<(), ConfigureError> {
    let path = root.at(path);
    remove_at(&path).map_err(|source| ConfigureError::File { action: "remove", path, source })
}

fn remove_at(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Programs that are not root have to pass it, also where an older flotilla has made it for itself alone.
fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(path)?;
    if fs::metadata(path)?.permissions().mode() & 0o055 == 0o055 {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(0o755))
}

fn unfinished(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".unfinished-");
    name.push(path.file_name().unwrap_or_default());
    path.with_file_name(name)
}
