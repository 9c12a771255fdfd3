//! Files of the host.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use flotilla_engine::EngineError;
use flotilla_files::directory_of;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::end::{Entry, Kind};
use super::whole::filled_in;

/// The mode of a directory like `/tmp`: all may write to it, and only owners remove their files.
const SHARED: u32 = 0o1002;

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

pub(super) fn kind(metadata: &Metadata) -> Kind {
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
        return fill(stream(path).map_err(unwritable)?).await;
    }
    let name = path.file_name().ok_or_else(|| unwritable(io::ErrorKind::InvalidInput.into()))?;
    let folder = directory_of(path);
    fs::create_dir_all(folder).map_err(|error| failed("make", folder, error))?;
    filled_in(folder, name, mode, unwritable, fill).await
}

/// Opens what is no file. A pipe that nobody reads from is an error, and so is one that another user has placed in a
/// directory that all may write to: they would read what is copied.
fn stream(path: &Path) -> io::Result<File> {
    let stream = File::options().write(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path);
    let stream = stream.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NXIO) => io::Error::other("nobody reads from it"),
        _ => error,
    })?;
    let (found, folder) = (stream.metadata()?, fs::metadata(directory_of(path))?);
    let is_shared = folder.mode() & SHARED == SHARED;
    let is_own = [rustix::process::geteuid().as_raw(), folder.uid()].contains(&found.uid());
    if found.file_type().is_fifo() && is_shared && !is_own {
        return Err(io::Error::other("it is a pipe of another user"));
    }
    let flags = fcntl_getfl(&stream)?;
    fcntl_setfl(&stream, flags - OFlags::NONBLOCK)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::symlink;

    use super::super::tree::Tree;
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
            let tree = Tree::open(&to).unwrap();
            tree.make_folders("", &entries).unwrap();
            tree.make_links("", &entries).unwrap();
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
    async fn a_file_is_its_owners_alone_until_it_is_whole_and_touches_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("key");
        let other = folder.path().join("key.unfinished");
        fs::write(&other, "the user's").unwrap();
        let (first, second) = (&target, &target);
        filled(first, 0o644, async |mut file| {
            for item in fs::read_dir(folder.path()).unwrap().map(|item| item.unwrap().path()) {
                assert!(item == other || mode(&item) == 0o600, "{}", item.display());
            }
            // Another copy to the same place goes its own way.
            filled(second, 0o600, async |_| Err(EngineError::Interrupted)).await.unwrap_err();
            io::Write::write_all(&mut file, b"whole").map_err(|error| failed("write", &target, error))
        })
        .await
        .unwrap();
        assert_eq!((fs::read_to_string(&target).unwrap().as_str(), mode(&target)), ("whole", 0o644));
        assert_eq!(fs::read_to_string(&other).unwrap(), "the user's");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[tokio::test]
    async fn a_pipe_that_nobody_reads_or_that_another_user_placed_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let make = rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o666),
            0,
        );
        make.unwrap();
        let error = filled(&pipe, 0o600, async |_| Ok(())).await.unwrap_err();
        assert!(flotilla_core::explain::one_line(&error).ends_with("nobody reads from it"), "{error:?}");
        let _reader = File::options().read(true).write(true).open(&pipe).unwrap();
        filled(&pipe, 0o600, async |_| Ok(())).await.unwrap();
        if !flotilla_testkit::is_root() {
            return flotilla_testkit::skip("only root gives files away");
        }
        fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
        std::os::unix::fs::chown(&pipe, Some(1234), Some(1234)).unwrap();
        let error = filled(&pipe, 0o600, async |_| Ok(())).await.unwrap_err();
        assert!(flotilla_core::explain::one_line(&error).ends_with("a pipe of another user"), "{error:?}");
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
