//! Directories of tests.

use std::path::Path;

use rustix::fs::{StatVfsMountFlags, statvfs};
use tempfile::{Builder, TempDir};

/// A directory of the test's own, gone when dropped. In memory where the host has a place for that: no test waits for a disk
/// there, however busy it is.
pub fn directory() -> TempDir {
    let mut named = Builder::new();
    named.prefix("flotilla-test-");
    let memory = Path::new("/dev/shm");
    // In containers it often is one that no program can be run from, as some tests do.
    let runs_programs =
        statvfs(memory).is_ok_and(|system| !system.f_flag.contains(StatVfsMountFlags::NOEXEC));
    let in_memory = runs_programs.then(|| named.tempdir_in(memory).ok()).flatten();
    in_memory.unwrap_or_else(|| named.tempdir().expect("a directory for a test"))
}
