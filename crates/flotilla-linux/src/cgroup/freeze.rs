//! Frozen groups. In v1 a frozen process takes no signal, not even SIGKILL, so whoever is to end has to be thawed first.

use std::fs;
use std::io;
use std::path::Path;

use super::{CgroupError, Group, is_gone};

/// The file that freezes and thaws a group, and what to write to thaw it. A group has the one of its version.
const SWITCHES: [(&str, &str); 2] = [("freezer.state", "THAWED"), ("cgroup.freeze", "0")];

impl Group {
    /// Whether the processes of the group itself are frozen, by its own setting or by that of a group above it.
    pub fn is_frozen(&self) -> bool {
        self.paths_everywhere().any(|path| is_frozen(&path))
    }

    /// Thaws the group and every group below it. One that is not there is a success.
    pub fn thaw(&self) -> Result<(), CgroupError> {
        self.paths_everywhere()
            .try_for_each(|path| thaw_tree(&path, true).map_err(|source| CgroupError::Thaw { path, source }))
    }

    /// Thaws the group itself, and leaves the groups below it as they are: paused containers stay paused.
    pub fn thaw_itself(&self) -> Result<(), CgroupError> {
        self.paths_everywhere()
            .try_for_each(|path| thaw_tree(&path, false).map_err(|source| CgroupError::Thaw { path, source }))
    }
}

/// Thaws everything below `mount_point`, where the hierarchies of this cgroup namespace are mounted.
pub fn thaw_here(mount_point: &Path) -> io::Result<()> {
    thaw_tree(mount_point, true)
}

fn is_frozen(group: &Path) -> bool {
    let read = |name: &str| fs::read_to_string(group.join(name)).unwrap_or_default();
    // v1 gives the state that holds, v2 has it among its events.
    matches!(read("freezer.state").trim(), "FROZEN" | "FREEZING")
        || read("cgroup.freeze").trim() == "1"
        || read("cgroup.events").lines().any(|line| line == "frozen 1")
}

/// From the top down: a group stays frozen as long as one above it is.
fn thaw_tree(group: &Path, with_children: bool) -> io::Result<()> {
    for (file, thawed) in SWITCHES {
        let path = group.join(file);
        // The root of a hierarchy has none, and cannot be frozen.
        if path.exists() {
            or_gone(fs::write(path, thawed))?;
        }
    }
    if !with_children {
        return Ok(());
    }
    let entries = match fs::read_dir(group) {
        Err(error) if is_gone(&error) => return Ok(()),
        entries => entries?,
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            thaw_tree(&entry.path(), true)?;
        }
    }
    Ok(())
}

/// A group that was removed meanwhile has nobody in it.
fn or_gone(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if is_gone(&error) => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree of groups, each with this file.
    fn groups(file: &str, frozen: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("kubepods/pod")).unwrap();
        for group in ["", "kubepods", "kubepods/pod"] {
            fs::write(root.path().join(group).join(file), frozen).unwrap();
        }
        root
    }

    #[test]
    fn a_group_is_thawed_with_all_below_it_in_either_version() {
        for (file, frozen, thawed) in [("freezer.state", "FROZEN\n", "THAWED"), ("cgroup.freeze", "1\n", "0")]
        {
            let root = groups(file, frozen);
            assert!(is_frozen(root.path()) && is_frozen(&root.path().join("kubepods/pod")));
            thaw_tree(root.path(), false).unwrap();
            assert!(!is_frozen(root.path()) && is_frozen(&root.path().join("kubepods/pod")));
            thaw_here(root.path()).unwrap();
            assert_eq!(fs::read_to_string(root.path().join("kubepods/pod").join(file)).unwrap(), thawed);
        }
    }

    #[test]
    fn nothing_to_thaw_is_a_success() {
        thaw_tree(Path::new("/no/such/group"), true).unwrap();
        assert!(!is_frozen(Path::new("/no/such/group")));
    }
}
