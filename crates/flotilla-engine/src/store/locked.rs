//! Reading a cluster without a lock, and the right to change it.

use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use flotilla_core::{Changed, Cluster};
use flotilla_files::{FileLock, write_whole};
use flotilla_spec::ClusterName;

use super::{BACKUP, ClusterStore, LOCK, RECOVERY, Recovery, SPEC, STATE, record};
use crate::error::EngineError;

/// A cluster as it was read without a lock: another command may be changing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peeked {
    pub cluster: Cluster,
    pub(super) revision: Revision,
}

/// What a cluster was read from. Two that are equal are of the same state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Revision {
    pub(super) state: Option<String>,
    /// Version 1 stored the spec in a separate file.
    pub(super) spec: Option<String>,
}

/// The lock of a cluster, until it is dropped. Only its holder can change what is stored of the cluster.
#[derive(Debug)]
pub struct Locked {
    store: ClusterStore,
    name: ClusterName,
    /// What is stored, if it was read or saved under this lock: nobody else changes it.
    stored: Mutex<Option<Revision>>,
    /// [`Locked::set_founded`] was called: whoever saves a cluster that was read before does not take it back.
    founded: AtomicBool,
    #[expect(dead_code, reason = "held for what its end does")]
    lock: FileLock,
}

impl Locked {
    pub(super) fn new(store: &ClusterStore, name: &ClusterName, lock: FileLock) -> Self {
        Self {
            store: store.clone(),
            name: name.clone(),
            stored: Mutex::default(),
            founded: AtomicBool::new(false),
            lock,
        }
    }

    pub fn name(&self) -> &ClusterName {
        &self.name
    }

    /// The current cluster; none if it was never saved, or was deleted meanwhile. A cluster that was peeked at is
    /// parsed again only if another command has changed it.
    pub fn refresh(&self, peeked: Option<Peeked>) -> Result<Option<Cluster>, EngineError> {
        let revision = self.store.revision(&self.name)?;
        self.set_stored(Some(revision.clone()));
        match peeked {
            Some(peeked) if peeked.revision == revision => Ok(Some(peeked.cluster)),
            _ => self.store.parse(&self.name, &revision),
        }
    }

    /// Like [`Locked::refresh`], of a cluster that must exist. If it was deleted meanwhile, nothing is left of it: not
    /// the lock either, which would look like a cluster that was never finished.
    pub fn refresh_existing(&self, peeked: Peeked) -> Result<Cluster, EngineError> {
        if let Some(cluster) = self.refresh(Some(peeked))? {
            return Ok(cluster);
        }
        self.remove()?;
        Err(EngineError::DeletedMeanwhile { name: self.name.clone() })
    }

    /// One file and one rename: a crash leaves the old or the new cluster, never a mixture.
    pub fn save(&self, cluster: &Cluster) -> Result<(), EngineError> {
        debug_assert_eq!(*cluster.name(), self.name, "a lock is for one cluster");
        let founded = cluster.allocations.founded || self.founded.load(Ordering::Relaxed);
        let mut kept = cluster.clone();
        kept.allocations.founded = founded;
        let text = record::write(&without_keys(kept, founded));
        // A state that is no text is not worth a backup: the one before it is.
        let stored = self.set_stored(None).or_else(|| self.store.revision(&self.name).ok());
        let before = stored.filter(|stored| stored.state.as_ref().is_some_and(|before| *before != text));
        if let Some(revision) = before {
            // Version 1 stored the spec in a file that is deleted now, so the backup must be complete without it.
            let known = self.store.parse(&self.name, &revision).ok().flatten();
            let before = known
                .map(|known| record::write(&without_keys(known, founded)))
                .or(revision.state)
                .unwrap_or_default();
            self.write_file(BACKUP, &before)?;
        }
        self.write_file(STATE, &text)?;
        self.remove_file(SPEC)?;
        self.set_stored(Some(Revision { state: Some(text), spec: None }));
        Ok(())
    }

    /// Saves that the cluster has run: a control plane without data has lost it from now on.
    pub fn set_founded(&self) -> Result<(), EngineError> {
        if self.founded.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let stored = stored.map_or_else(|| self.store.revision(&self.name), Ok)?;
        match self.store.parse(&self.name, &stored)? {
            Some(cluster) if !cluster.allocations.founded => self.save(&cluster),
            _ => Ok(()),
        }
    }

    pub fn save_recovery(&self, recovery: &Recovery) -> Result<(), EngineError> {
        self.write_file(RECOVERY, &record::versioned(recovery))
    }

    /// Removes a recovery that changed nothing.
    pub fn remove_recovery(&self) -> Result<(), EngineError> {
        self.remove_file(RECOVERY)
    }

    /// Removes the cluster's directory, the lock last: while it exists, no other command enters, and a waiting
    /// command finds the cluster deleted. Returns whether anything but the lock existed.
    pub fn remove(&self) -> Result<Changed, EngineError> {
        self.set_stored(None);
        self.founded.store(false, Ordering::Relaxed);
        let folder = self.store.folder(&self.name);
        let mut existed = false;
        for item in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if item.file_name() != LOCK {
                existed = true;
                let path = item.path();
                let is_folder = item.file_type().is_ok_and(|kind| kind.is_dir());
                let removed = if is_folder { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
                removed.map_err(|source| self.store.io("remove", &path, source))?;
            }
        }
        let lock = folder.join(LOCK);
        match fs::remove_file(&lock).and_then(|()| fs::remove_dir(&folder)) {
            // Another command has already created a lock here: the directory is in use again.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => drop(fs::remove_dir(&folder)),
            removed => removed.map_err(|source| self.store.io("remove", &lock, source))?,
        }
        // Only if it is empty now.
        for folder in self.store.clusters().ancestors().take(2) {
            let _ = fs::remove_dir(folder);
        }
        Ok(existed.into())
    }

    fn write_file(&self, name: &str, text: &str) -> Result<(), EngineError> {
        let path = self.store.make_folder(&self.name)?.join(name);
        write_whole(&path, text.as_bytes()).map_err(|source| self.store.io("write", &path, source))
    }

    /// Removes a file of the cluster, if it exists.
    fn remove_file(&self, name: &str) -> Result<(), EngineError> {
        let path = self.store.folder(&self.name).join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(|source| self.store.io("remove", &path, source)),
        }
    }

    /// Gives what was known before.
    fn set_stored(&self, revision: Option<Revision>) -> Option<Revision> {
        std::mem::replace(&mut *self.stored.lock().unwrap_or_else(PoisonError::into_inner), revision)
    }
}

/// The user's authorities are needed until the cluster has run, and no file of ours has their keys afterwards.
fn without_keys(mut cluster: Cluster, founded: bool) -> Cluster {
    cluster.allocations.authorities.take_if(|_| founded);
    cluster
}
