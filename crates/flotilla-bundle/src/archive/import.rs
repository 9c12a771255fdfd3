//! Reading an archive that anybody may have made: everything in it is checked before it is believed, and nothing is
//! left behind if it is not what it says.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use flotilla_core::Unit;
use flotilla_core::event::size;
use flotilla_core::event::{Outcome, Reporter, Step};
use flotilla_core::layout::{BIN, ROOTFS, SNAPSHOTS, STORE};
use flotilla_linux::disk;
use serde_json::Value;
use tar::EntryType;

use super::{BUNDLE_LIMIT, END_LIMIT, MANIFEST_LIMIT, RATIO_LIMIT};
use crate::bundle_store::{Bundle, BundleStore, UNFINISHED};
use crate::error::{At, BundleError, Result};
use crate::hash::Hashed;
use crate::image;
use crate::inventory::{self, Entry, Kind};
use crate::manifest::{self, Manifest};
use crate::unpack::{self, Unpack};

/// What a bundle has beside its manifest.
const DIRECTORIES: [&str; 3] = [BIN, ROOTFS, STORE];

type Tar<'a> = tar::Archive<zstd::Decoder<'a, io::BufReader<File>>>;

/// Why an archive is refused, or what went wrong on our side.
enum Refusal {
    Content(String),
    Own(BundleError),
}

impl From<BundleError> for Refusal {
    fn from(error: BundleError) -> Self {
        Self::Own(error)
    }
}

impl BundleStore {
    /// Imports the bundle in `file` into the bundle store. With `expected`, only if that is its digest.
    pub fn import(&self, file: &Path, expected: Option<&str>, reporter: &dyn Reporter) -> Result<Bundle> {
        let archive = File::open(file).at("read", file)?;
        let compressed = archive.metadata().at("read", file)?.len();
        self.check_permission()?;
        let refused =
            |reason: String| BundleError::Archive { path: file.to_owned(), reason: printable(&reason) };
        let _lock = self.acquire("import a bundle", reporter)?;
        let bundles = self.bundles();
        let work = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(&bundles).at("make", &bundles)?;
        let step = Step::start(reporter, "import", format!("reading {}", file.display()), None);
        let zstd = zstd::Decoder::new(archive).map_err(|error| refused(error.to_string()))?;
        let unpacked = self.unpack(tar::Archive::new(zstd), compressed, expected, work.path(), &step);
        let manifest = unpacked.map_err(|refusal| match refusal {
            Refusal::Content(reason) => refused(reason),
            Refusal::Own(error) => error,
        })?;
        let bundle = self.add(work.path(), manifest)?;
        step.done(Outcome::Done);
        Ok(bundle)
    }

    fn unpack(
        &self,
        mut tar: Tar<'_>,
        compressed: u64,
        expected: Option<&str>,
        work: &Path,
        step: &Step<'_>,
    ) -> Result<Manifest, Refusal> {
        // Raw: extensions are not interpreted but refused, so no header can ask for memory.
        let mut entries = tar.entries().map_err(content)?.raw(true);
        let empty = || Refusal::Content("it is empty".into());
        let first = entries.next().filter(|_| compressed > 0).ok_or_else(empty)?.map_err(content)?;
        let manifest = read_manifest(first)?;
        check(&manifest, compressed, expected)?;
        let total = inventory::bytes(&manifest.files);
        let free = disk::free_bytes(work).at("read", work)?;
        // Its images once more, as nodes mount them.
        let images = manifest.files.iter().filter(|entry| entry.path.starts_with(SNAPSHOTS));
        let needed = total + inventory::bytes(images);
        if free < needed {
            return Err(Refusal::Own(BundleError::DiskSpace { path: work.to_owned(), needed, free }));
        }
        let mut awaited: HashMap<&str, &Kind> =
            manifest.files.iter().map(|entry| (entry.path.as_str(), &entry.kind)).collect();
        let mut written = HashMap::new();
        let mut unpack = Unpack::into(work);
        let mut done = 0;
        for entry in entries {
            if self.cancel.is_cancelled() {
                return Err(Refusal::Own(BundleError::Interrupted));
            }
            let entry = entry.map_err(content)?;
            let path = entry.path().map_err(content)?.into_owned();
            let Some((name, kind)) = path.to_str().and_then(|name| awaited.remove_entry(name)) else {
                let name = path.to_string_lossy();
                return Err(Refusal::Content(format!("{name:?} is not in the manifest, or a duplicate")));
            };
            done += unpack_entry(entry, &path, kind, &written, &mut unpack)?;
            written.insert(name, kind);
            step.progress(done, Some(total), Unit::Bytes, name);
        }
        if let Some(path) = awaited.keys().min() {
            return Err(Refusal::Content(format!("{path} is missing: the file is truncated")));
        }
        check_end(tar.into_inner())?;
        unpack.finish()?;
        Ok(manifest)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "as map_err has it")]
fn content(error: io::Error) -> Refusal {
    unreadable(&error.to_string())
}

fn unreadable(why: &str) -> Refusal {
    Refusal::Content(format!("cannot read it: {why}"))
}

/// Nothing may follow but empty blocks; zstd's checksum, which comes last, is checked on the way.
fn check_end(rest: impl Read) -> Result<(), Refusal> {
    let mut end = Vec::new();
    rest.take(END_LIMIT).read_to_end(&mut end).map_err(content)?;
    if end.len() as u64 == END_LIMIT || end.iter().any(|byte| *byte != 0) {
        return Err(Refusal::Content("data follows the end".into()));
    }
    Ok(())
}

fn read_manifest(entry: tar::Entry<'_, impl Read>) -> Result<Manifest, Refusal> {
    let is_manifest = entry.path().is_ok_and(|path| path == Path::new(manifest::FILE));
    if !is_manifest || entry.header().entry_type() != EntryType::Regular {
        return Err(Refusal::Content(format!("the first entry is not {}", manifest::FILE)));
    }
    if entry.size() > MANIFEST_LIMIT {
        return Err(Refusal::Content(format!("the manifest is too large: {}", size(entry.size()))));
    }
    let mut text = Vec::new();
    entry.take(MANIFEST_LIMIT).read_to_end(&mut text).map_err(content)?;
    let manifest: Manifest = serde_json::from_slice(&text)
        .map_err(|error| Refusal::Content(format!("cannot read the manifest: {error}")))?;
    Ok(Manifest { imported: true, ..manifest })
}

/// Text out of an archive as it may be shown: nothing in it is a command for a terminal.
fn printable(text: &str) -> String {
    let shown = |c: char| if is_unprintable(c) { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(shown).collect()
}

/// Control characters, and those that let a line look other than it is.
fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// A text of the manifest that `list` or `show` must not print as it is.
fn unprintable(manifest: &Manifest) -> Option<String> {
    // Names of files are checked one by one, and there are many of them.
    let notes = Manifest { files: Vec::new(), ..manifest.clone() };
    let mut open = vec![serde_json::to_value(notes).expect("a manifest is plain data")];
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) if text.contains(is_unprintable) => return Some(text),
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => {
                open.extend(fields.into_iter().flat_map(|(name, value)| [Value::String(name), value]));
            }
            _ => {}
        }
    }
    None
}

/// Everything that the manifest alone can tell.
fn check(manifest: &Manifest, compressed: u64, expected: Option<&str>) -> Result<(), Refusal> {
    let refuse = |reason: String| Err(Refusal::Content(reason));
    if manifest.format != manifest::FORMAT {
        return refuse(format!("format {} is not supported, expected {}", manifest.format, manifest::FORMAT));
    }
    if manifest.architecture != image::architecture() {
        return refuse(format!(
            "it is for {}, this machine is {}",
            manifest.architecture,
            image::architecture()
        ));
    }
    let may_vary = manifest::varying_files();
    if let Some(varies) = manifest.varies.iter().find(|v| !may_vary.iter().any(|known| known.path == v.path))
    {
        return refuse(format!("the digest does not cover {}", varies.path));
    }
    if manifest.kubernetes.chars().any(|c| !c.is_ascii_graphic()) {
        return refuse(format!("invalid version {:?}", manifest.kubernetes));
    }
    if let Some(text) = unprintable(manifest) {
        return refuse(format!("the manifest contains control characters: {text:?}"));
    }
    if manifest.computed_digest() != manifest.digest {
        return refuse("the digest does not match the listed files".into());
    }
    let expected = expected.map(|digest| digest.strip_prefix("sha256:").unwrap_or(digest));
    if let Some(expected) = expected.filter(|expected| *expected != manifest.digest) {
        return refuse(format!("the digest is {}, expected {expected}", manifest.digest));
    }
    let is_directory = |entry: &&Entry| matches!(entry.kind, Kind::Dir { .. });
    let directories: HashSet<&str> =
        manifest.files.iter().filter(is_directory).map(|entry| entry.path.as_str()).collect();
    if let Some(directory) = DIRECTORIES.iter().find(|directory| !directories.contains(*directory)) {
        return refuse(format!("the directory {directory} is missing"));
    }
    let mut total: u64 = 0;
    let mut seen = HashSet::new();
    for Entry { path, kind } in &manifest.files {
        let clean = unpack::inside(Path::new(path)).filter(|clean| clean.to_str() == Some(path));
        let allowed =
            clean.is_some_and(|clean| DIRECTORIES.iter().any(|directory| clean.starts_with(directory)));
        if !allowed || path.contains(is_unprintable) || !seen.insert(path) {
            return refuse(format!("invalid path {path:?}"));
        }
        // Each directory is listed: so none of them is a link, and the digest covers all of them.
        if path.rsplit_once('/').is_some_and(|(parent, _)| !directories.contains(parent)) {
            return refuse(format!("{path} is in no listed directory"));
        }
        match kind {
            Kind::Link { target } if !unpack::link_stays_inside(Path::new(path), Path::new(target)) => {
                return refuse(format!("the link {path} points outside the bundle: {target:?}"));
            }
            Kind::File { mode, .. } | Kind::Dir { mode } if mode & !0o1777 != 0 => {
                return refuse(format!("{path} has the invalid mode {mode:o}"));
            }
            Kind::File { size, .. } => total = total.saturating_add(*size),
            _ => {}
        }
    }
    let limit = BUNDLE_LIMIT.min(compressed.saturating_mul(RATIO_LIMIT));
    if total > limit {
        return refuse(format!("{} would expand to {}", size(compressed), size(total)));
    }
    Ok(())
}

/// Writes one entry, if it is what the manifest says. Gives its bytes.
fn unpack_entry(
    mut entry: tar::Entry<'_, impl Read>,
    path: &Path,
    kind: &Kind,
    written: &HashMap<&str, &Kind>,
    unpack: &mut Unpack<'_>,
) -> Result<u64, Refusal> {
    let differs = || Refusal::Content(format!("{} does not match the manifest", path.display()));
    let kind_of_entry = entry.header().entry_type();
    // Whatever came with a directory or a link would be read to be skipped, however much it is.
    if kind_of_entry != EntryType::Regular && entry.size() != 0 {
        return Err(differs());
    }
    let target = entry.link_name().map_err(content)?.map(std::borrow::Cow::into_owned);
    match (kind_of_entry, kind, target) {
        (EntryType::Directory, Kind::Dir { mode }, _) => unpack.dir(path, *mode)?,
        // Compared as text: as paths, `a` and `a/` were the same.
        (EntryType::Symlink, Kind::Link { target: wanted }, Some(target))
            if target.as_os_str() == wanted.as_str() =>
        {
            unpack.link(path.to_owned(), target);
        }
        (EntryType::Link, Kind::File { .. }, Some(target)) => {
            // A second name only for a file that already exists and is, by the manifest, the very same.
            let first = target.to_str().and_then(|name| written.get(name));
            if first != Some(&kind) {
                return Err(differs());
            }
            unpack.hard_link(path, &target)?;
        }
        (EntryType::Regular, Kind::File { mode, size, sha256 }, _) => {
            if entry.size() != *size {
                return Err(differs());
            }
            let mut hashed = Hashed::new(&mut entry);
            let unpacked = unpack.file(path, *mode, *size, &mut hashed);
            if let Some(error) = hashed.failed() {
                return Err(unreadable(error));
            }
            unpacked?;
            if hashed.finish() != (*size, sha256.clone()) {
                return Err(differs());
            }
            return Ok(*size);
        }
        _ => return Err(differs()),
    }
    Ok(0)
}
