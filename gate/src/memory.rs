//! What is remembered from run to run: the last commit that passed, and tests that failed at random.

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::program::Program;

/// Two small files in the user's cache.
#[derive(Debug)]
pub(crate) struct Memory {
    folder: PathBuf,
    /// Files that differ from the last commit that passed. Unknown without such a commit.
    changed: Option<Vec<String>>,
}

impl Memory {
    pub(crate) fn new(folder: PathBuf) -> Self {
        let passed = fs::read_to_string(folder.join("passed")).ok();
        let changed =
            passed.and_then(|commit| Program::new(["git", "diff", "--name-only", commit.trim()]).answer());
        Self { folder, changed: changed.map(|files| files.lines().map(str::to_owned).collect()) }
    }

    /// Whether a directory of the source differs from the last commit that passed.
    pub(crate) fn is_changed(&self, folder: &str) -> bool {
        let below = format!("{folder}/");
        self.changed.as_ref().is_none_or(|files| files.iter().any(|file| file.starts_with(&below)))
    }

    pub(crate) fn was_flaky(&self, test: &str) -> bool {
        let known = fs::read_to_string(self.folder.join("flaky")).unwrap_or_default();
        known.lines().any(|line| line == test)
    }

    pub(crate) fn note_flaky(&self, test: &str) -> io::Result<()> {
        if self.was_flaky(test) {
            return Ok(());
        }
        let known = fs::read_to_string(self.folder.join("flaky")).unwrap_or_default();
        self.write("flaky", &format!("{known}{test}\n"))
    }

    /// Remembers the commit, if the checkout is just that.
    pub(crate) fn note_passed(&self) -> io::Result<()> {
        let is_clean = Program::new(["git", "status", "--porcelain", "--untracked-files=no"]).answer();
        match Program::new(["git", "rev-parse", "HEAD"]).answer() {
            Some(commit) if is_clean.as_deref() == Some("") => self.write("passed", &commit),
            _ => Ok(()),
        }
    }

    #[cfg(test)]
    pub(crate) fn forget_changes(&mut self) {
        self.changed = Some(Vec::new());
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let unfinished = self.folder.join(format!("{name}.unfinished"));
        fs::write(&unfinished, text)?;
        fs::rename(unfinished, self.folder.join(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_commit_that_passed_everything_is_changed() {
        let dir = tempfile::tempdir().unwrap();
        let mut memory = Memory::new(dir.path().to_owned());
        assert!(memory.is_changed("crates/flotilla"));
        memory.changed = Some(vec!["crates/flotilla-core/src/lib.rs".to_owned()]);
        assert!(memory.is_changed("crates/flotilla-core"));
        assert!(!memory.is_changed("crates/flotilla"));
    }

    #[test]
    fn a_flaky_test_is_remembered_once() {
        let dir = tempfile::tempdir().unwrap();
        let memory = Memory::new(dir.path().join("cache"));
        assert!(!memory.was_flaky("flotilla::cli a"));
        memory.note_flaky("flotilla::cli a").unwrap();
        memory.note_flaky("flotilla::cli a").unwrap();
        assert!(Memory::new(dir.path().join("cache")).was_flaky("flotilla::cli a"));
        assert_eq!(fs::read_to_string(dir.path().join("cache/flaky")).unwrap().lines().count(), 1);
    }
}
