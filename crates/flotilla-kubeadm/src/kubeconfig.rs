//! The person's kubeconfig: our cluster goes in, our cluster comes out, the rest stays as it was.
//!
//! The file belongs to the person: it has comments, an order and other people's clusters in it. So it is not parsed
//! and written anew, but edited as text where its form allows (`edit`); what is to change is decided on the parsed
//! content (`change`), and every edit is parsed and compared with that before it is written. Writing is atomic and
//! under the lock that kubectl takes too.
//!
//! Reads no environment: the caller passes the variable and the home folder.

mod change;
mod edit;
mod layout;
mod lock;
mod save;
mod tree;

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use change::Malformed;

use change::Change;
use lock::Lock;
use tree::Tree;

/// How long to wait for another program that changes the file.
const PATIENCE: Duration = Duration::from_secs(10);

/// What makes a cluster usable by kubectl. Cluster, user and context all have the same name.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub server: String,
    pub ca_pem: Vec<u8>,
    pub client_cert_pem: Vec<u8>,
    pub client_key_pem: Vec<u8>,
    /// The context's namespace; without one, that which the person chose stays.
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

/// How a file and an entry stand to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nothing in the file has the entry's name.
    Absent,
    /// Putting the entry would change nothing.
    Same { current: bool },
    /// Something of that name is there, but it is not (all of) the entry.
    Different,
}

/// Whether the file was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    Yes,
    /// It was as it should be.
    No,
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
    #[error("cannot change {} without damage to what else is in it", path.display())]
    NotEditable { path: PathBuf },
    #[error("cannot make the lock file {}", lock.display())]
    Lock { lock: PathBuf, source: io::Error },
    #[error("another program is changing the kubeconfig; if none is, remove {}", lock.display())]
    Busy { lock: PathBuf },
}

/// The file kubectl writes new entries and the current context to.
///
/// `kubeconfig` is the value of `KUBECONFIG`: of the files listed the first that is there, else the last one. Without
/// the variable it is `~/.kube/config`.
pub fn default_target(kubeconfig: Option<&OsStr>, home: &Path) -> PathBuf {
    let listed = listed(kubeconfig);
    let first_there = listed.iter().find(|path| path.exists());
    first_there.or(listed.last()).cloned().unwrap_or_else(|| home.join(".kube/config"))
}

/// The file that the entry `name` belongs in.
///
/// As with kubectl, that is the first listed file that has a context of that name, else the [`default_target`]. The
/// current context of an earlier file wins: where the two differ, call [`KubeconfigFile::make_current`] on the latter.
pub fn target(kubeconfig: Option<&OsStr>, home: &Path, name: &str) -> PathBuf {
    let has_context = |path: &PathBuf| {
        // A file that cannot be read is not the one; if it is to be written, the error comes then.
        let Ok(config) = KubeconfigFile::open(path).config() else { return false };
        change::has_context(&config, name)
    };
    listed(kubeconfig).into_iter().find(has_context).unwrap_or_else(|| default_target(kubeconfig, home))
}

fn listed(kubeconfig: Option<&OsStr>) -> Vec<PathBuf> {
    let parts = kubeconfig.unwrap_or_default().as_bytes().split(|byte| *byte == b':');
    parts.filter(|part| !part.is_empty()).map(|part| PathBuf::from(OsStr::from_bytes(part))).collect()
}

/// A kubeconfig, there or not.
#[derive(Debug, Clone)]
pub struct KubeconfigFile {
    path: PathBuf,
    owner: Option<(u32, u32)>,
}

impl KubeconfigFile {
    /// Names the file. Every other call reads it anew.
    pub fn open(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), owner: None }
    }

    /// Gives the file and its folder to this user and group, if they have to be made: the person behind sudo.
    #[must_use]
    pub fn owned_by(mut self, owner: Option<(u32, u32)>) -> Self {
        self.owner = owner;
        self
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Compares the file with the entry. A file that is not there is an empty one.
    pub fn state(&self, entry: &Entry) -> Result<State, KubeconfigError> {
        let config = self.config()?;
        let missing = change::put(&config, entry, false).map_err(|source| self.malformed(source))?;
        Ok(if missing.is_empty() {
            State::Same { current: change::is_current(&config, &entry.name) }
        } else if change::has_any(&config, &entry.name) {
            State::Different
        } else {
            State::Absent
        })
    }

    /// Whether the file leads to the entry's cluster, as whatever user. Each control plane has a certificate of its own
    /// for the administrator, and all of them are good.
    pub fn leads_to(&self, entry: &Entry) -> Result<bool, KubeconfigError> {
        let missing = change::put(&self.config()?, entry, false).map_err(|source| self.malformed(source))?;
        Ok(missing.iter().all(|change| matches!(change, Change::Replace { list: "users", .. })))
    }

    /// Puts the entry in, over what was there under its name.
    pub fn put(&self, entry: &Entry, make_current: bool) -> Result<Changed, KubeconfigError> {
        self.change(|config| change::put(config, entry, make_current))
    }

    /// Makes `name` the current context, wherever its entry is.
    pub fn make_current(&self, name: &str) -> Result<Changed, KubeconfigError> {
        self.change(|config| change::make_current(config, name))
    }

    /// Whether `name` is the file's current context.
    pub fn is_current(&self, name: &str) -> Result<bool, KubeconfigError> {
        Ok(change::is_current(&self.config()?, name))
    }

    /// Leaves no context current if `name` is; its entry stays.
    pub fn deselect(&self, name: &str) -> Result<Changed, KubeconfigError> {
        self.change(|config| Ok(change::deselect(config, name).into_iter().collect()))
    }

    /// Takes cluster, user and context of that name out; if it was the current one, there is none afterwards.
    pub fn remove(&self, name: &str) -> Result<Changed, KubeconfigError> {
        self.change(|config| change::remove(config, name))
    }

    fn change(
        &self,
        plan: impl Fn(&Tree) -> Result<Vec<Change>, Malformed>,
    ) -> Result<Changed, KubeconfigError> {
        // Most calls find all well. They need no right to write, and make no folder for a file that stays absent.
        if plan(&self.config()?).map_err(|source| self.malformed(source))?.is_empty() {
            return Ok(Changed::No);
        }
        let write = |source| KubeconfigError::Write { path: self.path.clone(), source };
        save::make_folder_of(&self.path, self.owner).map_err(write)?;
        let _lock = Lock::acquire(&self.path, PATIENCE)?;
        let text = self.text()?;
        let documents = self.parse(&text)?;
        let changes = plan(&documents[0]).map_err(|source| self.malformed(source))?;
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
            // Somebody's KUBECONFIG is /dev/null: a rename would replace it for everybody.
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

    fn malformed(&self, source: Malformed) -> KubeconfigError {
        KubeconfigError::NotAKubeconfig { path: self.path.clone(), source }
    }
}

#[cfg(test)]
mod tests;
