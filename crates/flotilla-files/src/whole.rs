use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// Prefix of unfinished files. The next run that holds the lock removes those of killed runs.
const UNFINISHED: &str = ".unfinished-";

/// A file that is being written, and appears complete or not at all, even after a power cut. Removed on drop unless it was
/// finished. Only its owner can read it, unless the permissions are changed before it is finished.
#[derive(Debug)]
pub struct AtomicFile {
    unfinished: NamedTempFile,
    target: PathBuf,
}

impl AtomicFile {
    /// Will replace `target`. `unfinished` must be on the same file system.
    pub fn new(unfinished: NamedTempFile, target: &Path) -> Self {
        Self { unfinished, target: target.to_owned() }
    }

    /// Will replace `target`. Until then it is in `directory`, on the same file system, under a name with this prefix.
    pub fn within(directory: &Path, prefix: &str, target: &Path) -> io::Result<Self> {
        tempfile::Builder::new().prefix(prefix).tempfile_in(directory).map(|file| Self::new(file, target))
    }

    /// To write to, and to change its owner or permissions.
    pub fn file(&self) -> &File {
        self.unfinished.as_file()
    }

    /// Waits until its content is on the disk, then replaces the target.
    pub fn finish(self) -> io::Result<()> {
        self.file().sync_all()?;
        self.unfinished.persist(&self.target)?;
        sync_directory(directory_of(&self.target))
    }
}

/// Waits until a new name in the directory is on the disk. A file system that cannot be asked for that (FUSE and network
/// file systems) has the file anyway.
fn sync_directory(path: &Path) -> io::Result<()> {
    if_possible(File::open(path)?.sync_all())
}

fn if_possible(synced: io::Result<()>) -> io::Result<()> {
    match synced {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

/// Replaces a file: after a crash or a power cut it has the old content or the new one. Only its owner can read a new file.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = AtomicFile::within(directory_of(path), UNFINISHED, path)?;
    file.file().write_all(bytes)?;
    file.finish()
}

/// Whether a path is that of a file which [`write_whole`] was killed in the middle of.
pub fn is_unfinished(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(UNFINISHED.as_bytes()))
}

/// The directory of a file. A bare name is in the working directory.
pub fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_is_replaced_and_nothing_else_stays() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("state");
        for text in ["old", "new"] {
            write_whole(&path, text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
        let killed = AtomicFile::within(home.path(), UNFINISHED, &path).unwrap();
        assert!(is_unfinished(killed.unfinished.path()) && !is_unfinished(&path));
    }

    #[test]
    fn a_file_system_that_syncs_no_directories_is_no_error() {
        let failed = |error| if_possible(Err(io::Error::from_raw_os_error(error)));
        let (not_supported, broken) = (22, 5); // EINVAL, EIO
        failed(not_supported).unwrap();
        assert_eq!(failed(broken).unwrap_err().raw_os_error(), Some(broken));
    }

    #[test]
    fn what_cannot_be_replaced_stays() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("directory");
        fs::create_dir(&path).unwrap();
        assert!(write_whole(&path, b"text").is_err());
        assert!(path.is_dir());
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_unfinished_file_is_removed_and_leaves_the_old_one() {
        let home = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (home.path().join("state"), home.path().join("work"));
        fs::create_dir(&elsewhere).unwrap();
        write_whole(&path, b"old").unwrap();
        let file = AtomicFile::within(&elsewhere, "new-", &path).unwrap();
        file.file().write_all(b"half").unwrap();
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    }
}
