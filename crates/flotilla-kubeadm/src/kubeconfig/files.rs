//! All the files that kubectl reads as one: `KUBECONFIG` may list several.
//!
//! The rules are those of client-go's `ClientConfigLoadingRules` and `ModifyConfig`: of several items of a name the first
//! counts; the current context is that of the first file that has one; a new one is written to the first file that exists,
//! and taken out of the file that it was read from.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::change::{self, Change};
use super::owner::Owner;
use super::tree::Tree;
use super::{Changed, Entry, Identity, KubeconfigError, KubeconfigFile, State};

/// The user's kubeconfig, in one file or several.
#[derive(Debug, Clone)]
pub struct Kubeconfigs {
    /// At least one.
    files: Vec<KubeconfigFile>,
    /// The file for new entries and for the current context.
    default: usize,
}

impl Kubeconfigs {
    /// The files that the value of `KUBECONFIG` names, else `~/.kube/config`.
    pub fn of(kubeconfig: Option<&OsStr>, home: &Path) -> Self {
        let mut paths: Vec<PathBuf> = Vec::new();
        for part in kubeconfig.unwrap_or_default().as_bytes().split(|byte| *byte == b':') {
            let path = PathBuf::from(OsStr::from_bytes(part));
            if !part.is_empty() && !paths.contains(&path) {
                paths.push(path);
            }
        }
        if paths.is_empty() {
            paths.push(home.join(".kube/config"));
        }
        let default = paths.iter().position(|path| path.exists()).unwrap_or(paths.len() - 1);
        Self { files: paths.into_iter().map(KubeconfigFile::open).collect(), default }
    }

    /// See [`KubeconfigFile::owned_by`].
    #[must_use]
    pub fn owned_by(mut self, owner: Option<(u32, u32)>) -> Self {
        self.files = self.files.into_iter().map(|file| file.owned_by(owner)).collect();
        self
    }

    /// The file in which a cluster of this name is, or would be.
    pub fn path_of(&self, name: &str) -> &Path {
        let configs: Vec<_> = self.files.iter().map(|file| file.config().unwrap_or(Tree::Null)).collect();
        self.files[self.home_of(name, &configs)].path()
    }

    /// Who has the name, if it is not the cluster that is `known`: the error that [`Self::put`] would be.
    pub fn taken(&self, name: &str, known: &[Identity]) -> Result<Option<KubeconfigError>, KubeconfigError> {
        let configs = self.configs()?;
        let owner = Owner { name, known, files: configs.iter().collect() };
        Ok(owner.foreign().map(|(file, list)| self.files[file].taken(name, list)))
    }

    /// Compares the files with the entry.
    pub fn state(&self, entry: &Entry, known: &[Identity]) -> Result<State, KubeconfigError> {
        let configs = self.configs()?;
        let owner = Owner { name: &entry.name, known, files: configs.iter().collect() };
        if owner.foreign().is_some() {
            return Ok(State::Taken);
        }
        let home = self.home_of(&entry.name, &configs);
        let current = owner.current() == Some(&entry.name);
        let state = self.files[home].state_of(&configs[home], entry)?;
        Ok(if let State::Same { .. } = state { State::Same { current } } else { state })
    }

    /// Whether they lead to the entry's cluster, as whatever user. Each control plane may have a certificate of its own
    /// for the administrator, and all of them are good.
    pub fn leads_to(&self, entry: &Entry, known: &[Identity]) -> Result<bool, KubeconfigError> {
        let configs = self.configs()?;
        let owner = Owner { name: &entry.name, known, files: configs.iter().collect() };
        let home = self.home_of(&entry.name, &configs);
        let file = &self.files[home];
        let missing = change::put(&configs[home], entry, false).map_err(|source| file.malformed(source))?;
        let only_the_user =
            missing.iter().all(|change| matches!(change, Change::Replace { list: "users", .. }));
        Ok(only_the_user && owner.foreign().is_none())
    }

    /// Whether the current context is that of the cluster, by its name and by what is known of it.
    pub fn is_current(&self, name: &str, known: &[Identity]) -> Result<bool, KubeconfigError> {
        let configs = self.configs()?;
        let owner = Owner { name, known, files: configs.iter().collect() };
        Ok(owner.current() == Some(name) && owner.has_context())
    }

    /// Puts the entry in and makes it the current one. What has its name must be the cluster's.
    pub fn put(&self, entry: &Entry, known: &[Identity]) -> Result<Changed, KubeconfigError> {
        let configs = self.configs()?;
        let home = self.home_of(&entry.name, &configs);
        let file = &self.files[home];
        let put = file.change(|config| {
            let owner = self.owner(&entry.name, known, &configs, (home, config));
            match owner.foreign() {
                Some((file, list)) => Err(self.files[file].taken(&entry.name, list)),
                None => {
                    change::put(config, entry, home == self.default).map_err(|source| file.malformed(source))
                }
            }
        })?;
        if home == self.default {
            return Ok(put);
        }
        let selected = self.files[self.default].make_current(&entry.name)?;
        Ok(if selected == Changed::Yes { selected } else { put })
    }

    /// Leaves no context current if the cluster's is; its entry stays.
    pub fn unset_context(&self, name: &str, known: &[Identity]) -> Result<Changed, KubeconfigError> {
        self.change_each(name, known, |owner, config| {
            let is_current = owner.current() == Some(name) && owner.has_context();
            Ok(change::unset_context(config, name).filter(|_| is_current).into_iter().collect())
        })
    }

    /// Takes out what the cluster has written; if it was the current one, there is none afterwards. What else has its
    /// name stays: [`Self::taken`] tells.
    pub fn remove(&self, name: &str, known: &[Identity]) -> Result<Changed, KubeconfigError> {
        self.change_each(name, known, |owner, config| {
            let mut changes = change::remove(config, name, |list, item| owner.wrote(list, item))?;
            changes.extend(change::unset_context(config, name).filter(|_| owner.has_context()));
            Ok(changes)
        })
    }

    /// Changes all files that can be read; the first that cannot is the error in the end. The file whose current context
    /// counts comes first: killed after it, the command finds the rest again.
    fn change_each(
        &self,
        name: &str,
        known: &[Identity],
        plan: impl Fn(&Owner<'_>, &Tree) -> Result<Vec<Change>, change::Malformed>,
    ) -> Result<Changed, KubeconfigError> {
        let mut failure = None;
        let mut configs = Vec::new();
        for file in &self.files {
            configs.push(file.config().unwrap_or_else(|error| {
                failure.get_or_insert(error);
                Tree::Null
            }));
        }
        let selecting = configs.iter().position(|config| change::current(config).is_some());
        let mut order: Vec<_> = (0..self.files.len()).collect();
        order.sort_by_key(|file| Some(*file) != selecting);
        let mut changed = Changed::No;
        for index in order {
            let file = &self.files[index];
            if file.config().is_err() {
                continue;
            }
            let done = file.change(|config| {
                let owner = self.owner(name, known, &configs, (index, config));
                plan(&owner, config).map_err(|source| file.malformed(source))
            });
            match done {
                Ok(Changed::Yes) => changed = Changed::Yes,
                Ok(Changed::No) => {}
                Err(error) => drop(failure.get_or_insert(error)),
            }
        }
        failure.map_or(Ok(changed), Err)
    }

    /// The owner, with one file as it is now.
    #[expect(clippy::unused_self, reason = "reads better where it is used")]
    fn owner<'a>(
        &self,
        name: &'a str,
        known: &'a [Identity],
        configs: &'a [Tree],
        (fresh, config): (usize, &'a Tree),
    ) -> Owner<'a> {
        let files = configs.iter().enumerate().map(|(index, old)| if index == fresh { config } else { old });
        Owner { name, known, files: files.collect() }
    }

    /// The first file that has anything of the name, else the default one.
    fn home_of(&self, name: &str, configs: &[Tree]) -> usize {
        configs.iter().position(|config| change::has_any(config, name)).unwrap_or(self.default)
    }

    fn configs(&self) -> Result<Vec<Tree>, KubeconfigError> {
        self.files.iter().map(KubeconfigFile::config).collect()
    }
}
