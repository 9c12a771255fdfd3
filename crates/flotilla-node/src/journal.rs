//! The log of PID 1.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;

use jiff::Timestamp;

use crate::logfile::LogFile;

/// The log of PID 1. Each line also goes to standard error, the node's console.
#[derive(Debug)]
pub(crate) struct Journal {
    log: LogFile,
}

impl Journal {
    pub(crate) fn open(path: &Path, limit: u64) -> io::Result<Self> {
        Ok(Self { log: LogFile::open(path, limit)? })
    }

    pub(crate) fn say(&mut self, message: impl Display) {
        let line = format!("{:.3} {message}\n", Timestamp::now());
        self.log.write(line.as_bytes());
        // A console that is gone is no reason to stop.
        drop(io::stderr().write_all(line.as_bytes()));
    }
}
