//! What is known of a machine: a file beside its disk, outside of what the node can reach.

use std::path::{Path, PathBuf};
use std::{fs, io};

use flotilla_core::MachineRecord;
use flotilla_files::write_whole;

use super::disk::Disk;
use super::marks;
use crate::error::{At, NativeError};

const RECORD: &str = "record.json";

impl Disk {
    /// What was recorded last. A machine without a disk has lost what the record is about. One that an earlier release
    /// made has no record before its next boot, but marks on its disk.
    pub(super) fn record(&self) -> Result<MachineRecord, NativeError> {
        if !self.exists()? {
            return Ok(MachineRecord::default());
        }
        match self.record_text()? {
            Some(text) => Ok(self.decode(&text)?.unwrap_or_default()),
            None => self.marked(),
        }
    }

    pub(super) fn set_record(&self, record: &MachineRecord) -> Result<(), NativeError> {
        let path = self.record_path();
        let is_first = !path.try_exists().at("look for", &path)?;
        write_whole(&path, record.encode(&self.uuid()?).as_bytes()).at("write", path)?;
        if is_first {
            // Nobody reads them from here on, whether this succeeds or not.
            let _ = marks::remove(&self.var());
        }
        Ok(())
    }

    /// Makes sure that a record of this disk exists: converts the marks of an earlier release. Only for who holds the
    /// cluster's lock, since an earlier release may be changing the marks.
    pub(super) fn ensure_record(&self) -> Result<(), NativeError> {
        let is_recorded = match self.record_text()? {
            Some(text) => self.decode(&text)?.is_some(),
            None => false,
        };
        if is_recorded { Ok(()) } else { self.set_record(&self.record()?) }
    }

    fn marked(&self) -> Result<MachineRecord, NativeError> {
        match marks::read(&self.var()).at("look for marks in", self.var())? {
            Ok(membership) => Ok(MachineRecord { membership }),
            Err(mark) => Err(NativeError::Mark { mark, record: self.record_path(), uuid: self.uuid()? }),
        }
    }

    /// None if the record is about another disk.
    fn decode(&self, text: &[u8]) -> Result<Option<MachineRecord>, NativeError> {
        let uuid = self.uuid()?;
        MachineRecord::decode(text, &uuid).map_err(|source| {
            let path = self.record_path();
            NativeError::Record { path, uuid, source }
        })
    }

    fn record_text(&self) -> Result<Option<Vec<u8>>, NativeError> {
        match fs::read(self.record_path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            text => text.at("read", self.record_path()).map(Some),
        }
    }

    fn record_path(&self) -> PathBuf {
        self.folder.join(RECORD)
    }
}

/// How to write a record again that cannot be read.
pub(crate) fn repairs(path: &Path, uuid: &str) -> Vec<String> {
    let path = path.display();
    let text = |membership| {
        format!(r#"`echo '{{"version":1,"uuid":"{uuid}","membership":"{membership}"}}' > {path}`"#)
    };
    vec![
        format!(
            "nothing was changed; if the node had joined the cluster, record it again: {}",
            text("member")
        ),
        format!("if it never joined: {}", text("none")),
    ]
}

#[cfg(test)]
mod tests;
