//! Clusters that tests have made, one file each, for a runner that has to delete them: a killed test cannot do it, and a killed
//! runner cannot either, so the next one does.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Of the person's state directory. What begins with `test-` is no trace of a cluster.
const FOLDER: &str = "test-run/clusters";

/// A cluster that exists, or may.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) name: String,
    pub(crate) home: PathBuf,
    pub(crate) kubeconfig: PathBuf,
    /// The process of its test.
    pub(crate) process: u32,
}

impl Record {
    pub(super) fn write(name: &str, home: &Path, kubeconfig: &Path) {
        let (home, kubeconfig) = (home.to_owned(), kubeconfig.to_owned());
        let record = Self { name: name.to_owned(), home, kubeconfig, process: std::process::id() };
        fs::create_dir_all(folder()).unwrap();
        fs::write(record.path(), serde_json::to_string(&record).unwrap()).unwrap();
    }

    /// The cluster is gone, or is kept on purpose.
    pub(super) fn remove(name: &str, home: &Path) {
        drop(fs::remove_file(path(name, home)));
    }

    /// Deletes the cluster, in whatever state it is. One that cannot be deleted stays recorded.
    pub(crate) fn delete(&self) -> io::Result<()> {
        let mut delete = super::flotilla(&self.home, &["-p", &self.name, "delete"]);
        let output = delete.env("KUBECONFIG", &self.kubeconfig).output()?;
        if !output.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        drop(self.kubeconfig.parent().map(fs::remove_dir_all));
        fs::remove_file(self.path())
    }

    fn path(&self) -> PathBuf {
        path(&self.name, &self.home)
    }
}

/// All clusters of tests. Files that were cut off by a kill say nothing: their clusters did not begin.
pub(crate) fn all() -> Vec<Record> {
    let files = fs::read_dir(folder()).into_iter().flatten().flatten();
    files.filter_map(|file| serde_json::from_slice(&fs::read(file.path()).ok()?).ok()).collect()
}

fn folder() -> PathBuf {
    super::real_home().join(FOLDER)
}

/// Clusters of two homes may have the same name.
fn path(name: &str, home: &Path) -> PathBuf {
    let home = home.file_name().unwrap_or_default().to_string_lossy();
    folder().join(format!("{name}@{home}"))
}
