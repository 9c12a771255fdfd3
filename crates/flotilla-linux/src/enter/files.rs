//! The files of a running machine, read and written from the host without a program in between.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{
    AtFlags, CWD, Dir, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, readlinkat, renameat, symlinkat,
    unlinkat,
};
use rustix::io::Errno;

use crate::process::Process;
use crate::user::Acting;
use flotilla_core::Cancel;

mod unfinished;

use unfinished::{Unfinished, remove_abandoned};

/// The root of a machine, as its PID 1 sees it.
///
/// Links inside lead where they lead inside: a machine cannot send us into the host's files.
#[derive(Debug)]
pub struct Files {
    root: OwnedFd,
    /// Root of the machine, if that is another than the host's.
    owner: Option<Acting>,
}

/// What [`Files::look`] finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    Nothing,
    File,
    /// A link, a directory, a pipe, a device, or something behind a link.
    Other,
}

impl Files {
    /// The files of the machine that has this PID 1.
    pub fn of(init: &Process) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let (root, owner) = init.look(|proc| {
            let root = openat(CWD, proc.join("root"), flags, Mode::empty())?;
            Ok((root, Acting::root_of(proc)?))
        })?;
        Ok(Self { root, owner })
    }

    /// The same of a machine that is off: the directory that is its root, or a part of it.
    pub fn below(root: &Path) -> io::Result<Self> {
        let root = openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { root, owner: None })
    }

    /// A whole file; none if it does not exist. What is no file, or larger than any that is read whole, is an error: a
    /// machine must neither block us nor fill our memory.
    pub fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let (file, _) = match self.open(path) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            opened => opened?,
        };
        let mut bytes = Vec::new();
        file.take(LARGEST + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > LARGEST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(Some(bytes))
    }

    /// The last lines of a file of any size; none if it does not exist.
    pub fn tail(&self, path: &Path, lines: usize) -> io::Result<Option<String>> {
        let (mut file, _) = match self.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(LARGEST)))?;
        let mut bytes = Vec::new();
        file.take(LARGEST).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let all: Vec<_> = text.lines().collect();
        Ok(Some(all[all.len().saturating_sub(lines)..].join("\n")))
    }

    /// The names in a directory, sorted; of very many only some. Without the directory there are none.
    pub fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = match openat2(&self.root, directory, flags, Mode::empty(), INSIDE) {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Vec::new()),
            opened => opened?,
        };
        let mut names = Vec::new();
        for entry in Dir::read_from(directory)?.take(MOST_NAMES) {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Writes a file, whole or not at all; makes its directory.
    pub fn write(&self, path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
        self.write_by(path, mode, |file| file.write_all(bytes), File::sync_data)
    }

    /// Whether a file has exactly this mode and content.
    pub fn has(&self, path: &Path, mode: u32, bytes: &[u8]) -> bool {
        let Ok((file, its_mode)) = self.open(path) else { return false };
        let mut content = Vec::new();
        let read = file.take(bytes.len() as u64 + 1).read_to_end(&mut content);
        its_mode == mode && read.is_ok() && content == bytes
    }

    /// Writes a file whole, and lets everybody pass the directories above it. It is not synced to the disk, which would take
    /// long: for files that are written again at each boot.
    pub fn write_at_boot(&self, path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
        let above: Vec<_> = path.ancestors().skip(1).filter(|above| above.file_name().is_some()).collect();
        for directory in above.into_iter().rev() {
            let directory = self.folder(directory)?;
            if rustix::fs::fstat(&directory)?.st_mode & 0o055 != 0o055 {
                make_passable(&directory)?;
            }
        }
        self.write_by(path, mode, |file| file.write_all(bytes), |_| Ok(()))
    }

    /// Writes a stream to its end; else like [`Self::write`].
    pub fn copy_in(
        &self,
        source: &mut dyn Read,
        path: &Path,
        mode: u32,
        cancel: &Cancel,
        progress: &Progress,
    ) -> io::Result<()> {
        let write = |file: &mut File| {
            let file: &File = file;
            copy(source, &mut &*file, || file.sync_data(), cancel, progress)
        };
        self.write_by(path, mode, write, File::sync_data)
    }

    /// Writes a file to a stream, and gives the file's mode.
    pub fn copy_out(
        &self,
        path: &Path,
        target: &mut dyn Write,
        cancel: &Cancel,
        progress: &Progress,
    ) -> io::Result<u32> {
        let (mut file, mode) = self.open(path)?;
        copy(&mut file, target, || Ok(()), cancel, progress)?;
        target.flush()?;
        Ok(mode)
    }

    /// Whether there is something of this name.
    pub fn exists(&self, path: &Path) -> io::Result<bool> {
        let found = openat2(&self.root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), INSIDE);
        absent_is(found.map(|_| true), false)
    }

    /// What is at a path, without opening it or following a symbolic link.
    pub fn look(&self, path: &Path) -> io::Result<Found> {
        let resolve = INSIDE | ResolveFlags::NO_SYMLINKS;
        match openat2(&self.root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve) {
            Err(Errno::NOENT) => Ok(Found::Nothing),
            // A link, or a file in the place of a directory.
            Err(Errno::LOOP | Errno::NOTDIR) => Ok(Found::Other),
            found => Ok(if File::from(found?).metadata()?.is_file() { Found::File } else { Found::Other }),
        }
    }

    /// Removes a file, if it exists. One that is reached by a symbolic link is an error.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat2(&self.root, folder, flags, Mode::empty(), INSIDE | ResolveFlags::NO_SYMLINKS);
        absent_is(folder.and_then(|folder| unlinkat(folder, name, AtFlags::empty())), ())
    }

    /// Makes a symbolic link, and the directories above it, unless something has its name.
    pub fn link_if_free(&self, path: &Path, target: &str) -> io::Result<()> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let _acted = self.owner.map(Acting::begin).transpose()?;
        match symlinkat(target, self.folder(folder)?, name) {
            Err(Errno::EXIST) => Ok(()),
            made => Ok(made?),
        }
    }

    /// What is at a path, to mount something there: a directory or a file, made if there is nothing.
    pub(crate) fn mount_point(&self, path: &Path, is_folder: bool) -> io::Result<OwnedFd> {
        if is_folder {
            return self.folder(path);
        }
        match openat2(&self.root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), INSIDE) {
            Err(Errno::NOENT) => {}
            found => return Ok(found?),
        }
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        Ok(openat(self.folder(folder)?, name, flags, Mode::from_raw_mode(0o644))?)
    }

    /// Makes a symbolic link, in place of any other file of its name.
    pub(crate) fn link(&self, path: &Path, target: &Path) -> io::Result<()> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let folder = self.folder(folder)?;
        if readlinkat(&folder, name, Vec::new())
            .is_ok_and(|there| there.as_bytes() == target.as_os_str().as_bytes())
        {
            return Ok(());
        }
        absent_is(unlinkat(&folder, name, AtFlags::empty()), ())?;
        Ok(symlinkat(target, &folder, name)?)
    }

    /// Opens what must be a plain file, and gives its mode.
    fn open(&self, path: &Path) -> io::Result<(File, u32)> {
        // Looked at before it is opened: a pipe would let us wait for ever, and to open a device is to use it.
        let found =
            File::from(openat2(&self.root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), INSIDE)?);
        let metadata = found.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if !metadata.is_file() {
            return Err(io::Error::other("it is a device, pipe or socket"));
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(openat(CWD, opened(&found), flags, Mode::empty())?);
        Ok((file, metadata.mode() & 0o7777))
    }

    fn write_by(
        &self,
        path: &Path,
        mode: u32,
        write_content: impl FnOnce(&mut File) -> io::Result<()>,
        sync: impl FnOnce(&File) -> io::Result<()>,
    ) -> io::Result<()> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let _acted = self.owner.map(Acting::begin).transpose()?;
        let folder = self.folder(folder)?;
        remove_abandoned(&folder, name);
        let unfinished = Unfinished::next(name).file_name();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let open = || openat(&folder, &unfinished, flags, Mode::from_raw_mode(mode));
        let file = match open() {
            // Nobody who lives has this name but us: it was left by one who had our number, as each PID 1 has.
            Err(Errno::EXIST) => {
                unlinkat(&folder, &unfinished, AtFlags::empty())?;
                open()?
            }
            file => file?,
        };
        // Whatever our umask is.
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
        let mut file = File::from(file);
        let written = write_content(&mut file).and_then(|()| sync(&file));
        let written = written.and_then(|()| Ok(renameat(&folder, &unfinished, &folder, name)?));
        if written.is_err() {
            let _ = unlinkat(&folder, &unfinished, AtFlags::empty());
        }
        written
    }

    /// Opens a directory, which is made with all above it if it does not exist.
    fn folder(&self, path: &Path) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match openat2(&self.root, path, flags, Mode::empty(), INSIDE) {
            Err(Errno::NOENT) => {}
            folder => return Ok(folder?),
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let parent = self.folder(parent)?;
        let made = match mkdirat(&parent, name, FOLDER) {
            Err(Errno::EXIST) => false,
            made => made.map(|()| true)?,
        };
        let folder = openat(&parent, name, flags | OFlags::NOFOLLOW, Mode::empty())?;
        if made {
            // Whatever our umask is.
            make_passable(&folder)?;
        }
        Ok(folder)
    }
}

fn make_passable(directory: &OwnedFd) -> io::Result<()> {
    Ok(rustix::fs::chmod(opened(directory), FOLDER)?)
}

/// The name by which what was opened as a mere path can be used: the very same file, whatever its path leads to now.
fn opened(file: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Takes a file that does not exist for an answer.
fn absent_is<T>(found: Result<T, rustix::io::Errno>, absent: T) -> io::Result<T> {
    match found {
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Ok(absent),
        found => Ok(found?),
    }
}

/// Symbolic links lead where they lead in the machine, those of `/proc` nowhere.
const INSIDE: ResolveFlags = ResolveFlags::IN_ROOT.union(ResolveFlags::NO_MAGICLINKS);
const FOLDER: Mode = Mode::RWXU.union(Mode::RGRP).union(Mode::XGRP).union(Mode::ROTH).union(Mode::XOTH);

/// The largest file that is read whole. Settings, marks and certificates are much smaller.
const LARGEST: u64 = 16 << 20;

/// How many names of a directory are read: a machine must not fill our memory with them.
const MOST_NAMES: usize = 1 << 16;

/// How much is copied between two looks at whether to go on.
const PIECE: usize = 1 << 20;

/// How much is copied before it has to be on the disk: the progress of a copy is that of the disk, not of the page cache,
/// and the sync at the end has little left to do.
const SYNC_EVERY: u64 = 64 << 20;

/// How far a copy is, for whoever waits for it.
#[derive(Debug, Clone, Default)]
pub struct Progress(Arc<AtomicU64>);

impl Progress {
    /// How many bytes were copied so far.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Copies to the end. `sync` waits until what was written is on the disk.
fn copy(
    source: &mut dyn Read,
    target: &mut dyn Write,
    mut sync: impl FnMut() -> io::Result<()>,
    cancel: &Cancel,
    progress: &Progress,
) -> io::Result<()> {
    let mut unsynced = 0;
    let mut buffer = vec![0; PIECE];
    loop {
        let copied = match source.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            copied => copied?,
        };
        target.write_all(&buffer[..copied])?;
        unsynced += copied as u64;
        if unsynced >= SYNC_EVERY {
            sync()?;
            unsynced = 0;
        }
        progress.0.fetch_add(copied as u64, Ordering::Relaxed);
        if cancel.is_cancelled() {
            return Err(io::Error::other("interrupted"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files_in(root: &Path) -> Files {
        Files::below(root).unwrap()
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
    fn files_are_copied_from_where_they_stand_to_their_end_with_their_mode() {
        let dir = tempfile::tempdir().unwrap();
        let (root, host) = (dir.path().join("root"), dir.path().join("host"));
        std::fs::create_dir(&root).unwrap();
        std::fs::write(&host, "one two").unwrap();
        let (files, cancel) = (files_in(&root), Cancel::new());
        let mut source = File::open(&host).unwrap();
        source.read_exact(&mut [0; 4]).unwrap();
        files.copy_in(&mut source, Path::new("/deep/copy"), 0o750, &cancel, &Progress::default()).unwrap();
        let mut target = File::options().append(true).open(&host).unwrap();
        assert_eq!(
            files.copy_out(Path::new("/deep/copy"), &mut target, &cancel, &Progress::default()).unwrap(),
            0o750
        );
        assert_eq!(std::fs::read_to_string(&host).unwrap(), "one twotwo");
    }

    #[test]
    fn a_copy_of_more_than_is_synced_at_once_is_whole_and_counted() {
        let dir = tempfile::tempdir().unwrap();
        let mut source = tempfile::tempfile().unwrap();
        let size = SYNC_EVERY + PIECE as u64 + 1;
        source.set_len(size).unwrap();
        let (files, progress) = (files_in(dir.path()), Progress::default());
        files.copy_in(&mut source, Path::new("/copy"), 0o600, &Cancel::new(), &progress).unwrap();
        assert_eq!(progress.bytes(), size);
        assert_eq!(std::fs::metadata(dir.path().join("copy")).unwrap().len(), progress.bytes());
    }

    #[test]
    fn what_is_no_file_is_not_copied_and_nothing_half_copied_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let (files, cancel) = (files_in(dir.path()), Cancel::new());
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        let copy_out = |path: &str| {
            files.copy_out(Path::new(path), &mut tempfile::tempfile().unwrap(), &cancel, &Progress::default())
        };
        assert_eq!(copy_out("/").unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(copy_out("/none").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(copy_out("/fifo").is_err());
        // A directory cannot be read as a file is.
        let mut folder = File::open(dir.path()).unwrap();
        assert!(
            files
                .copy_in(&mut folder, Path::new("/made/copy"), 0o644, &cancel, &Progress::default())
                .is_err()
        );
        assert_eq!(std::fs::read_dir(dir.path().join("made")).unwrap().count(), 0);
    }

    #[test]
    fn a_pipe_a_folder_and_an_endless_file_are_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::below(dir.path()).unwrap();
        rustix::fs::mknodat(CWD, dir.path().join("fifo"), rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        std::fs::create_dir(dir.path().join("folder")).unwrap();
        File::create(dir.path().join("large")).unwrap().set_len(LARGEST + 1).unwrap();
        let _listening = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
        for path in ["/fifo", "/folder", "/large", "/socket"] {
            assert!(files.read(Path::new(path)).is_err(), "{path}");
        }
    }

    #[test]
    fn a_device_is_not_even_opened_and_links_of_proc_lead_nowhere() {
        if !flotilla_testkit::is_root() {
            return flotilla_testkit::skip("only root makes devices");
        }
        let dir = tempfile::tempdir().unwrap();
        let files = Files::below(dir.path()).unwrap();
        // No driver has this number: to open it would be another error.
        let number = rustix::fs::makedev(4095, 7);
        rustix::fs::mknodat(
            CWD,
            dir.path().join("device"),
            rustix::fs::FileType::CharacterDevice,
            Mode::RUSR,
            number,
        )
        .unwrap();
        let error = files.read(Path::new("/device")).unwrap_err();
        assert_eq!(error.to_string(), "it is a device, pipe or socket");
        let host = Files::below(Path::new("/proc/self")).unwrap();
        assert!(host.read(Path::new("/root/etc/passwd")).is_err());
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
