//! Keeping a bundle while nodes are made from it: until their cluster is saved, nothing else says that it is used.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

use super::BundleStore;
use crate::error::{At, BundleError, Result};

/// A bundle that is not removed while this exists.
#[derive(Debug)]
pub struct Hold(File);

impl Drop for Hold {
    fn drop(&mut self) {
        // Unlocked explicitly: a child that another thread is starting may have a copy of the open file, and closing ours
        // would then keep the lock.
        drop(self.0.unlock());
    }
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
        if path.exists() { Ok(Hold(directory)) } else { Err(gone()) }
    }
}

/// Holds a bundle to remove it; none while somebody else holds it.
pub(super) fn alone(path: &Path) -> Result<Option<Hold>> {
    let directory = File::open(path).at("open", path)?;
    match directory.try_lock() {
        Ok(()) => Ok(Some(Hold(directory))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error).at("lock", path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_bundle_that_nobody_holds_can_be_removed_though_a_child_has_its_directory() {
        let home = fixture::directory();
        let store = fixture::bundle_store(home.path());
        let bundle = fixture::put_bundle(&store, "v1.37.1", "");
        let hold = store.hold(&bundle.manifest.digest).unwrap();
        let _inherited = hold.0.try_clone().unwrap();
        drop(hold);
        let alone = alone(&bundle.path).unwrap().expect("nobody holds it");
        let _inherited = alone.0.try_clone().unwrap();
        drop(alone);
        assert!(super::alone(&bundle.path).unwrap().is_some());
    }
}
