//! Copies the output of a service to its log.

use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::Stdio;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::logfile::LogFile;

const CHUNK: usize = 16 << 10;

/// So many chunks are all that a pipe holds.
const CHUNKS: usize = 4;

/// A pipe for a service's standard output and error, and the log at its end.
///
/// It is made once and outlives the service's processes. We keep the writing end too, so the pipe never comes to an
/// end, whoever else still holds it.
#[derive(Debug)]
pub(crate) struct Output {
    reader: PipeReader,
    writer: PipeWriter,
    log: LogFile,
}

impl Output {
    pub(crate) fn open(log: &Path, limit: u64) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        fcntl_setfl(&reader, fcntl_getfl(&reader)? | OFlags::NONBLOCK)?;
        Ok(Self { reader, writer, log: LogFile::open(log, limit)? })
    }

    /// An end to write into, for a new process.
    pub(crate) fn end(&self) -> io::Result<Stdio> {
        Ok(self.writer.try_clone()?.into())
    }

    /// Moves what is in the pipe into the log, one pipe's content at most, so that nobody can keep us busy for ever.
    pub(crate) fn drain(&mut self) {
        let mut chunk = [0; CHUNK];
        for _ in 0..CHUNKS {
            // Nothing there is an error, too.
            let Ok(read) = self.reader.read(&mut chunk) else { return };
            self.log.write(&chunk[..read]);
        }
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_is_printed_reaches_the_log_and_an_empty_pipe_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut output = Output::open(&path, 1000).unwrap();
        output.drain();
        output.writer.write_all(b"hello\n").unwrap();
        output.drain();
        output.drain();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "hello\n");
    }
}
