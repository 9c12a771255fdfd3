//! An archive that is being written, next to its final name. Each run has its own, so that two exports do not collide.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;

use flotilla_files::{AtomicFile, directory_of};

use crate::error::{At, Result};

/// Around the name of the file and random letters: no file of the user is called like this.
const PREFIX: &str = ".flotilla-export-";
const SUFFIX: &str = ".part";
/// Random letters.
const LETTERS: usize = 6;

/// Locked as long as it lives. Gone afterwards, unless it was finished.
pub(super) struct Unfinished(AtomicFile);

impl Unfinished {
    /// Makes it, and removes what killed runs left of the same file.
    pub(super) fn beside(file: &Path) -> Result<Self> {
        let directory = directory_of(file);
        let mut prefix = OsString::from(PREFIX);
        prefix.push(file.file_name().unwrap_or_default());
        prefix.push(".");
        remove_abandoned(directory, &prefix.to_string_lossy());
        loop {
            let mut builder = tempfile::Builder::new();
            builder.prefix(&prefix).suffix(SUFFIX).rand_bytes(LETTERS);
            // As readable as any other file that a user makes.
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
            let unfinished = builder.tempfile_in(directory).at("write", file)?;
            unfinished.as_file().lock().at("lock", file)?;
            // Before it was locked, another run may have taken it for one that was left.
            if unfinished.path().exists() {
                return Ok(Self(AtomicFile::new(unfinished, file)));
            }
        }
    }

    pub(super) fn file(&self) -> &File {
        self.0.file()
    }

    /// Syncs it and gives it its final name.
    pub(super) fn finish(self, file: &Path) -> Result<()> {
        self.0.finish().at("write", file)
    }
}

/// A file that is not locked is not being written.
fn remove_abandoned(directory: &Path, prefix: &str) {
    let Ok(items) = fs::read_dir(directory) else { return };
    for item in items.flatten().filter(|item| item.file_type().is_ok_and(|kind| kind.is_file())) {
        let name = item.file_name().to_string_lossy().into_owned();
        let letters =
            name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(SUFFIX)).unwrap_or_default();
        let is_ours = letters.len() == LETTERS && letters.chars().all(|c| c.is_ascii_alphanumeric());
        if is_ours && File::open(item.path()).is_ok_and(|file| file.try_lock().is_ok()) {
            // Whatever stays does no harm.
            let _ = fs::remove_file(item.path());
        }
    }
}
