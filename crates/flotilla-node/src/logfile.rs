//! Log files with rotation.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// How many full files are kept beside the current one: `.1` (newer) and `.2`.
const KEPT: u32 = 2;

/// A file that is put aside when it is full.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    file: File,
    size: u64,
    limit: u64,
}

impl LogFile {
    /// Opens or creates the file at `path`. Its directory must exist.
    pub(crate) fn open(path: &Path, limit: u64) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let size = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, size, limit: limit.max(1) })
    }

    /// Appends `bytes`. What cannot be written is lost: a full disk must not take the node down.
    pub(crate) fn write(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let fitting = self.fitting(bytes);
            if fitting == 0 {
                if self.put_aside().is_err() {
                    return;
                }
                continue;
            }
            let (now, later) = bytes.split_at(fitting);
            if self.file.write_all(now).is_err() {
                return;
            }
            self.size += now.len() as u64;
            bytes = later;
        }
    }

    /// How many of `bytes` go into the current file. Lines stay whole, unless one alone is larger than a file.
    fn fitting(&self, bytes: &[u8]) -> usize {
        let room = usize::try_from(self.limit.saturating_sub(self.size)).unwrap_or(usize::MAX);
        if bytes.len() <= room {
            return bytes.len();
        }
        let whole_lines = bytes[..room].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if whole_lines == 0 && self.size == 0 { room } else { whole_lines }
    }

    /// Makes room: the current file becomes `.1`, the oldest one goes.
    fn put_aside(&mut self) -> io::Result<()> {
        for age in (1..KEPT).rev() {
            // There may be none of that age yet.
            drop(fs::rename(self.aged(age), self.aged(age + 1)));
        }
        drop(fs::rename(&self.path, self.aged(1)));
        // Empties it if it could not be put aside: better that than without end.
        drop(File::create(&self.path)?);
        *self = Self::open(&self.path, self.limit)?;
        Ok(())
    }

    fn aged(&self, age: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{age}"));
        name.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(dir: &Path, name: &str) -> String {
        fs::read_to_string(dir.join(name)).unwrap_or_default()
    }

    #[test]
    fn full_files_are_put_aside_and_the_oldest_goes() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = LogFile::open(&dir.path().join("log"), 8).unwrap();
        for line in ["one\n", "two\n", "three\n", "four\n", "five\n"] {
            log.write(line.as_bytes());
        }
        let names = ["log", "log.1", "log.2", "log.3"];
        assert_eq!(names.map(|name| read(dir.path(), name)), ["five\n", "four\n", "three\n", ""]);
    }

    #[test]
    fn a_chunk_is_cut_between_lines() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = LogFile::open(&dir.path().join("log"), 9).unwrap();
        log.write(b"one\ntwo\nthree\n");
        assert_eq!(["log", "log.1"].map(|name| read(dir.path(), name)), ["three\n", "one\ntwo\n"]);
    }

    #[test]
    fn a_line_larger_than_a_file_is_spread_over_several() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = LogFile::open(&dir.path().join("log"), 4).unwrap();
        log.write(b"0123456789\n");
        let names = ["log", "log.1", "log.2"];
        assert_eq!(names.map(|name| read(dir.path(), name)), ["89\n", "4567", "0123"]);
    }

    #[test]
    fn an_old_file_is_gone_on_with_and_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        fs::write(&path, "old\n").unwrap();
        LogFile::open(&path, 9).unwrap().write(b"new\n");
        assert_eq!(read(dir.path(), "log"), "old\nnew\n");
        LogFile::open(&path, 9).unwrap().write(b"newer\n");
        assert_eq!(["log", "log.1"].map(|name| read(dir.path(), name)), ["newer\n", "old\nnew\n"]);
    }
}
