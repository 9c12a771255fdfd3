//! Tells when files come into a directory.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use crate::error::NodeError;

/// Whole files only: one that is being written would be read half-way.
const ARRIVALS: WatchFlags = WatchFlags::CLOSE_WRITE.union(WatchFlags::MOVED_TO).union(WatchFlags::ONLYDIR);

/// Directories under watch.
#[derive(Debug)]
pub(crate) struct Watch {
    inotify: OwnedFd,
    folders: Vec<PathBuf>,
}

impl Watch {
    /// Watches the directories, which are made if they do not exist.
    pub(crate) fn new(folders: Vec<PathBuf>) -> Result<Self, NodeError> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).map_err(|errno| {
            NodeError::Watch { path: folders.first().cloned().unwrap_or_default(), source: errno.into() }
        })?;
        let watch = Self { inotify, folders };
        watch.cover()?;
        Ok(watch)
    }

    /// Whether anything has happened since the last call. Which file it was does not matter: who asks looks at all.
    pub(crate) fn changed(&self) -> Result<bool, NodeError> {
        let mut events = [0; 4096];
        let mut changed = false;
        while rustix::io::read(&self.inotify, &mut events).is_ok_and(|read| read > 0) {
            changed = true;
        }
        if changed {
            // A directory that was removed has lost its watch, and told us so. To watch twice is no harm.
            self.cover()?;
        }
        Ok(changed)
    }

    fn cover(&self) -> Result<(), NodeError> {
        for folder in &self.folders {
            fs::create_dir_all(folder)
                .map_err(|source| NodeError::Folder { path: folder.clone(), source })?;
            inotify::add_watch(&self.inotify, folder, ARRIVALS)
                .map_err(|errno| NodeError::Watch { path: folder.clone(), source: errno.into() })?;
        }
        Ok(())
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_arrive_are_told_even_after_the_folder_was_removed() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a/b");
        let watch = Watch::new(vec![folder.clone()]).unwrap();
        assert!(!watch.changed().unwrap());
        fs::write(folder.join("file"), "x").unwrap();
        assert!(watch.changed().unwrap());
        assert!(!watch.changed().unwrap());

        fs::remove_dir_all(&folder).unwrap();
        assert!(watch.changed().unwrap());
        fs::write(dir.path().join("new"), "x").unwrap();
        fs::rename(dir.path().join("new"), folder.join("new")).unwrap();
        assert!(watch.changed().unwrap());
    }
}
