//! Keeping a bundle while nodes are made from it: until a node's directory names it, nothing else says that it is used.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

use super::BundleStore;
use crate::error::{At, BundleError, Result};

/// A bundle that nobody removes while this lives.
#[derive(Debug)]
pub struct Hold {
    _directory: File,
}

impl BundleStore {
    /// Keeps a bundle from being removed. It is an error if that has happened already.
    pub fn hold(&self, digest: &str) -> Result<Hold> {
        let path = self.bundles().join(digest);
        let gone = || BundleError::NotFound { which: digest.to_owned() };
        let directory = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(gone()),
            directory => directory.at("open", &path)?,
        };
        directory.lock_shared().at("lock", &path)?;
        // While we waited for the lock, its holder may have removed the bundle.
        if path.exists() { Ok(Hold { _directory: directory }) } else { Err(gone()) }
    }
}

/// The right to remove a bundle; none while somebody holds it.
pub(super) fn alone(path: &Path) -> Result<Option<File>> {
    let directory = File::open(path).at("open", path)?;
    match directory.try_lock() {
        Ok(()) => Ok(Some(directory)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error).at("lock", path),
    }
}
