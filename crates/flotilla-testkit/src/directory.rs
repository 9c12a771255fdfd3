//! Directories of tests.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Once;

use rustix::fs::{StatVfsMountFlags, statvfs};
use tempfile::{Builder, TempDir};

/// What their names begin with; the [`mark`] of the process that made them follows.
const PREFIX: &str = "flotilla-test-";

/// A directory of the test's own, gone when dropped. In memory where the host has a place for that: no test waits for a disk
/// there, however busy it is. Those of processes that were killed are removed first.
pub fn directory() -> TempDir {
    static SWEPT: Once = Once::new();
    let prefix = format!("{PREFIX}{}-", mark("self").expect("/proc has this process"));
    let mut named = Builder::new();
    named.prefix(&prefix);
    let memory = Path::new("/dev/shm");
    // In containers it often is one that no program can be run from, as some tests do.
    let runs_programs =
        statvfs(memory).is_ok_and(|system| !system.f_flag.contains(StatVfsMountFlags::NOEXEC));
    SWEPT.call_once(|| {
        sweep(memory);
    });
    let in_memory = runs_programs.then(|| named.tempdir_in(memory).ok()).flatten();
    in_memory.unwrap_or_else(|| named.tempdir().expect("a directory for a test"))
}

/// What names a process for good, on this machine until it boots: its namespace of process numbers (containers may share the
/// directory), its number and when it began. Nothing for one that has ended.
fn mark(process: &str) -> Option<String> {
    let namespace = fs::metadata("/proc/self/ns/pid").ok()?.ino();
    let stat = fs::read_to_string(Path::new("/proc").join(process).join("stat")).ok()?;
    // The program's name, in parentheses, may have spaces.
    let (number, rest) = (stat.split(' ').next()?, stat.rsplit(')').next()?);
    let begun: u64 = rest.split_whitespace().nth(19)?.parse().ok()?;
    Some(format!("{:x}-{number}-{begun:x}", namespace & 0xffff))
}

/// Removes the directories of processes that have ended. What cannot be removed does not matter to the tests.
fn sweep(folder: &Path) {
    let own = mark("self").expect("/proc has this process");
    let namespace = own.split('-').next();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let Some(marked) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        let Some((its, _)) = marked.rsplit_once('-') else { continue };
        let mut parts = its.split('-');
        let (its_namespace, process) = (parts.next(), parts.next());
        let is_over = its_namespace == namespace
            && process.is_some_and(|process| {
                process.parse::<u32>().is_ok() && mark(process).as_deref() != Some(its)
            });
        // What is mounted there may be of somebody else.
        if is_over && !mounts.contains(&format!(" {}", path.display())) {
            let _ = fs::remove_dir_all(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_killed_processes_are_removed_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let own = mark("self").unwrap();
        let (namespace, rest) = own.split_once('-').unwrap();
        let (number, _) = rest.split_once('-').unwrap();
        // No process has the first number; the second one was ours before, when it was another's.
        let gone = [format!("{namespace}-4194305-1f"), format!("{namespace}-{number}-0")];
        let elsewhere = format!("{:x}-4194305-1f", u64::from_str_radix(namespace, 16).unwrap() ^ 1);
        let name = |mark: &str| folder.path().join(format!("{PREFIX}{mark}-AbCdEf"));
        let stays = [name(&own), name(&elsewhere), folder.path().join("flotilla-test-AbCdEf")];
        for path in gone.iter().map(|mark| name(mark)).chain(stays.clone()) {
            fs::create_dir_all(path.join("full")).unwrap();
        }
        sweep(folder.path());
        for mark in gone {
            assert!(!name(&mark).exists(), "{mark}");
        }
        for path in stays {
            assert!(path.exists(), "{}", path.display());
        }
    }

    #[test]
    fn a_directory_names_its_process() {
        let directory = directory();
        let name = directory.path().file_name().unwrap().to_str().unwrap().to_owned();
        assert!(name.starts_with(&format!("{PREFIX}{}-", mark("self").unwrap())), "{name}");
        drop(directory);
    }
}
