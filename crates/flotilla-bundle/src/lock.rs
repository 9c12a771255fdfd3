//! The lock file: every component of a bundle, its version and its checksum.
//!
//! It is compiled in (`recipe.rs`), so a binary always builds the bundles it was tested with.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// `bundle/lock.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Lock {
    /// The Kubernetes version taken when none is asked for.
    pub default: String,
    /// Versions that every release shares, by component name.
    pub tools: BTreeMap<String, String>,
    /// Kubernetes versions that can be built, each with the versions that go with it.
    pub release: BTreeMap<String, Release>,
    pub go: BTreeMap<String, GoComponent>,
    pub pause: Pause,
    pub userland: Userland,
}

/// What one Kubernetes version wants beside it (kubeadm decides).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    pub etcd: String,
    pub coredns: String,
    pub pause: String,
}

/// How the programs of one Go component are built.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GoComponent {
    /// The module whose version is the component's.
    pub module: String,
    /// Import paths of the programs.
    pub programs: Vec<String>,
    /// Program names that differ from the last part of their import path.
    #[serde(default)]
    pub rename: BTreeMap<String, String>,
    #[serde(default)]
    pub tags: Vec<String>,
    /// Links C code: needs gcc and libseccomp.
    #[serde(default)]
    pub cgo: bool,
    /// Values set at link time; `{version}`, `{major}`, `{minor}` and `{date}` are filled in.
    #[serde(default)]
    pub stamp: BTreeMap<String, String>,
    /// How long a cold build took on two cores.
    pub seconds: u64,
    #[serde(default, skip_serializing)]
    pub versions: BTreeMap<String, GoPin>,
}

/// One pinned version of a Go component.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GoPin {
    /// Go's checksum of the module (`h1:…`), as in go.sum.
    pub sum: String,
    /// SHA-256 of the files in `bundle/go/NAME/` that build it.
    pub recipe: String,
    /// When upstream tagged it.
    pub date: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// SHA-256 of the files in `bundle/pause/`.
    pub recipe: String,
    pub seconds: u64,
}

/// What is taken out of Debian packages.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Userland {
    pub packages: Vec<String>,
    pub programs: Vec<String>,
    pub data: Vec<String>,
    pub terminals: Vec<String>,
    pub seconds: u64,
    /// Packages of the Debian release the lock was made on, by name.
    #[serde(default)]
    pub pin: Vec<DebPin>,
}

#[derive(Debug, Clone, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct DebPin {
    pub name: String,
    pub version: String,
    pub sha256: String,
}

/// A lock file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("cannot read the lock file")]
    Syntax(#[source] Box<toml::de::Error>),
    #[error("the lock file names {what} but has no pin for it")]
    Unpinned { what: String },
    #[error("no bundle for Kubernetes {version} can be built: the lock file has {known}")]
    UnknownVersion { version: String, known: String },
}

impl Lock {
    /// Parses the lock and checks that everything it refers to is pinned.
    pub fn parse(text: &str) -> Result<Self, LockError> {
        let lock: Self = toml::from_str(text).map_err(|error| LockError::Syntax(Box::new(error)))?;
        lock.release(&lock.default)?;
        for (version, release) in &lock.release {
            lock.pin("kubernetes", version)?;
            lock.pin("etcd", &release.etcd)?;
            lock.pin("coredns", &release.coredns)?;
        }
        for (name, version) in &lock.tools {
            lock.pin(name, version)?;
        }
        Ok(lock)
    }

    pub fn release(&self, version: &str) -> Result<&Release, LockError> {
        self.release.get(version).ok_or_else(|| self.unknown(version))
    }

    fn unknown(&self, version: &str) -> LockError {
        let known = self.release.keys().rev().cloned().collect::<Vec<_>>().join(", ");
        LockError::UnknownVersion { version: version.to_owned(), known }
    }

    /// The pinned release of the same minor version as `version`, which itself need not be pinned.
    pub fn release_like(&self, version: &str) -> Result<&str, LockError> {
        let minor = |version: &str| version.split('.').take(2).map(str::to_owned).collect::<Vec<_>>();
        let alike = self.release.keys().find(|known| minor(known) == minor(version));
        alike.map(String::as_str).ok_or_else(|| self.unknown(version))
    }

    /// How a Go component is built, and the pin of that version of it.
    pub fn pin(&self, name: &str, version: &str) -> Result<(&GoComponent, &GoPin), LockError> {
        self.go
            .get(name)
            .and_then(|component| Some((component, component.versions.get(version)?)))
            .ok_or_else(|| LockError::Unpinned { what: format!("{name} {version}") })
    }
}
