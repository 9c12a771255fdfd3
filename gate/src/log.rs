//! The log of a run: all that its stages print, in one file.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
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
        // By an open file of its own: programs that still run share the other one's position.
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(place))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The number of the line at a place.
    pub(crate) fn line(&self, place: Place) -> io::Result<usize> {
        let mut bytes = Vec::new();
        File::open(&self.path)?.take(place).read_to_end(&mut bytes)?;
        Ok(bytes.split(|byte| *byte == b'\n').count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
