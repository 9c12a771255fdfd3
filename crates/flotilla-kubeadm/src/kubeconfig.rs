//! Adds our cluster to the user's kubeconfig and removes it; the rest stays unchanged.
//!
//! The file belongs to the user: it has comments, an order and other people's clusters in it. So it is not parsed
//! and written again, but edited as text where its form allows (`edit`); what is to change is decided on the parsed
//! content (`change`), and every edit is parsed and compared with that before it is written. Writing is atomic and
//! under the lock that kubectl takes too.
//!
//! Reads no environment: the caller passes the variable and the home directory.

mod change;
mod edit;
mod files;
mod layout;
mod lock;
mod owner;
mod personal;
mod save;
mod tree;

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flotilla_core::{Changed, NameTaken};

pub use change::Malformed;
pub use files::Kubeconfigs;
pub use personal::PersonalKubeconfig;

use change::Change;
use lock::Lock;
use tree::Tree;

/// How long to wait for another program that changes the file.
const PATIENCE: Duration = Duration::from_secs(10);

/// The number of /dev/null: major 1, minor 3.
const NULL_DEVICE: u64 = 0x103;

/// The entry of a cluster for kubectl. Cluster, user and context have the same name.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub server: String,
    pub ca_pem: Vec<u8>,
    pub client_cert_pem: Vec<u8>,
    pub client_key_pem: Vec<u8>,
    /// The context's namespace; without one, that which the user chose stays.
    pub namespace: Option<String>,
}

/// Leaves the key out, so that it gets into no log.
impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("name", &self.name)
            .field("server", &self.server)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

/// Identifies a cluster independent of its name. Certificates are as in an [`Entry`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    ca_pem: Vec<u8>,
    /// Empty if it is not known.
    client_cert_pem: Vec<u8>,
}

/// The result of comparing a file with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nothing in the file has the entry's name.
    Absent,
    /// Putting the entry would change nothing.
    Same { current: bool },
    /// The name exists, but the entry is incomplete or different.
    Different,
    /// The name is used by another cluster or by an entry of the user.
    Taken,
}

/// A kubeconfig could not be read or changed. In that case it is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{} is not a regular file", path.display())]
    NotAFile { path: PathBuf },
    #[error("{} is not valid YAML: line {line}, column {column}: {reason}", path.display())]
    NotYaml { path: PathBuf, line: u64, column: u64, reason: String },
    #[error("{} is not a kubeconfig", path.display())]
    NotAKubeconfig { path: PathBuf, source: Malformed },
    #[error("cannot change {} without damaging its other content", path.display())]
    NotEditable { path: PathBuf },
    #[error(transparent)]
    Taken(#[from] NameTaken),
    #[error("cannot create the lock file {}", lock.display())]
    Lock { lock: PathBuf, source: io::Error },
    #[error("another program is changing the kubeconfig; if none is, remove {}", lock.display())]
    Busy { lock: PathBuf },
}

/// A kubeconfig, which may not exist.
#[derive(Debug, Clone)]
pub struct KubeconfigFile {
    path: PathBuf,
    owner: Option<(u32, u32)>,
}

impl KubeconfigFile {
    /// Names the file. Every other call reads it again.
    pub fn open(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), owner: None }
    }

    /// Gives the file and its directory to this user and group, if they have to be made: the user behind sudo.
    #[must_use]
    pub fn owned_by(mut self, owner: Option<(u32, u32)>) -> Self {
        self.owner = owner;
        self
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Compares the file with the entry. A file that does not exist is an empty one.
    pub fn state(&self, entry: &Entry) -> Result<State, KubeconfigError> {
        self.state_of(&self.config()?, entry)
    }

    fn state_of(&self, config: &Tree, entry: &Entry) -> Result<State, KubeconfigError> {
        let missing = change::put(config, entry, false).map_err(|source| self.malformed(source))?;
        Ok(if missing.is_empty() {
            State::Same { current: change::is_current(config, &entry.name) }
        } else if change::has_any(config, &entry.name) {
            State::Different
        } else {
            State::Absent
        })
    }

    /// What a file that is all ours says of a cluster; none if that is not in it.
    pub fn identity(&self, name: &str) -> Result<Option<Identity>, KubeconfigError> {
        Ok(Identity::in_config(&self.config()?, name))
    }

    /// Puts the entry in and makes it the current one, over whatever has its name: for a file that is all ours.
    pub fn put(&self, entry: &Entry) -> Result<Changed, KubeconfigError> {
        self.change(|config| change::put(config, entry, true).map_err(|source| self.malformed(source)))
    }

    /// Makes `name` the current context, wherever its entry is.
    fn make_current(&self, name: &str) -> Result<Changed, KubeconfigError> {
        self.change(|config| change::make_current(config, name).map_err(|source| self.malformed(source)))
    }

    fn change(
        &self,
        plan: impl Fn(&Tree) -> Result<Vec<Change>, KubeconfigError>,
    ) -> Result<Changed, KubeconfigError> {
        // Most calls change nothing. They need no write permission, and create no directory for a missing file.
        if plan(&self.config()?)?.is_empty() {
            return Ok(Changed::No);
        }
        // A rename would replace /dev/null.
        if fs::metadata(&self.path).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(KubeconfigError::NotAFile { path: self.path.clone() });
        }
        let write = |source| KubeconfigError::Write { path: self.path.clone(), source };
        save::refuse_links_out(&self.path, self.owner).map_err(write)?;
        save::make_directory_of(&self.path, self.owner).map_err(write)?;
        let _lock = Lock::acquire(&self.path, PATIENCE)?;
        let text = self.text()?;
        let documents = self.parse(&text)?;
        let changes = plan(&documents[0])?;
        if changes.is_empty() {
            return Ok(Changed::No);
        }
        let edited = edit::edit(&text, &documents, &changes)
            .ok_or_else(|| KubeconfigError::NotEditable { path: self.path.clone() })?;
        save::write(&self.path, edited.as_bytes(), self.owner).map_err(write)?;
        Ok(Changed::Yes)
    }

    fn config(&self) -> Result<Tree, KubeconfigError> {
        Ok(self.parse(&self.text()?)?.swap_remove(0))
    }

    fn text(&self) -> Result<String, KubeconfigError> {
        let read = |source| KubeconfigError::Read { path: self.path.clone(), source };
        match fs::metadata(&self.path) {
            // KUBECONFIG may be /dev/null, which kubectl reads as an empty file.
            Ok(metadata) if metadata.file_type().is_char_device() && metadata.rdev() == NULL_DEVICE => {
                Ok(String::new())
            }
            Ok(metadata) if !metadata.is_file() => Err(KubeconfigError::NotAFile { path: self.path.clone() }),
            Ok(_) => fs::read_to_string(&self.path).map_err(read),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(read(error)),
        }
    }

    /// The documents in the file, one at least. kubectl reads the first.
    fn parse(&self, text: &str) -> Result<Vec<Tree>, KubeconfigError> {
        tree::parse(text).map_err(|error| {
            let (line, column) = error.location().map_or((0, 0), |at| (at.line(), at.column()));
            KubeconfigError::NotYaml { path: self.path.clone(), line, column, reason: tree::reason(&error) }
        })
    }

    fn taken(&self, name: &str, list: &'static str) -> KubeconfigError {
        let what = list.trim_end_matches('s');
        NameTaken { path: self.path.clone(), what, name: name.to_owned() }.into()
    }

    fn malformed(&self, source: Malformed) -> KubeconfigError {
        KubeconfigError::NotAKubeconfig { path: self.path.clone(), source }
    }
}

#[cfg(test)]
mod tests;
