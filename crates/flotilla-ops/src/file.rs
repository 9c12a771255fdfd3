//! The file in which a user describes a cluster.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use flotilla_engine::EngineError;
use flotilla_spec::{ClusterFile, HostSize, KubernetesVersion};
use serde::{Deserialize, Serialize};

use crate::OpError;
use crate::change::FileError;

/// A longer file describes no cluster.
const LONGEST: u64 = 1 << 20;

/// A cluster's file, as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileText {
    /// What errors call the file.
    pub name: String,
    pub text: String,
    /// Where files are looked for that it names.
    pub directory: PathBuf,
}

impl FileText {
    /// Everything wrong with it is reported, each problem with its place.
    pub fn parse(&self, newest: &KubernetesVersion, host: &HostSize) -> Result<ClusterFile, OpError> {
        Ok(ClusterFile::read_on(&self.name, &self.text, newest, host).map_err(EngineError::Spec)?)
    }
}

/// All of a reader that has the text of a file. `name` is what errors call it.
pub fn read_text(name: &str, reader: impl Read) -> Result<String, FileError> {
    let mut text = String::new();
    reader
        .take(LONGEST + 1)
        .read_to_string(&mut text)
        .map_err(|source| FileError::Read { file: name.to_owned(), source })?;
    if text.len() as u64 > LONGEST {
        return Err(FileError::TooLong { file: name.to_owned() });
    }
    Ok(text)
}

/// The text of a file.
pub fn read_file(path: &Path) -> Result<String, FileError> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|source| FileError::Read { file: name.clone(), source })?;
    read_text(&name, file)
}
