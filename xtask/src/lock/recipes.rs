//! The checksums of our own files: those in the lock file, and those of the files as they are.
//!
//! Files are read from the directory and not from what is compiled in: `lock` has just written some of them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use flotilla_bundle::lock::Lock;
use flotilla_bundle::recipe::{self, RecipeFile};
use walkdir::WalkDir;

use super::LockFile;

/// A `recipe` key of the lock file.
struct Recipe {
    table: Vec<String>,
    locked: String,
    found: String,
}

/// Writes every `recipe` that differs.
pub(super) fn lock(file: &mut LockFile) -> Result<()> {
    for stale in stale(file)? {
        println!("{}", stale.table.join(" "));
        let table: Vec<_> = stale.table.iter().map(String::as_str).collect();
        file.set(&table, "recipe", stale.found)?;
    }
    Ok(())
}

/// Fails if the product would refuse the lock file, or if a `recipe` differs.
pub(super) fn check(file: &LockFile) -> Result<()> {
    Lock::parse(&file.document.to_string())?;
    let stale = stale(file)?;
    if !stale.is_empty() {
        let names: Vec<_> = stale.iter().map(|stale| format!("\n  {}", stale.table.join(" "))).collect();
        bail!("bundle/ has changed, run `cargo xtask lock recipes`:{}", names.concat());
    }
    Ok(())
}

/// As [`recipe::go_module`], from the directory.
pub(super) fn of_go_module(bundle: &Path, name: &str, version: &str) -> Result<String> {
    let mut files = files(&bundle.join("go").join(name).join(version), usize::MAX)?;
    files.extend(shared_files(bundle, name)?);
    Ok(recipe::digest(&files))
}

/// The sources that all versions of a Go component share. Most have none, a new one has no directory yet.
pub(super) fn shared_files(bundle: &Path, name: &str) -> Result<Vec<RecipeFile>> {
    let folder = bundle.join("go").join(name);
    if folder.is_dir() { files(&folder, 1) } else { Ok(Vec::new()) }
}

fn stale(file: &LockFile) -> Result<Vec<Recipe>> {
    let lock = file.read()?;
    let pause = recipe::digest(&files(&file.folder.join("pause"), usize::MAX)?);
    let mut recipes = vec![Recipe { table: vec!["pause".into()], locked: lock.pause.recipe, found: pause }];
    for (name, component) in lock.go {
        for (version, pin) in component.versions {
            let found = of_go_module(&file.folder, &name, &version)?;
            let table = vec!["go".into(), name.clone(), "versions".into(), version];
            recipes.push(Recipe { table, locked: pin.recipe, found });
        }
    }
    recipes.retain(|recipe| recipe.locked != recipe.found);
    Ok(recipes)
}

fn files(folder: &Path, depth: usize) -> Result<Vec<RecipeFile>> {
    let mut files = Vec::new();
    for entry in WalkDir::new(folder).max_depth(depth) {
        let entry = entry.with_context(|| format!("cannot list {}", folder.display()))?;
        if !entry.file_type().is_file() {
            continue;
        }
        let name = entry.path().strip_prefix(folder).expect("an entry is below its root");
        let name = name.to_str().with_context(|| format!("{} is no UTF-8", name.display()))?.to_owned();
        files.push(RecipeFile { name, bytes: fs::read(entry.path())? });
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_file_has_the_checksums_of_our_own_files() {
        check(&LockFile::load().unwrap()).unwrap();
    }

    #[test]
    fn folder_and_compiled_in_files_have_the_same_checksum() {
        let bundle = tempfile::tempdir().unwrap();
        for file in recipe::pause() {
            fs::write(bundle.path().join(file.name), file.bytes).unwrap();
        }
        let read = files(bundle.path(), usize::MAX).unwrap();
        assert_eq!(recipe::digest(&read), recipe::digest(&recipe::pause()));
    }

    #[test]
    fn shared_sources_count_and_other_versions_do_not() {
        let bundle = tempfile::tempdir().unwrap();
        for version in ["v1", "v2"] {
            let folder = bundle.path().join("go/dns").join(version);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("go.mod"), version).unwrap();
        }
        let before = of_go_module(bundle.path(), "dns", "v1").unwrap();
        fs::write(bundle.path().join("go/dns/v2/go.mod"), "changed").unwrap();
        assert_eq!(of_go_module(bundle.path(), "dns", "v1").unwrap(), before);
        fs::write(bundle.path().join("go/dns/main.go"), "package main").unwrap();
        assert_ne!(of_go_module(bundle.path(), "dns", "v1").unwrap(), before);
    }
}
