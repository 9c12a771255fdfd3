//! Adds a finished bundle to the bundle store.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use walkdir::WalkDir;

use super::{Bundle, BundleStore, UNFINISHED, findings, snapshots};
use crate::durable;
use crate::error::{At, Result};
use crate::inventory::{self, Entry, Kind};
use crate::manifest::{self, Manifest};

impl BundleStore {
    /// Gives a finished directory its name, in one step. A bundle with that content stays if it is whole; else its damaged
    /// files are replaced, one by one, because nodes may be running from the others.
    pub(crate) fn add(&self, work: &Path, manifest: Manifest) -> Result<Bundle> {
        let path = self.bundles().join(&manifest.digest);
        if !path.exists() {
            self.write_manifest(work, &manifest)?;
            fs::set_permissions(work, PermissionsExt::from_mode(0o755)).at("set the mode of", work)?;
            durable::sync_file_system(work)?;
            fs::rename(work, &path).at("write", &path)?;
            snapshots::ensure(&path, &manifest.digest)?;
            return Ok(Bundle { path, manifest });
        }
        // The digest does not vouch for the databases of an import: those of a build take their place.
        let kept = Manifest::load(&path).ok().filter(|kept| manifest.imported || !kept.imported);
        if let Some(mut kept) = kept.filter(|kept| kept.digest == manifest.digest)
            && findings(&path, &kept, |_| ())?.is_empty()
        {
            // Its own databases and dates are as good; only the recipe of another build may be a newer one.
            if !manifest.imported {
                kept.recipe = manifest.recipe;
                self.write_manifest(&path, &kept)?;
            }
            snapshots::ensure(&path, &kept.digest)?;
            return Ok(Bundle { path, manifest: kept });
        }
        repair(&path, work, &manifest.files)?;
        self.write_manifest(&path, &manifest)?;
        durable::sync_file_system(&path)?;
        snapshots::ensure(&path, &manifest.digest)?;
        Ok(Bundle { path, manifest })
    }

    fn write_manifest(&self, directory: &Path, manifest: &Manifest) -> Result<()> {
        let file = directory.join(manifest::FILE);
        let text = serde_json::to_vec(manifest).expect("a manifest is plain data");
        durable::write(&file, &text, &self.bundles(), UNFINISHED)?;
        fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).at("set the mode of", &file)
    }
}

/// Takes every file that `bundle` does not have as `files` says from `work`, which has them all.
fn repair(bundle: &Path, work: &Path, files: &[Entry]) -> Result<()> {
    remove_strangers(bundle, files)?;
    for entry in files {
        if inventory::has(bundle, entry)? {
            continue;
        }
        let (from, to) = (work.join(&entry.path), bundle.join(&entry.path));
        let is_directory = |path: &Path| path.is_dir() && !path.is_symlink();
        if let Kind::Dir { mode } = entry.kind {
            if !is_directory(&to) {
                durable::remove(&to)?;
                fs::create_dir(&to).at("make", &to)?;
            }
            fs::set_permissions(&to, PermissionsExt::from_mode(mode)).at("set the mode of", &to)?;
        } else {
            if is_directory(&to) {
                durable::remove(&to)?;
            }
            fs::rename(&from, &to).at("write", &to)?;
        }
    }
    Ok(())
}

/// Removes what is not part of the bundle.
fn remove_strangers(bundle: &Path, files: &[Entry]) -> Result<()> {
    let mut known: BTreeSet<&Path> = files.iter().map(|entry| Path::new(&entry.path)).collect();
    known.insert(Path::new(manifest::FILE));
    let mut walk = WalkDir::new(bundle).min_depth(1).into_iter();
    while let Some(item) = walk.next() {
        let item = item.map_err(io::Error::from).at("read", bundle)?;
        let path = item.path().strip_prefix(bundle).expect("a path below the directory that is walked");
        if !known.contains(path) {
            if item.file_type().is_dir() {
                walk.skip_current_dir();
            }
            durable::remove(item.path())?;
        }
    }
    Ok(())
}
