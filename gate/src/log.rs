//! The log of a run: all that its stages print, in one file.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A file that only grows while the run lasts.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) path: PathBuf,
    file: File,
}

/// A place in the log, in bytes.
pub(crate) type Place = u64;

impl Log {
    /// Begins a new log; the one of the run before is kept beside it.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        match fs::rename(path, path.with_extension("log.before")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = File::options().read(true).append(true).create_new(true).open(path)?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// For the output of a program.
    pub(crate) fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    pub(crate) fn end(&self) -> io::Result<Place> {
        Ok(self.file.metadata()?.len())
    }

    pub(crate) fn say(&self, line: &str) -> io::Result<()> {
        writeln!(&self.file, "{line}")
    }

    pub(crate) fn since(&self, place: Place) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&self.bytes(place, self.end()?)?).into_owned())
    }

    /// The number of the line at a place.
    pub(crate) fn line(&self, place: Place) -> io::Result<usize> {
        Ok(self.bytes(0, place)?.split(|byte| *byte == b'\n').count())
    }

    /// Read from the open file, since another one may have its name by now, and without its position, which programs share that still
    /// write.
    fn bytes(&self, from: Place, to: Place) -> io::Result<Vec<u8>> {
        let length = usize::try_from(to.saturating_sub(from)).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, from)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_log_in_its_place_does_not_change_what_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("test.log");
        let log = Log::create(&path).unwrap();
        let place = log.end().unwrap();
        log.say("ours").unwrap();
        Log::create(&path).unwrap();
        assert_eq!(log.since(place).unwrap(), "ours\n");
        assert_eq!(log.line(log.end().unwrap()).unwrap(), 2);
    }

    #[test]
    fn places_have_lines_and_the_log_of_the_run_before_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("target/test.log");
        Log::create(&path).unwrap().say("first run").unwrap();
        let log = Log::create(&path).unwrap();
        log.say("one").unwrap();
        let place = log.end().unwrap();
        write!(log.handle().unwrap(), "two\nthree").unwrap();
        assert_eq!((log.line(0).unwrap(), log.line(place).unwrap()), (1, 2));
        assert_eq!(log.since(place).unwrap(), "two\nthree");
        assert_eq!(fs::read_to_string(dir.path().join("target/test.log.before")).unwrap(), "first run\n");
    }
}
