//! Writing the archive.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use flotilla_core::Unit;
use flotilla_core::event::{Outcome, Reporter, Step};
use tar::{EntryType, Header};

use super::unfinished::Unfinished;
use crate::bundle_store::{Bundle, BundleStore};
use crate::error::{At, BundleError, Result};
use crate::hash::Hashed;
use crate::inventory::{self, Entry, Kind};
use crate::manifest::{self, Manifest};

impl BundleStore {
    /// Writes the bundle to `file`, which appears when it is whole.
    pub fn export(&self, bundle: &Bundle, file: &Path, reporter: &dyn Reporter) -> Result<()> {
        let step = Step::start(reporter, "export", format!("writing {}", file.display()), None);
        let total = inventory::bytes(&bundle.manifest.files);
        let unfinished = Unfinished::beside(file)?;
        let mut out = unfinished.file();
        let mut zstd = zstd::Encoder::new(io::BufWriter::new(&mut out), 3).at("write", file)?;
        // The manifest vouches for every file, this for the manifest.
        zstd.include_checksum(true).at("write", file)?;
        let mut tar = tar::Builder::new(zstd);
        let manifest = Manifest { imported: false, ..bundle.manifest.clone() };
        let text = serde_json::to_vec(&manifest).expect("a manifest is plain data");
        append(&mut tar, manifest::FILE, EntryType::Regular, 0o644, text.len() as u64, text.as_slice())
            .at("write", file)?;
        let mut written = HashMap::new();
        let mut done = 0;
        for entry in &bundle.manifest.files {
            if self.cancel.is_cancelled() {
                return Err(BundleError::Interrupted);
            }
            let whole = append_entry(&mut tar, &bundle.path, entry, &mut written);
            if !whole.at("pack", &bundle.path.join(&entry.path))? {
                let findings = vec![format!("{}: content differs", entry.path)];
                return Err(BundleError::Damaged {
                    bundle: bundle.manifest.short_digest().to_owned(),
                    findings,
                });
            }
            done += inventory::bytes([entry]);
            step.progress(done, Some(total), Unit::Bytes, &entry.path);
        }
        let zstd = tar.into_inner().at("write", file)?;
        zstd.finish().and_then(|mut buffer| buffer.flush()).at("write", file)?;
        unfinished.finish(file)?;
        step.done(Outcome::Done);
        Ok(())
    }
}

/// Adds one entry. Says whether the file was what the manifest says: if not, the archive is of no use.
fn append_entry(
    tar: &mut tar::Builder<impl Write>,
    root: &Path,
    entry: &Entry,
    written: &mut HashMap<u64, String>,
) -> io::Result<bool> {
    match &entry.kind {
        Kind::Dir { mode } => append(tar, &entry.path, EntryType::Directory, *mode, 0, io::empty()),
        Kind::Link { target } => append_link(tar, &entry.path, EntryType::Symlink, target),
        Kind::File { mode, size, sha256 } => {
            let path = root.join(&entry.path);
            let inode = fs::symlink_metadata(&path)?.ino();
            if let Some(first) = written.get(&inode) {
                append_link(tar, &entry.path, EntryType::Link, first)?;
                return Ok(true);
            }
            let mut content = Hashed::new(File::open(&path)?);
            append(tar, &entry.path, EntryType::Regular, *mode, *size, &mut content)?;
            written.insert(inode, entry.path.clone());
            return Ok(content.finish() == (*size, sha256.clone()));
        }
    }?;
    Ok(true)
}

/// One entry in the plain old format, without extensions: the reader refuses those.
fn append(
    tar: &mut tar::Builder<impl Write>,
    path: &str,
    kind: EntryType,
    mode: u32,
    size: u64,
    content: impl io::Read,
) -> io::Result<()> {
    let mut header = Header::new_ustar();
    header.set_path(path)?;
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_cksum();
    tar.append(&header, content)
}

fn append_link(
    tar: &mut tar::Builder<impl Write>,
    path: &str,
    kind: EntryType,
    target: &str,
) -> io::Result<()> {
    let mut header = Header::new_ustar();
    header.set_path(path)?;
    header.set_entry_type(kind);
    header.set_link_name_literal(target)?;
    header.set_mode(0o777);
    header.set_size(0);
    header.set_cksum();
    tar.append(&header, io::empty())
}
