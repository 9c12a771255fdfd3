//! The files of a running machine, read and written from the host without a program in between.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, renameat, unlinkat};
use rustix::process::Pid;

/// The root of a machine, as its PID 1 sees it.
///
/// Links inside lead where they lead inside: a machine cannot send us into the host's files.
#[derive(Debug)]
pub struct Files {
    root: OwnedFd,
}

impl Files {
    pub fn of(init: Pid) -> io::Result<Self> {
        let path = format!("/proc/{}/root", init.as_raw_nonzero());
        let root = openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { root })
    }

    /// A whole file; none if it is not there.
    pub fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let opened = openat2(&self.root, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty(), INSIDE);
        let file = match opened {
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => return Ok(None),
            file => file?,
        };
        let mut bytes = Vec::new();
        File::from(file).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Writes a file, whole or not at all; makes its folder.
    pub fn write(&self, path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let folder = self.folder(folder)?;
        let mut unfinished = name.to_owned();
        unfinished.push(".unfinished");
        // A killed predecessor may have left it.
        let _ = unlinkat(&folder, &unfinished, AtFlags::empty());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(&folder, &unfinished, flags, Mode::from_raw_mode(mode))?;
        // Whatever our umask is.
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
        let mut file = File::from(file);
        file.write_all(bytes)?;
        file.sync_data()?;
        Ok(renameat(&folder, &unfinished, &folder, name)?)
    }

    /// Opens a folder, which is made with all above it if it is not there.
    fn folder(&self, path: &Path) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match openat2(&self.root, path, flags, Mode::empty(), INSIDE) {
            Err(rustix::io::Errno::NOENT) => {}
            folder => return Ok(folder?),
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let parent = self.folder(parent)?;
        match mkdirat(&parent, name, Mode::from_raw_mode(0o755)) {
            Err(errno) if errno != rustix::io::Errno::EXIST => return Err(errno.into()),
            _ => {}
        }
        Ok(openat(&parent, name, flags | OFlags::NOFOLLOW, Mode::empty())?)
    }
}

const INSIDE: ResolveFlags = ResolveFlags::IN_ROOT;

#[cfg(test)]
mod tests {
    use super::*;

    fn files_in(root: &Path) -> Files {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        Files { root: openat(CWD, root, flags, Mode::empty()).unwrap() }
    }

    #[test]
    fn what_is_written_is_read() {
        let root = tempfile::tempdir().unwrap();
        let files = files_in(root.path());
        let path = Path::new("/etc/deep/er/file");
        assert_eq!(files.read(path).unwrap(), None);
        files.write(path, 0o600, b"one").unwrap();
        files.write(path, 0o600, b"two").unwrap();
        assert_eq!(files.read(path).unwrap().unwrap(), b"two");
        let folder = root.path().join("etc/deep/er");
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), 1, "nothing unfinished is left");
    }

    #[test]
    fn links_do_not_lead_out() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(outside.path().join("secret"), "host").unwrap();
        std::os::unix::fs::symlink(outside.path(), root.path().join("etc")).unwrap();
        let files = files_in(root.path());
        assert_eq!(files.read(Path::new("/etc/secret")).unwrap(), None);
        assert!(files.write(Path::new("/etc/secret"), 0o600, b"node").is_err());
        assert_eq!(std::fs::read(outside.path().join("secret")).unwrap(), b"host");
    }
}
