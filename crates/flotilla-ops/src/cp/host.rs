//! Files of the host.

use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use flotilla_engine::EngineError;

use super::end::{Entry, Kind};

pub(super) fn failed(action: &'static str, path: &Path, source: io::Error) -> EngineError {
    EngineError::Io { action, path: path.to_owned(), source }
}

/// What is there, behind links; none if there is nothing.
pub(super) fn look(path: &Path) -> Result<Option<Kind>, EngineError> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path, error)),
        Ok(metadata) => Ok(Some(kind(&metadata))),
    }
}

fn kind(metadata: &Metadata) -> Kind {
    let mode = metadata.permissions().mode() & 0o7777;
    if metadata.is_dir() {
        Kind::Folder { mode }
    } else if metadata.is_file() {
        Kind::File { mode }
    } else {
        Kind::Other
    }
}

pub(super) fn list(root: &Path) -> Result<Vec<Entry>, EngineError> {
    let metadata = fs::metadata(root).map_err(|error| failed("read", root, error))?;
    let mut entries = vec![Entry { path: String::new(), kind: kind(&metadata) }];
    let mut todo = vec![root.to_owned()];
    while let Some(folder) = todo.pop() {
        let items = fs::read_dir(&folder).map_err(|error| failed("read", &folder, error))?;
        for item in items {
            let path = item.map_err(|error| failed("read", &folder, error))?.path();
            let entry = entry(root, &path)?;
            if matches!(entry.kind, Kind::Folder { .. }) {
                todo.push(path);
            }
            entries.push(entry);
        }
    }
    Ok(entries)
}

fn entry(root: &Path, path: &Path) -> Result<Entry, EngineError> {
    let unreadable = |error| failed("read", path, error);
    let not_text = || unreadable(io::Error::other("its name is not UTF-8"));
    let metadata = fs::symlink_metadata(path).map_err(unreadable)?;
    let kind = if metadata.is_symlink() {
        let to = fs::read_link(path).map_err(unreadable)?;
        Kind::Link { to: to.into_os_string().into_string().map_err(|_| not_text())? }
    } else {
        kind(&metadata)
    };
    let below = path.strip_prefix(root).ok().and_then(Path::to_str).ok_or_else(not_text)?;
    Ok(Entry { path: below.to_owned(), kind })
}

pub(super) fn make_folders(root: &Path, entries: &[Entry]) -> Result<(), EngineError> {
    for entry in entries {
        let Kind::Folder { mode } = entry.kind else { continue };
        let path = below(root, &entry.path);
        if !path.is_dir() {
            let made = fs::create_dir_all(&path);
            made.and_then(|()| fs::set_permissions(&path, Permissions::from_mode(mode)))
                .map_err(|error| failed("make", &path, error))?;
        }
    }
    Ok(())
}

pub(super) fn make_links(root: &Path, entries: &[Entry]) -> Result<(), EngineError> {
    for entry in entries {
        let Kind::Link { to } = &entry.kind else { continue };
        let path = below(root, &entry.path);
        if path.is_symlink() || path.is_file() {
            fs::remove_file(&path).map_err(|error| failed("replace", &path, error))?;
        }
        symlink(to, &path).map_err(|error| failed("make", &path, error))?;
    }
    Ok(())
}

fn below(root: &Path, path: &str) -> PathBuf {
    if path.is_empty() { root.to_owned() } else { root.join(path) }
}

/// Copies a file of the host's.
pub(super) async fn copy(mut source: File, path: &Path, mode: u32) -> Result<(), EngineError> {
    filled(path, mode, async |mut file| {
        io::copy(&mut source, &mut file).map(drop).map_err(|error| failed("write", path, error))
    })
    .await
}

/// Makes a file that somebody else fills, whole or not at all; makes its directory.
pub(super) async fn filled(
    path: &Path,
    mode: u32,
    fill: impl AsyncFnOnce(File) -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    let unwritable = |error| failed("write", path, error);
    // A terminal or a pipe cannot be replaced, and need not be.
    if path.exists() && !path.is_file() {
        return fill(File::options().write(true).open(path).map_err(unwritable)?).await;
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| failed("make", folder, error))?;
    }
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let unfinished = PathBuf::from(unfinished);
    // A killed predecessor may have left it.
    let _ = fs::remove_file(&unfinished);
    let created = File::create_new(&unfinished).map_err(unwritable)?;
    let written = fill(created).await.and_then(|()| {
        fs::set_permissions(&unfinished, Permissions::from_mode(mode))
            .and_then(|()| fs::rename(&unfinished, path))
            .map_err(unwritable)
    });
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_tree_is_listed_and_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("deep/to"));
        fs::create_dir_all(from.join("a/b")).unwrap();
        fs::set_permissions(from.join("a"), Permissions::from_mode(0o750)).unwrap();
        fs::write(from.join("a/file"), "text").unwrap();
        symlink("file", from.join("a/link")).unwrap();

        let mut entries = list(&from).unwrap();
        let order: Vec<_> = entries.iter().map(|entry| entry.path.clone()).collect();
        let place = |path: &str| order.iter().position(|known| known == path).unwrap();
        assert!(place("") < place("a") && place("a") < place("a/b") && place("a") < place("a/file"));
        // Once more it changes nothing.
        for _ in 0..2 {
            make_folders(&to, &entries).unwrap();
            make_links(&to, &entries).unwrap();
        }
        assert_eq!(mode(&to.join("a")), 0o750);
        assert_eq!(fs::read_link(to.join("a/link")).unwrap(), Path::new("file"));

        entries.retain(|entry| !matches!(entry.kind, Kind::File { .. }));
        let mut copied = list(&to).unwrap();
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        copied.sort_by(|a, b| a.path.cmp(&b.path));
        assert_eq!(copied[1..], entries[1..]);
    }

    #[tokio::test]
    async fn a_file_is_there_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let (source, target) = (folder.path().join("source"), folder.path().join("new/target"));
        fs::write(&source, "text").unwrap();
        copy(File::open(&source).unwrap(), &target, 0o640).await.unwrap();
        assert_eq!((fs::read_to_string(&target).unwrap().as_str(), mode(&target)), ("text", 0o640));

        let broken = filled(&target, 0o600, async |_| Err(EngineError::Interrupted)).await;
        assert!(broken.is_err());
        assert_eq!(fs::read_to_string(&target).unwrap(), "text");
        assert_eq!(fs::read_dir(folder.path().join("new")).unwrap().count(), 1, "nothing unfinished is left");
    }

    #[tokio::test]
    async fn a_device_is_written_to_and_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        fs::write(&source, "text").unwrap();
        copy(File::open(&source).unwrap(), Path::new("/dev/null"), 0o600).await.unwrap();
        assert!(!Path::new("/dev/null").is_file());
    }
}
