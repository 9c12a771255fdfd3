//! `cargo xtask lock`: writes the pins in `bundle/lock.toml` and the go.mod and go.sum beside it.
//!
//! People edit everything else in that file, so its comments and its order are kept.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use flotilla_bundle::lock::Lock;
use toml_edit::{DocumentMut, Item, Table, Value};

mod go;
mod kubernetes;
mod module;
mod recipes;
mod userland;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Add or refresh a Kubernetes version, with the etcd and the DNS server its kubeadm wants
    Kubernetes { version: String },
    /// Add or refresh a version of another Go component
    Go { name: String, version: String },
    /// Pin the Debian packages as this machine's apt has them today
    Userland,
    /// Write the checksums of our own files after a change to them
    Recipes,
    /// Fail if the checksums of our own files are not those in the lock file
    Check,
}

pub(crate) fn run(command: Command) -> Result<()> {
    let mut file = LockFile::load()?;
    match command {
        Command::Kubernetes { version } => kubernetes::lock(&mut file, &version)?,
        Command::Go { name, version } => {
            anyhow::ensure!(
                name != "kubernetes",
                "`cargo xtask lock kubernetes {version}` does the whole of it"
            );
            go::lock(&mut file, &name, &version)?;
        }
        Command::Userland => userland::lock(&mut file)?,
        Command::Recipes => recipes::lock(&mut file)?,
        Command::Check => return recipes::check(&file),
    }
    file.save()
}

/// `bundle/lock.toml` being edited.
struct LockFile {
    /// The directory `bundle/`.
    folder: PathBuf,
    document: DocumentMut,
}

impl LockFile {
    fn load() -> Result<Self> {
        let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../bundle"));
        let path = folder.join("lock.toml");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let document = text.parse().with_context(|| format!("cannot parse {}", path.display()))?;
        Ok(Self { folder, document })
    }

    fn save(&self) -> Result<()> {
        let path = self.folder.join("lock.toml");
        fs::write(&path, self.document.to_string())
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// The lock as the product reads it, except that pins may still be missing.
    fn read(&self) -> Result<Lock> {
        toml::from_str(&self.document.to_string()).context("cannot read the lock file")
    }

    /// Sets one key of the table at `path`, which is made if it does not exist. A comment behind the value stays.
    fn set(&mut self, path: &[&str], key: &str, value: impl Into<Value>) -> Result<()> {
        let mut value = value.into();
        let item = self.table(path)?.entry(key).or_insert(Item::None);
        if let Some(old) = item.as_value() {
            *value.decor_mut() = old.decor().clone();
        }
        *item = Item::Value(value);
        Ok(())
    }

    /// Puts the tables below `path`, which are named after versions, in order: the newest first.
    fn sort_versions(&mut self, path: &[&str]) -> Result<()> {
        let table = self.table(path)?;
        for (_, item) in table.iter_mut() {
            if let Some(version) = item.as_table_mut() {
                // Tables that were parsed remember their place in the file and would go back to it.
                version.set_position(None);
            }
        }
        table.sort_values_by(|a, _, b, _| version_order(b).cmp(&version_order(a)));
        Ok(())
    }

    fn table(&mut self, path: &[&str]) -> Result<&mut Table> {
        let mut table = self.document.as_table_mut();
        for key in path {
            let new = || {
                let mut table = Table::new();
                table.set_implicit(true);
                Item::Table(table)
            };
            table = table
                .entry(key)
                .or_insert_with(new)
                .as_table_mut()
                .with_context(|| format!("{key} in the lock file is no table"))?;
        }
        Ok(table)
    }
}

/// The numbers in a version, for comparing.
fn version_order(version: &str) -> Vec<u64> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> LockFile {
        LockFile { folder: PathBuf::new(), document: text.parse().unwrap() }
    }

    #[test]
    fn comments_and_order_survive_an_edit() {
        let mut file = file("# top\n[b]\nkey = \"old\" # why\n\n[a]\nother = 1\n");
        file.set(&["b"], "key", "new").unwrap();
        assert_eq!(file.document.to_string(), "# top\n[b]\nkey = \"new\" # why\n\n[a]\nother = 1\n");
    }

    #[test]
    fn new_versions_stand_beside_the_others_newest_first() {
        let mut file = file("[a]\n\n[r.\"v1.9.0\"]\nx = \"9\"\n\n[z]\ny = 1\n");
        file.set(&["r", "v1.10.0"], "x", "10").unwrap();
        file.set(&["r", "v1.8.3"], "x", "8").unwrap();
        file.sort_versions(&["r"]).unwrap();
        assert_eq!(
            file.document.to_string(),
            "[a]\n\n[r.\"v1.10.0\"]\nx = \"10\"\n\n[r.\"v1.9.0\"]\nx = \"9\"\n\n[r.\"v1.8.3\"]\nx = \"8\"\n\n[z]\ny = 1\n"
        );
    }
}
