use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// What the name of a file begins with that is not written to its end. The next run that holds the lock removes it.
const UNFINISHED: &str = ".unfinished-";

/// Replaces a file: whatever cuts this off, also a power cut, it has the old content or the new one. Only its owner can
/// read a new file.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(directory)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    File::open(directory)?.sync_all()
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
}
