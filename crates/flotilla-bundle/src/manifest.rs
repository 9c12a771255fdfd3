//! `manifest.json`: what a bundle holds, where each part came from, and the checksum of every file.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

use flotilla_core::layout::STORE;
use serde::{Deserialize, Serialize};

use crate::error::{At, BundleError, Result};
use crate::hash;
use crate::inventory::{self, Entry};
use crate::part::Parts;
use crate::source::Provenance;
use crate::store::DATABASES;

pub(crate) const FILE: &str = "manifest.json";
/// The layout of a bundle that this program makes and understands.
pub(crate) const FORMAT: u32 = 1;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Manifest {
    pub format: u32,
    /// SHA-256 over what it is for and every file but those that vary.
    pub digest: String,
    pub kubernetes: String,
    pub architecture: String,
    pub source: String,
    /// Of the part of the lock file it was made from: tells whether another build would be the same.
    pub recipe: String,
    pub created: String,
    /// Whether it came out of an archive: then what it was made from is not verified. Noted by this machine, never
    /// believed of an archive.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub imported: bool,
    pub components: Vec<ComponentRecord>,
    /// Names as kubeadm prints them.
    pub images: Vec<String>,
    pub sizes: Sizes,
    /// Files whose content differs between two builds from the same source, and why.
    pub varies: Vec<Varies>,
    pub files: Vec<Entry>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ComponentRecord {
    pub name: String,
    pub version: String,
    #[serde(flatten)]
    pub provenance: Provenance,
    /// Compilers that leave their mark in it.
    pub built_with: BTreeMap<String, String>,
    pub bytes: u64,
}

/// Where the bytes go.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Sizes {
    /// Of all files in `bin/`.
    pub bin: u64,
    /// Of all files in `rootfs/`.
    pub rootfs: u64,
    /// Of all files in `store/`.
    pub store: u64,
    /// On disk: a file that is in several places counts once.
    pub on_disk: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Varies {
    pub path: String,
    pub why: String,
}

impl Manifest {
    pub(crate) fn load(bundle: &Path) -> Result<Self> {
        let path = bundle.join(FILE);
        let text = fs::read(&path).at("read", &path)?;
        let unreadable = |source| BundleError::Manifest { bundle: bundle.to_owned(), source };
        let manifest: Self = serde_json::from_slice(&text).map_err(unreadable)?;
        if manifest.format != FORMAT {
            let reason = format!("format {} is not supported, expected {FORMAT}", manifest.format);
            return Err(unreadable(serde::de::Error::custom(reason)));
        }
        Ok(manifest)
    }

    /// The digest that the files listed would have.
    pub fn computed_digest(&self) -> String {
        let varying: HashSet<&str> = self.varies.iter().map(|varies| varies.path.as_str()).collect();
        let files =
            inventory::digest(self.files.iter().filter(|entry| !varying.contains(entry.path.as_str())));
        let Self { format, kubernetes, architecture, images, .. } = self;
        hash::of_bytes(format!("{format} {kubernetes:?} {architecture:?} {images:?} {files}").as_bytes())
    }

    /// A digest as people see it and type it.
    pub fn short_digest(&self) -> &str {
        self.digest.get(..12).unwrap_or(&self.digest)
    }
}

/// What differs from one build to the next.
pub(crate) fn varying_files() -> Vec<Varies> {
    let why = "a database of containerd's, which notes when each image was imported";
    DATABASES.iter().map(|path| Varies { path: format!("{STORE}/{path}"), why: why.into() }).collect()
}

pub(crate) fn component_records(parts: &Parts) -> Vec<ComponentRecord> {
    parts
        .iter()
        .map(|part| ComponentRecord {
            name: part.record.name.clone(),
            version: part.record.version.clone(),
            provenance: part.record.provenance.clone(),
            built_with: part.record.tools.clone(),
            bytes: inventory::bytes(&part.record.files),
        })
        .collect()
}
