//! Finished parts, kept in the cache: what one component contributes, made once.
//!
//! A part's directory is named by everything that went into it, so a change to one component rebuilds that component and
//! finds all the others. Bundles are hard links of parts: keeping them costs nothing while a bundle has them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use flotilla_core::event::{Outcome, Reporter, Step};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::error::{At, BundleError, Result};
use crate::inventory::{self, Entry, Kind as EntryKind};
use crate::source::{Component, Provenance, Source, Workplace};
use crate::{hash, recipe};

const RECORD: &str = "part.json";
const FILES: &str = "files";
/// Begins the names of directories that are not parts yet.
const MAKING: &str = ".making-";

/// The directory that holds finished parts.
#[derive(Debug, Clone)]
pub(crate) struct PartCache {
    directory: PathBuf,
}

/// What one component contributes.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    files: PathBuf,
    pub(crate) record: Record,
}

/// `part.json`: written last, so a directory with it is a whole part.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) provenance: Provenance,
    pub(crate) tools: BTreeMap<String, String>,
    pub(crate) files: Vec<Entry>,
}

/// The parts of one bundle, by component name.
#[derive(Debug, Default)]
pub struct Parts(BTreeMap<String, Part>);

impl Parts {
    /// A part that is provided before the one asking, as `Component::of_release` orders them.
    pub(crate) fn get(&self, name: &str) -> &Part {
        self.0.get(name).unwrap_or_else(|| panic!("the part {name} is provided before it is asked for"))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Part> {
        self.0.values()
    }
}

impl Part {
    /// A file of the part.
    pub(crate) fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.files.join(relative)
    }

    fn is_intact(&self) -> bool {
        inventory::compare(&self.files, &self.record.files, |_| ()).is_ok_and(|findings| findings.is_empty())
    }

    fn load(directory: &Path) -> Option<Self> {
        let text = fs::read(directory.join(RECORD)).ok()?;
        let record = serde_json::from_slice(&text).ok()?;
        Some(Self { files: directory.join(FILES), record })
    }
}

impl PartCache {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// The components whose parts would be made: those that do not exist, and those that may have changed.
    pub(crate) fn to_make<'a>(&self, components: &'a [Component], source: &dyn Source) -> Vec<&'a Component> {
        let mut parts = Parts::default();
        let must_make = |component: &&Component| {
            let unknown = component.links_c_libraries() && !parts.0.contains_key("userland");
            if unknown || component.may_change() {
                return true;
            }
            let kept = Part::load(&self.directory_of(component, source, &parts));
            let is_there = kept.is_some();
            parts.0.extend(kept.map(|part| (component.name.clone(), part)));
            !is_there
        };
        components.iter().filter(must_make).collect()
    }

    /// Adds the component's part to `parts`: the kept one if every byte of it is right, else a new one.
    pub(crate) fn ensure(
        &self,
        component: &Component,
        source: &dyn Source,
        parts: &mut Parts,
        reporter: &dyn Reporter,
    ) -> Result<()> {
        let title = component.title();
        let step = Step::start(reporter, &component.name, &title, Some(component.expected()));
        let wrap = |error| BundleError::Component { component: title.clone(), source: Box::new(error) };
        let directory = self.directory_of(component, source, parts);
        let kept = Part::load(&directory).filter(|_| !component.may_change()).filter(Part::is_intact);
        let (part, outcome) = match kept {
            Some(part) => (part, Outcome::Kept),
            None => (self.make(component, source, parts, &directory, &step).map_err(wrap)?, Outcome::Done),
        };
        step.done(outcome);
        parts.0.insert(component.name.clone(), part);
        Ok(())
    }

    fn make(
        &self,
        component: &Component,
        source: &dyn Source,
        parts: &Parts,
        directory: &Path,
        step: &Step<'_>,
    ) -> Result<Part> {
        if directory.exists() {
            if !component.may_change() {
                step.warn(format!("the cached {} is damaged and is built again", component.title()));
            }
            fs::remove_dir_all(directory).at("remove", directory)?;
        }
        let work = self.work_directory()?;
        let (files, scratch) = (work.path().join(FILES), work.path().join("scratch"));
        for directory in [&files, &scratch] {
            fs::create_dir(directory).at("make", directory)?;
        }
        let at = Workplace { files: &files, scratch: &scratch };
        let provenance = source.provide(component, parts, &at, step)?;
        fs::remove_dir_all(&scratch).at("remove", &scratch)?;
        settle(&files)?;
        let record = Record {
            name: component.name.clone(),
            version: component.version.clone(),
            provenance,
            tools: source.tools(component),
            files: inventory::scan(&files, |_| ())?,
        };
        let text = serde_json::to_vec_pretty(&record).expect("a record is plain data");
        fs::write(work.path().join(RECORD), text).at("write", work.path())?;
        crate::durable::sync_file_system(work.path())?;
        fs::rename(work.path(), directory).at("write", directory)?;
        Part::load(directory).ok_or_else(|| BundleError::NotFound { which: component.title() })
    }

    /// A directory for what is in the making. Goes away with the guard, or with the next run's `sweep`.
    pub(crate) fn work_directory(&self) -> Result<TempDir> {
        fs::create_dir_all(&self.directory).at("make", &self.directory)?;
        tempfile::Builder::new().prefix(MAKING).tempdir_in(&self.directory).at("make", &self.directory)
    }

    /// Removes what a killed run left. Only for who holds the lock.
    pub(crate) fn sweep(&self) -> Result<()> {
        crate::durable::remove_leftovers(&self.directory, MAKING)
    }

    /// The bytes of what a killed run left.
    pub(crate) fn leftover_bytes(&self) -> u64 {
        crate::durable::leftover_bytes(&self.directory, MAKING)
    }

    /// Removes the parts that `is_wanted` does not want. Gives their bytes.
    pub(crate) fn retain(&self, is_wanted: impl Fn(&Record) -> bool) -> Result<u64> {
        let mut freed = 0;
        for directory in crate::bundle_store::directories(&self.directory)? {
            if Part::load(&directory).is_some_and(|part| is_wanted(&part.record)) {
                continue;
            }
            freed += crate::durable::remove(&directory)?;
        }
        Ok(freed)
    }

    pub(crate) fn directory_of(&self, component: &Component, source: &dyn Source, parts: &Parts) -> PathBuf {
        let mut inputs = vec![source.name().to_owned(), component.name.clone(), component.version.clone()];
        inputs.extend(source.tools(component).into_iter().map(|(name, version)| format!("{name} {version}")));
        inputs.push(component.inputs());
        if component.links_c_libraries() {
            inputs.extend(devel_files(parts.get("userland")));
        }
        let key = hash::of_bytes(inputs.join("\n").as_bytes());
        self.directory.join(format!("{}-{}-{}", component.name, component.version, &key[..16]))
    }
}

/// Checksums of what C code is linked with: the only files of the userland that another part depends on.
fn devel_files(userland: &Part) -> Vec<String> {
    let devel = userland.record.files.iter().filter(|entry| entry.path.starts_with("devel/"));
    devel
        .filter_map(|entry| match &entry.kind {
            EntryKind::File { sha256, .. } => Some(sha256.clone()),
            _ => None,
        })
        .collect()
}

/// Gives all files one of two modes and one date, so that a part depends on nothing but its content.
fn settle(root: &Path) -> Result<()> {
    for item in walkdir::WalkDir::new(root).min_depth(1) {
        let item = item.map_err(std::io::Error::from).at("read", root)?;
        let path = item.path();
        if item.file_type().is_symlink() {
            continue;
        }
        let metadata = item.metadata().map_err(std::io::Error::from).at("read", path)?;
        let executable = item.file_type().is_dir() || metadata.permissions().mode() & 0o111 != 0;
        let mode = if executable { 0o755 } else { 0o644 };
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).at("set the mode of", path)?;
        if item.file_type().is_file() {
            let file = fs::File::options().write(true).open(path).at("write", path)?;
            file.set_modified(std::time::SystemTime::UNIX_EPOCH).at("set the date of", path)?;
        }
    }
    Ok(())
}

/// The lock file's checksum of the compiled-in files, checked before they are built from.
pub(crate) fn check_recipe(
    component: &Component,
    files: &[recipe::RecipeFile],
    expected: &str,
) -> Result<()> {
    let actual = recipe::digest(files);
    if actual == expected {
        return Ok(());
    }
    Err(BundleError::Checksum {
        component: component.title(),
        what: "its recipe in bundle/".into(),
        expected: expected.to_owned(),
        actual,
    })
}

#[cfg(test)]
mod tests;
