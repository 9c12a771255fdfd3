//! Archives made by hand, as an attacker would make them.

use std::io::Write;

use tar::{EntryType, Header};

use crate::fixture;
use crate::inventory::{Entry, Kind};
use crate::manifest::{self, Manifest};

/// An archive in the making: a good one, until a test changes it.
pub(super) struct Forgery {
    pub(super) manifest: Manifest,
    /// Instead of the manifest.
    pub(super) manifest_item: Option<Item>,
    pub(super) items: Vec<Item>,
}

/// One entry of the tar.
#[derive(Clone)]
pub(super) struct Item {
    pub(super) path: String,
    pub(super) kind: EntryType,
    pub(super) link: String,
    pub(super) content: Content,
    /// What its header says, if that is not the truth.
    pub(super) size: Option<u64>,
}

#[derive(Clone)]
pub(super) enum Content {
    Bytes(Vec<u8>),
    Zeros(u64),
}

impl Item {
    pub(super) fn new(path: &str, kind: EntryType) -> Self {
        Self { path: path.into(), kind, link: String::new(), content: Content::Bytes(Vec::new()), size: None }
    }

    pub(super) fn file(path: &str, content: impl Into<Vec<u8>>) -> Self {
        Self::new(path, EntryType::Regular).with(Content::Bytes(content.into()))
    }

    pub(super) fn link(path: &str, kind: EntryType, target: &str) -> Self {
        Self { link: target.into(), ..Self::new(path, kind) }
    }

    pub(super) fn with(self, content: Content) -> Self {
        Self { content, ..self }
    }

    /// Written past the checks of the tar library, which would not let us forge.
    fn write(&self, out: &mut impl Write) {
        let mut header = Header::new_ustar();
        let old = header.as_old_mut();
        old.name[..self.path.len()].copy_from_slice(self.path.as_bytes());
        old.linkname[..self.link.len()].copy_from_slice(self.link.as_bytes());
        header.set_entry_type(self.kind);
        header.set_mode(0o644);
        let (bytes, zeros) = match &self.content {
            Content::Bytes(bytes) => (bytes.as_slice(), 0),
            Content::Zeros(count) => (&[][..], *count),
        };
        let size = bytes.len() as u64 + zeros;
        header.set_size(self.size.unwrap_or(size));
        header.set_cksum();
        out.write_all(header.as_bytes()).unwrap();
        out.write_all(bytes).unwrap();
        write_zeros(out, size.next_multiple_of(512) - bytes.len() as u64);
    }
}

impl Forgery {
    /// A good archive of a small bundle.
    pub(super) fn new() -> Self {
        let home = fixture::directory();
        let bundle_store = fixture::bundle_store(home.path());
        let bundle = fixture::put_bundle(&bundle_store, "v1.37.1", "kubelet");
        let [first, second] = fixture::SHARED;
        let item = |entry: &Entry| match &entry.kind {
            Kind::Dir { .. } => Item::new(&entry.path, EntryType::Directory),
            Kind::Link { target } => Item::link(&entry.path, EntryType::Symlink, target),
            Kind::File { .. } if entry.path == second => Item::link(second, EntryType::Link, first),
            Kind::File { .. } => {
                Item::file(&entry.path, std::fs::read(bundle.path.join(&entry.path)).unwrap())
            }
        };
        let items = bundle.manifest.files.iter().map(item).collect();
        Self { manifest: bundle.manifest, manifest_item: None, items }
    }

    /// Adds something to the manifest and to the archive.
    pub(super) fn add(mut self, kind: Kind, item: Item) -> Self {
        self.manifest.files.push(Entry { path: item.path.clone(), kind });
        self.items.push(item);
        self.signed()
    }

    /// Changes the manifest, so that its digest is right again.
    pub(super) fn listing(mut self, change: impl FnOnce(&mut Manifest)) -> Self {
        change(&mut self.manifest);
        self.signed()
    }

    /// Changes the manifest and leaves its digest as it was.
    pub(super) fn listing_unsigned(mut self, change: impl FnOnce(&mut Manifest)) -> Self {
        change(&mut self.manifest);
        self
    }

    /// Changes the archive, not the manifest.
    pub(super) fn holding(mut self, change: impl FnOnce(&mut Vec<Item>)) -> Self {
        change(&mut self.items);
        self
    }

    /// Puts something else in the place of one entry of the archive.
    pub(super) fn replacing(self, path: &str, item: Item) -> Self {
        self.holding(|items| *items.iter_mut().find(|old| old.path == path).unwrap() = item)
    }

    fn signed(mut self) -> Self {
        self.manifest.digest = self.manifest.computed_digest();
        self
    }

    pub(super) fn pack(&self) -> Vec<u8> {
        let text = serde_json::to_vec(&self.manifest).unwrap();
        let manifest = self.manifest_item.clone().unwrap_or_else(|| Item::file(manifest::FILE, text));
        pack(std::iter::once(&manifest).chain(&self.items))
    }
}

pub(super) fn pack<'a>(items: impl IntoIterator<Item = &'a Item>) -> Vec<u8> {
    let mut out = zstd::Encoder::new(Vec::new(), 1).unwrap();
    for item in items {
        item.write(&mut out);
    }
    out.write_all(&[0; 1024]).unwrap();
    out.finish().unwrap()
}

/// In large pieces: this code is not optimised.
fn write_zeros(out: &mut impl Write, count: u64) {
    let piece = vec![0; 1 << 20];
    let mut left = usize::try_from(count).unwrap();
    while left > 0 {
        let now = left.min(piece.len());
        out.write_all(&piece[..now]).unwrap();
        left -= now;
    }
}

/// Compressed zeros, as part of an archive.
pub(super) fn packed_zeros(count: u64) -> Vec<u8> {
    let mut out = zstd::Encoder::new(Vec::new(), 1).unwrap();
    write_zeros(&mut out, count);
    out.finish().unwrap()
}

/// A file as the manifest lists it.
pub(super) fn listed(content: &[u8]) -> Kind {
    Kind::File { mode: 0o644, size: content.len() as u64, sha256: crate::hash::of_bytes(content) }
}
