//! A directory of the host that a tree is copied to or from.
//!
//! What is in the tree may come from a node, and so do its names; on the host, other users may write there. The directory is held
//! open, and everything is below it: no symbolic link in it is followed, whether it was copied now or before.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use flotilla_engine::EngineError;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, fchmod, mkdirat, openat, openat2, statat, symlinkat,
    unlinkat,
};
use rustix::io::Errno;

use super::end::{Entry, Kind};
use super::host::{failed, kind};
use super::whole::filled_in;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);
const BELOW: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);
/// What directories have that are made on the way to a file.
const PASSABLE: u32 = 0o755;

/// The directory itself, and what people call it.
#[derive(Debug)]
pub(super) struct Tree {
    top: OwnedFd,
    pub(super) path: PathBuf,
}

impl Tree {
    /// Opens a directory, which is made if it does not exist. A person has named it, so links on the way to it are followed.
    pub(super) fn open(path: &Path) -> Result<Self, EngineError> {
        fs::create_dir_all(path).map_err(|error| failed("make", path, error))?;
        let top = openat(CWD, path, DIRECTORY & !OFlags::NOFOLLOW, Mode::empty());
        Ok(Self { top: top.map_err(|errno| failed("read", path, errno.into()))?, path: path.to_owned() })
    }

    /// What is at a path below it; none if there is nothing. A link is neither a file nor a directory.
    pub(super) fn find(&self, path: &str) -> Result<Option<Kind>, EngineError> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let path_or_top = if path.is_empty() { "." } else { path };
        let unreadable = |error| self.failed("read", path, error);
        match openat2(&self.top, path_or_top, flags, Mode::empty(), BELOW) {
            Err(Errno::NOENT) => Ok(None),
            found => {
                let found = found.map_err(in_the_way).map(File::from).map_err(unreadable)?;
                Ok(Some(kind(&found.metadata().map_err(unreadable)?)))
            }
        }
    }

    /// Makes them below a path that is below the directory. One that already exists keeps its mode.
    pub(super) fn make_folders(&self, below: &str, entries: &[Entry]) -> Result<(), EngineError> {
        for entry in entries {
            let Kind::Folder { mode } = entry.kind else { continue };
            let path = join(below, &entry.path);
            let made = self.folder(Path::new(&path), mode);
            made.map_err(|error| self.failed("make", &path, error))?;
        }
        Ok(())
    }

    pub(super) fn make_links(&self, below: &str, entries: &[Entry]) -> Result<(), EngineError> {
        for entry in entries {
            let Kind::Link { to } = &entry.kind else { continue };
            let path = join(below, &entry.path);
            self.make_link(Path::new(&path), to).map_err(|error| self.failed("make", &path, error))?;
        }
        Ok(())
    }

    /// Makes a file that somebody else fills, whole or not at all; makes its directory.
    pub(super) async fn filled(
        &self,
        path: &str,
        mode: u32,
        fill: impl AsyncFnOnce(File) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let unwritable = |error: io::Error| self.failed("write", path, error);
        let (folder, name) = self.place(Path::new(path)).map_err(unwritable)?;
        // The very directory that was opened, whatever is at its path by now.
        let opened = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
        filled_in(&opened, name.as_ref(), mode, unwritable, fill).await
    }

    /// Opens a file in it. Others may write there, and have put a link or a pipe in its place since it was listed.
    pub(super) fn read(&self, path: &str) -> Result<File, EngineError> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let unreadable = |error| self.failed("read", path, error);
        let file = openat2(&self.top, path, flags, Mode::empty(), BELOW).map_err(in_the_way).map(File::from);
        let file = file.map_err(unreadable)?;
        if file.metadata().map_err(unreadable)?.is_file() {
            return Ok(file);
        }
        Err(unreadable(io::Error::other("it is no file any more")))
    }

    fn make_link(&self, path: &Path, to: &str) -> io::Result<()> {
        let (folder, name) = self.place(path)?;
        let is_file = |stat: rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode) != FileType::Directory;
        if statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_file) {
            unlinkat(&folder, &name, AtFlags::empty())?;
        }
        Ok(symlinkat(to, &folder, &name)?)
    }

    /// The directory that something is in, and its name there.
    fn place(&self, path: &Path) -> io::Result<(OwnedFd, String)> {
        let name = path.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidInput)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Ok((self.folder(folder, PASSABLE)?, name.to_owned()))
    }

    /// Opens a directory below the top; makes what is missing, the last one with this mode.
    fn folder(&self, path: &Path, mode: u32) -> io::Result<OwnedFd> {
        let mut here = self.top.try_clone()?;
        let mut parts = path.components().peekable();
        while let Some(part) = parts.next() {
            let mode = Mode::from_raw_mode(if parts.peek().is_none() { mode } else { PASSABLE });
            // Not readable for others until it has its own mode, whatever our umask is.
            let is_new = match mkdirat(&here, part.as_os_str(), Mode::RWXU) {
                Err(Errno::EXIST) => false,
                created => created.map(|()| true)?,
            };
            here = openat2(&here, part.as_os_str(), DIRECTORY, Mode::empty(), BELOW).map_err(in_the_way)?;
            if is_new {
                fchmod(&here, mode)?;
            }
        }
        Ok(here)
    }

    fn failed(&self, action: &'static str, path: &str, error: io::Error) -> EngineError {
        failed(action, &if path.is_empty() { self.path.clone() } else { self.path.join(path) }, error)
    }
}

/// A path below a directory, and what is below that. Either may be empty: the directory itself.
pub(super) fn join(path: &str, below: &str) -> String {
    let parts = [path, below];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

fn in_the_way(errno: Errno) -> io::Error {
    match errno {
        Errno::LOOP | Errno::NOTDIR => io::Error::other("a file or symbolic link is in the way"),
        errno => errno.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn folder(path: &str) -> Entry {
        Entry { path: path.to_owned(), kind: Kind::Folder { mode: 0o750 } }
    }

    #[tokio::test]
    async fn nothing_is_written_through_links_that_came_with_a_copy() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("file"), "host").unwrap();
        let target = dir.path().join("target");
        let tree = Tree::open(&target).unwrap();
        tree.make_folders("", &[folder(""), folder("a/b")]).unwrap();
        assert_eq!(fs::metadata(target.join("a/b")).unwrap().permissions().mode() & 0o7777, 0o750);
        let to = outside.path().to_str().unwrap().to_owned();
        tree.make_links("", &[Entry { path: "a/link".to_owned(), kind: Kind::Link { to } }]).unwrap();
        symlink(outside.path().join("file"), target.join("a/file")).unwrap();

        let write = async |path: &str| {
            tree.filled(path, 0o640, async |mut file| {
                io::Write::write_all(&mut file, b"node")
                    .map_err(|error| failed("write", Path::new(""), error))
            })
            .await
        };
        let error = write("a/link/file").await.unwrap_err();
        assert!(
            flotilla_core::explain::one_line(&error).contains("a file or symbolic link is in the way"),
            "{error}"
        );
        assert!(tree.make_folders("", &[folder("a/link/new")]).is_err());
        write("a/file").await.unwrap();
        write("new/file").await.unwrap();
        // As long as a name can be.
        write(&format!("new/{}", "x".repeat(255))).await.unwrap();
        assert_eq!(fs::read(outside.path().join("file")).unwrap(), b"host");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
        assert_eq!(fs::read(target.join("a/file")).unwrap(), b"node");
        assert!(!target.join("a/file").is_symlink());
    }

    #[test]
    fn what_took_the_place_of_a_file_is_not_read() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("key"), "host").unwrap();
        fs::create_dir(dir.path().join("below")).unwrap();
        fs::write(dir.path().join("below/file"), "text").unwrap();
        symlink(outside.path().join("key"), dir.path().join("link")).unwrap();
        symlink(outside.path(), dir.path().join("folder")).unwrap();
        rustix::fs::mknodat(CWD, dir.path().join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let tree = Tree::open(dir.path()).unwrap();
        assert_eq!(io::read_to_string(tree.read("below/file").unwrap()).unwrap(), "text");
        for (name, why) in [
            ("link", "a file or symbolic link is in the way"),
            ("folder/key", "a file or symbolic link is in the way"),
            ("pipe", "it is no file any more"),
            ("below", "it is no file any more"),
        ] {
            let error = tree.read(name).unwrap_err();
            assert!(flotilla_core::explain::one_line(&error).ends_with(why), "{error:?}");
        }
    }
}
