//! Files that a command leaves in a directory of the user: logs, the selected cluster, profiles for minikube's tools.
//!
//! With sudo we are root in a directory that the user can change meanwhile. So no link in it is followed, and what is
//! created belongs to the user.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Uid};

/// Longer files are not ours.
const LONGEST: u64 = 1 << 22;
const FOR_OWNER: Mode = Mode::RUSR.union(Mode::WUSR);

/// An open directory.
#[derive(Debug)]
pub(crate) struct Directory {
    fd: OwnedFd,
    owner: Option<(u32, u32)>,
}

impl Directory {
    /// Opens the directory that the user named, by whatever links. It is created if only the last part is missing.
    pub(crate) fn open_or_create(path: &Path, owner: Option<(u32, u32)>) -> io::Result<Self> {
        let created = Self::create_in(CWD, path.as_os_str(), owner)?;
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        // A new directory cannot be a link that others put there.
        let flags = if created { flags | OFlags::NOFOLLOW } else { flags };
        let directory = Self { fd: rustix::fs::openat(CWD, path, flags, Mode::empty())?, owner };
        if created {
            directory.give(&directory.fd)?;
        }
        Ok(directory)
    }

    pub(crate) fn open(path: &Path, owner: Option<(u32, u32)>) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Self { fd: rustix::fs::openat(CWD, path, flags, Mode::empty())?, owner })
    }

    /// A directory in this one, created if there is none.
    pub(crate) fn below(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let name = name.as_ref();
        let created = Self::create_in(&self.fd, name, self.owner)?;
        let directory = self.existing(name)?;
        if created {
            directory.give(&directory.fd)?;
        }
        Ok(directory)
    }

    /// A directory in this one that exists.
    pub(crate) fn existing(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.fd, name.as_ref(), flags, Mode::empty())?;
        Ok(Self { fd, owner: self.owner })
    }

    fn create_in(
        parent: impl std::os::fd::AsFd,
        name: &OsStr,
        owner: Option<(u32, u32)>,
    ) -> io::Result<bool> {
        let mode = if owner.is_some() { Mode::RWXU } else { Mode::RWXU | Mode::RGRP | Mode::XGRP };
        match rustix::fs::mkdirat(parent, name, mode) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// A file to append to. Only its owner can read a new one; one that exists keeps its owner and mode.
    pub(crate) fn append(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.fd, name, flags | OFlags::CREATE | OFlags::EXCL, FOR_OWNER) {
            Err(rustix::io::Errno::EXIST) => {
                let file = rustix::fs::openat(&self.fd, name, flags, Mode::empty())?;
                check_plain(&file)?;
                Ok(File::from(file))
            }
            created => self.own(created?),
        }
    }

    /// Replaces a file; readers see the old content or the new one.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let unfinished = format!(".{name}.{}", std::process::id());
        // Left by a process that was killed.
        let _ = rustix::fs::unlinkat(&self.fd, &unfinished, AtFlags::empty());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = self.own(rustix::fs::openat(&self.fd, &unfinished, flags, FOR_OWNER)?)?;
        let written = (&file).write_all(bytes);
        let renamed = written.and_then(|()| Ok(rustix::fs::renameat(&self.fd, &unfinished, &self.fd, name)?));
        if renamed.is_err() {
            let _ = rustix::fs::unlinkat(&self.fd, &unfinished, AtFlags::empty());
        }
        renamed
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.fd, from, &self.fd, to)?)
    }

    pub(crate) fn read(&self, name: &str) -> io::Result<String> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.fd, name, flags, Mode::empty())?);
        if !file.metadata()?.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut text = String::new();
        file.take(LONGEST).read_to_string(&mut text)?;
        Ok(text)
    }

    /// How large a file is; nothing if there is none.
    pub(crate) fn size(&self, name: &str) -> Option<u64> {
        let stat = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        is_file.then(|| u64::try_from(stat.st_size).unwrap_or_default())
    }

    /// The names of what is in it.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        let entries = rustix::fs::Dir::read_from(&self.fd)?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str().ok().map(str::to_owned));
        Ok(names.filter(|name| name != "." && name != "..").collect())
    }

    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    pub(crate) fn remove_empty(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR)?)
    }

    /// Makes a new file one for its owner alone.
    fn own(&self, fd: OwnedFd) -> io::Result<File> {
        check_plain(&fd)?;
        rustix::fs::fchmod(&fd, FOR_OWNER)?;
        self.give(&fd)?;
        Ok(File::from(fd))
    }

    /// What root creates for a user is the user's.
    fn give(&self, fd: &OwnedFd) -> io::Result<()> {
        let Some((uid, gid)) = self.owner else { return Ok(()) };
        Ok(rustix::fs::fchown(fd, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?)
    }
}

/// Refuses what is no file, and a hard link: that leads to a file elsewhere.
fn check_plain(fd: &OwnedFd) -> io::Result<()> {
    let stat = rustix::fs::fstat(fd)?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if is_file && stat.st_nlink == 1 {
        return Ok(());
    }
    Err(io::Error::other("it is a hard link, or no plain file"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn files_are_for_their_owner_alone_and_no_link_is_followed() {
        let home = tempfile::tempdir().unwrap();
        let directory = Directory::open_or_create(&home.path().join("logs"), None).unwrap();
        directory.append("a").unwrap().write_all(b"one\n").unwrap();
        directory.append("a").unwrap().write_all(b"two\n").unwrap();
        directory.replace("b", b"three").unwrap();
        assert_eq!((directory.read("a").unwrap().as_str(), directory.size("b")), ("one\ntwo\n", Some(5)));
        let path = home.path().join("logs/a");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        // The user may have made a log readable for others.
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        directory.append("a").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        symlink(home.path().join("elsewhere"), home.path().join("logs/link")).unwrap();
        std::fs::create_dir(home.path().join("real")).unwrap();
        symlink(home.path().join("real"), home.path().join("logs/there")).unwrap();
        std::fs::hard_link(&path, home.path().join("logs/hard")).unwrap();
        assert!(directory.append("link").is_err() && directory.read("link").is_err());
        assert!(directory.append("hard").is_err() && directory.below("there").is_err());
        assert!(!home.path().join("elsewhere").exists());
        // A link is replaced, not followed.
        directory.replace("link", b"mine").unwrap();
        assert_eq!(directory.read("link").unwrap(), "mine");
        assert_eq!(directory.names().unwrap().len(), 5);
    }
}
