//! What is in a directory, file by file: of a part, of a bundle, of an archive.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use walkdir::WalkDir;

use crate::error::{At, BundleError, Result};
use crate::hash;

/// One thing in the directory.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct Entry {
    /// Relative to the directory, with `/` between the parts, without `.` or `..`.
    pub path: String,
    #[serde(flatten)]
    pub kind: Kind,
}

#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Kind {
    Dir { mode: u32 },
    File { mode: u32, size: u64, sha256: String },
    Link { target: String },
}

/// Everything below `root`, sorted by path, each file hashed. `seen` is called with the bytes of each file.
pub(crate) fn scan(root: &Path, mut seen: impl FnMut(u64)) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for item in WalkDir::new(root).min_depth(1).sort_by_file_name() {
        let item = item.map_err(|error| walk_error(root, error))?;
        let path = item.path();
        let metadata = fs::symlink_metadata(path).at("read", path)?;
        let kind = kind_of(path, &metadata)?;
        if let Kind::File { size, .. } = kind {
            seen(size);
        }
        entries.push(Entry { path: relative(root, path)?, kind });
    }
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(entries)
}

/// Says what differs between the inventory and the directory: every file that changed, is missing or was added.
pub(crate) fn compare(root: &Path, expected: &[Entry], mut seen: impl FnMut(u64)) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for entry in expected {
        let path = root.join(&entry.path);
        match fs::symlink_metadata(&path) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                findings.push(format!("{}: missing", entry.path));
            }
            Err(error) => return Err(error).at("read", &path),
            Ok(metadata) if is_special(&metadata) => {
                findings.push(format!("{}: has another type", entry.path));
            }
            Ok(metadata) => {
                let actual = kind_of(&path, &metadata)?;
                if let Some(what) = difference(&entry.kind, &actual) {
                    findings.push(format!("{}: {what}", entry.path));
                }
                if let Kind::File { size, .. } = actual {
                    seen(size);
                }
            }
        }
    }
    let known: BTreeSet<&str> = expected.iter().map(|entry| entry.path.as_str()).collect();
    for item in WalkDir::new(root).min_depth(1).sort_by_file_name() {
        let item = item.map_err(|error| walk_error(root, error))?;
        let path = item.path().strip_prefix(root).expect("a path below the root that is walked");
        if !path.to_str().is_some_and(|path| known.contains(path)) {
            findings.push(format!("{}: not part of the bundle", path.display()));
        }
    }
    Ok(findings)
}

/// Whether the directory has this entry as the inventory says.
pub(crate) fn has(root: &Path, entry: &Entry) -> Result<bool> {
    let path = root.join(&entry.path);
    match fs::symlink_metadata(&path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(error) => Err(error).at("read", &path),
        Ok(metadata) if is_special(&metadata) => Ok(false),
        Ok(metadata) => Ok(kind_of(&path, &metadata)? == entry.kind),
    }
}

/// SHA-256 over the entries: the same for the same files, whatever their order or age.
pub(crate) fn digest<'a>(entries: impl Iterator<Item = &'a Entry>) -> String {
    let mut lines: Vec<String> = entries
        .map(|entry| match &entry.kind {
            Kind::Dir { mode } => format!("{:?} dir {mode:o}\n", entry.path),
            Kind::File { mode, size, sha256 } => format!("{:?} file {mode:o} {size} {sha256}\n", entry.path),
            Kind::Link { target } => format!("{:?} link {target:?}\n", entry.path),
        })
        .collect();
    lines.sort();
    let mut hash = Sha256::new();
    for line in lines {
        hash.update(line);
    }
    hash::hex(&hash.finalize())
}

/// Bytes of the files among the entries.
pub(crate) fn bytes<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> u64 {
    entries.into_iter().map(|entry| if let Kind::File { size, .. } = entry.kind { size } else { 0 }).sum()
}

fn difference(expected: &Kind, actual: &Kind) -> Option<String> {
    match (expected, actual) {
        (a, b) if a == b => None,
        (Kind::File { size: want, .. }, Kind::File { size: have, .. }) if want != have => {
            Some(format!("{have} bytes instead of {want}"))
        }
        (Kind::File { sha256: want, .. }, Kind::File { sha256: have, .. }) if want != have => {
            Some("content differs".into())
        }
        (
            Kind::File { mode: want, .. } | Kind::Dir { mode: want },
            Kind::File { mode: have, .. } | Kind::Dir { mode: have },
        ) if want != have && std::mem::discriminant(expected) == std::mem::discriminant(actual) => {
            Some(format!("mode {have:o} instead of {want:o}"))
        }
        (Kind::Link { target: want }, Kind::Link { target: have }) => {
            Some(format!("links to {have} instead of {want}"))
        }
        _ => Some("has another type".into()),
    }
}

fn kind_of(path: &Path, metadata: &Metadata) -> Result<Kind> {
    let mode = metadata.permissions().mode() & 0o7777;
    if metadata.is_symlink() {
        let target = fs::read_link(path).at("read", path)?;
        Ok(Kind::Link { target: utf8(&target)? })
    } else if metadata.is_dir() {
        Ok(Kind::Dir { mode })
    } else if is_special(metadata) {
        let source = std::io::Error::other("neither a file, a directory nor a link");
        Err(BundleError::Io { action: "take in", path: path.to_owned(), source })
    } else {
        Ok(Kind::File { mode, size: metadata.size(), sha256: hash::of_file(path).at("read", path)? })
    }
}

/// A device, a socket or a pipe: no bundle has them, and reading one may never end.
fn is_special(metadata: &Metadata) -> bool {
    !(metadata.is_file() || metadata.is_dir() || metadata.is_symlink())
}

fn relative(root: &Path, path: &Path) -> Result<String> {
    utf8(path.strip_prefix(root).expect("a path below the root that is walked"))
}

fn utf8(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        let source = std::io::Error::other("the name is not UTF-8");
        BundleError::Io { action: "take in", path: path.to_owned(), source }
    })
}

fn walk_error(root: &Path, error: walkdir::Error) -> BundleError {
    let path = error.path().map_or_else(|| root.to_owned(), PathBuf::from);
    BundleError::Io { action: "read", path, source: error.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("bin")).unwrap();
        fs::write(dir.path().join("bin/tool"), "tool").unwrap();
        fs::write(dir.path().join("bin/other"), "other").unwrap();
        // Whatever the umask is.
        fs::set_permissions(dir.path().join("bin/tool"), PermissionsExt::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink("tool", dir.path().join("bin/link")).unwrap();
        dir
    }

    fn findings_after(change: impl FnOnce(&Path)) -> Vec<String> {
        let dir = sample();
        let entries = scan(dir.path(), |_| ()).unwrap();
        change(dir.path());
        compare(dir.path(), &entries, |_| ()).unwrap()
    }

    #[test]
    fn an_untouched_directory_has_no_findings() {
        assert!(findings_after(|_| ()).is_empty());
    }

    #[test]
    fn a_flipped_byte_a_missing_and_an_added_file_are_named() {
        assert_eq!(
            findings_after(|p| fs::write(p.join("bin/tool"), "tOol").unwrap()),
            ["bin/tool: content differs"]
        );
        assert_eq!(findings_after(|p| fs::remove_file(p.join("bin/other")).unwrap()), ["bin/other: missing"]);
        assert_eq!(
            findings_after(|p| fs::write(p.join("extra"), "").unwrap()),
            ["extra: not part of the bundle"]
        );
    }

    #[test]
    fn a_changed_mode_link_or_type_is_named() {
        let chmod =
            |p: &Path| fs::set_permissions(p.join("bin/tool"), PermissionsExt::from_mode(0o600)).unwrap();
        assert_eq!(findings_after(chmod), ["bin/tool: mode 600 instead of 644"]);
        let relink = |p: &Path| {
            fs::remove_file(p.join("bin/link")).unwrap();
            std::os::unix::fs::symlink("other", p.join("bin/link")).unwrap();
        };
        assert_eq!(findings_after(relink), ["bin/link: links to other instead of tool"]);
        let retype = |p: &Path| {
            fs::remove_file(p.join("bin/link")).unwrap();
            fs::create_dir(p.join("bin/link")).unwrap();
        };
        assert_eq!(findings_after(retype), ["bin/link: has another type"]);
    }

    #[test]
    fn a_pipe_or_a_file_in_the_place_of_something_is_a_finding() {
        let pipe = |p: &Path| {
            fs::remove_file(p.join("bin/tool")).unwrap();
            rustix::fs::mknodat(
                rustix::fs::CWD,
                p.join("bin/tool"),
                rustix::fs::FileType::Fifo,
                0o644.into(),
                0,
            )
            .unwrap();
        };
        assert_eq!(findings_after(pipe), ["bin/tool: has another type"]);
        let file = |p: &Path| {
            fs::remove_dir_all(p.join("bin")).unwrap();
            fs::write(p.join("bin"), "").unwrap();
        };
        let below = ["link", "other", "tool"].map(|name| format!("bin/{name}: missing"));
        assert_eq!(findings_after(file)[0], "bin: has another type");
        assert_eq!(findings_after(file)[1..], below);
    }

    #[test]
    fn an_added_file_whose_name_is_not_text_is_a_finding() {
        use std::os::unix::ffi::OsStrExt;
        let add = |p: &Path| fs::write(p.join(std::ffi::OsStr::from_bytes(b"x\xff")), "").unwrap();
        assert_eq!(findings_after(add), ["x\u{fffd}: not part of the bundle"]);
    }

    #[test]
    fn sockets_and_devices_are_refused() {
        let dir = sample();
        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
        assert!(scan(dir.path(), |_| ()).is_err());
    }

    proptest! {
        #[test]
        fn the_digest_depends_on_content_and_not_on_order(names in proptest::collection::btree_set("[a-z]{1,8}", 2..6), turn in 0usize..5) {
            let mut entries: Vec<Entry> = names
                .iter()
                .map(|n| Entry { path: n.clone(), kind: Kind::File { mode: 0o644, size: 1, sha256: n.repeat(2) } })
                .collect();
            let before = digest(entries.iter());
            let turn = turn % entries.len();
            entries.rotate_left(turn);
            prop_assert_eq!(&before, &digest(entries.iter()));
            entries[0].path.push('x');
            prop_assert_ne!(&before, &digest(entries.iter()));
        }
    }
}
