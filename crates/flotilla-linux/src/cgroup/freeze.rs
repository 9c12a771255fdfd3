//! Frozen groups. In v1 a frozen process takes no signal, not even SIGKILL, so whoever is to end has to be thawed first.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

use super::machine::leaves;
use super::{CgroupError, Group, is_gone};
use crate::tree;

/// The file that freezes and thaws a group, and what to write to thaw it. A group has the one of its version.
const SWITCHES: [(&str, &str); 2] = [("freezer.state", "THAWED"), ("cgroup.freeze", "0")];

impl Group {
    /// Whether the processes of the group itself, or PID 1 of the machine in it, are frozen, by its own setting or by that of a
    /// group above it.
    pub fn is_frozen(&self) -> bool {
        self.paths_everywhere().any(|path| leaves(&path).iter().any(|leaf| is_frozen(leaf)))
    }

    /// Thaws the group and every group below it. One that does not exist is a success.
    pub fn thaw(&self) -> Result<(), CgroupError> {
        self.thaw_by(thaw_tree)
    }

    /// Thaws the group itself and PID 1 of the machine in it, and leaves all other groups below it as they are: paused
    /// containers stay paused.
    pub fn thaw_itself(&self) -> Result<(), CgroupError> {
        self.thaw_by(thaw_leaves)
    }

    /// Tries every hierarchy, and gives the first error.
    fn thaw_by(&self, thaw: fn(&Path) -> io::Result<()>) -> Result<(), CgroupError> {
        let mut result = Ok(());
        for path in self.paths_everywhere() {
            if let Err(source) = thaw(&path) {
                result = result.and(Err(CgroupError::Thaw { path, source }));
            }
        }
        result
    }
}

/// Thaws everything below `mount_point`, where the hierarchies of this cgroup namespace are mounted.
///
/// Not the root of v2 itself: with the mount option `nsdelegate` it belongs to whoever is outside, and if it were frozen
/// we would not run.
pub fn thaw_here(mount_point: &Path) -> io::Result<()> {
    thaw_children(mount_point)
}

fn is_frozen(group: &Path) -> bool {
    let read = |name: &str| fs::read_to_string(group.join(name)).unwrap_or_default();
    // v1 gives the state that holds, v2 has it among its events.
    matches!(read("freezer.state").trim(), "FROZEN" | "FREEZING")
        || read("cgroup.freeze").trim() == "1"
        || read("cgroup.events").lines().any(|line| line == "frozen 1")
}

/// From the top down: a group stays frozen as long as one above it is. Goes on after an error, and gives the first one.
fn thaw_tree(group: &Path) -> io::Result<()> {
    let mut thaw = Thaw(Ok(()));
    let walked = tree::walk_mount(group, &mut thaw);
    thaw.0.and(walked)
}

struct Thaw(io::Result<()>);

impl tree::Visit for Thaw {
    fn enter(&mut self, group: BorrowedFd<'_>) -> io::Result<()> {
        let thawed = thaw_open(group);
        if self.0.is_ok() {
            self.0 = thawed;
        }
        Ok(())
    }
}

fn thaw_leaves(group: &Path) -> io::Result<()> {
    leaves(group).iter().rev().try_for_each(|leaf| thaw_one(leaf))
}

fn thaw_one(group: &Path) -> io::Result<()> {
    match openat(CWD, group, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT) => Ok(()),
        group => thaw_open(group?.as_fd()),
    }
}

fn thaw_open(group: BorrowedFd<'_>) -> io::Result<()> {
    for (file, thawed) in SWITCHES {
        // The root of a hierarchy has none, and cannot be frozen.
        match openat(group, file, OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::NOENT | Errno::NODEV) => {}
            switch => or_gone(File::from(switch?).write_all(thawed.as_bytes()))?,
        }
    }
    Ok(())
}

fn thaw_children(group: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(group) {
        Err(error) if is_gone(&error) => return Ok(()),
        entries => entries?,
    };
    let mut result = Ok(());
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let thawed = thaw_tree(&entry.path());
            result = result.and(thawed);
        }
    }
    result
}

/// A group that was removed meanwhile has no processes.
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
            thaw_one(root.path()).unwrap();
            assert!(!is_frozen(root.path()) && is_frozen(&root.path().join("kubepods/pod")));
            thaw_here(root.path()).unwrap();
            assert_eq!(fs::read_to_string(root.path().join("kubepods/pod").join(file)).unwrap(), thawed);
        }
    }

    #[test]
    fn groups_that_cannot_be_thawed_do_not_keep_others_frozen() {
        let root = groups("cgroup.freeze", "1\n");
        // Neither can be written: the root belongs to the host, the other one to another program.
        for refused in ["", "kubepods"] {
            let switch = root.path().join(refused).join("cgroup.freeze");
            fs::remove_file(&switch).unwrap();
            fs::create_dir(&switch).unwrap();
        }
        assert!(thaw_here(root.path()).is_err(), "kubepods is in the way");
        assert!(!is_frozen(&root.path().join("kubepods/pod")));
        fs::remove_dir(root.path().join("kubepods/cgroup.freeze")).unwrap();
        thaw_here(root.path()).unwrap();
    }

    #[test]
    fn nothing_to_thaw_is_a_success() {
        thaw_tree(Path::new("/no/such/group")).unwrap();
        assert!(!is_frozen(Path::new("/no/such/group")));
    }
}
