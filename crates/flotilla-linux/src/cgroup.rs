//! Control groups: finding the host's hierarchies, a group in each of them, its limits and its processes, and a view
//! of them inside a sandbox or a node.
//!
//! A host has either the unified hierarchy (v2) or several of v1; a host with both (hybrid) counts as v1 if memory or CPU
//! time is limited there. The host's own mounts and groups are never changed, with one exception: in a container of v2
//! the processes of its root group move to a leaf, since no group could be limited otherwise.
//!
//! A machine has two groups, one in the other ([`Group::create_for_machine`]): the outer one has its limits, the inner one
//! is the root of its cgroup namespace, so that the machine cannot change its own limits.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, unlinkat};

use crate::mount::{self, DATA_ONLY, MountError};
use crate::poll::pause;
use crate::tree;

mod devices;
mod freeze;
mod layout;
mod limits;
mod machine;
mod processes;

pub use freeze::thaw_here;
pub use layout::{Hierarchy, Layout};
pub use limits::Limits;
pub use processes::{delegate_here, is_init};

/// How long, and how often, to try again to remove a group: a process leaves it a moment after its death.
const REMOVE_TRIES: u32 = 100;
const REMOVE_PAUSE: Duration = Duration::from_millis(20);

/// A control group could not be made, entered or removed.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    #[error("cannot read /proc/self/mountinfo")]
    Layout { source: io::Error },
    #[error("the host has no cgroup file system mounted")]
    NoHierarchy,
    #[error("{name:?} is not a path of a control group")]
    BadName { name: String },
    #[error("cannot make the control group {}", path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error("cannot enter the control group {}", path.display())]
    Join { path: PathBuf, source: io::Error },
    #[error("cannot limit the control group: {value} cannot be written to {}", path.display())]
    Limit { path: PathBuf, value: String, source: io::Error },
    #[error("cannot deny devices to the control group {}", path.display())]
    Devices { path: PathBuf, source: io::Error },
    #[error("cannot thaw the control group {}", path.display())]
    Thaw { path: PathBuf, source: io::Error },
    #[error("cannot list the processes of the control group {}", path.display())]
    Processes { path: PathBuf, source: io::Error },
    #[error("processes of the control group {} did not end when killed: {}", path.display(), processes.join(", "))]
    Alive { path: PathBuf, processes: Vec<String> },
    #[error("the control group {} of this container holds processes that cannot be moved", path.display())]
    Occupied { path: PathBuf },
    #[error("cannot remove the control group {}", path.display())]
    Remove { path: PathBuf, source: io::Error },
    #[error("cannot name the hierarchy of {name}")]
    Link { name: String, source: io::Error },
    #[error(transparent)]
    Mount(#[from] MountError),
}

/// The same group in every hierarchy of the host.
#[derive(Debug, Clone)]
pub struct Group {
    layout: Layout,
    /// Where each hierarchy is mounted.
    roots: Vec<PathBuf>,
    /// The same for hierarchies in which no group is made now. Machines are looked for there, too: the mounts may have
    /// been others when one was started.
    other_roots: Vec<PathBuf>,
    name: PathBuf,
}

impl Group {
    /// The group called `name` (`flotilla/e2e-123`) below the root of each hierarchy. Touches nothing yet.
    pub fn new(layout: &Layout, name: &str) -> Result<Self, CgroupError> {
        let path = Path::new(name);
        let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
        if name.is_empty() || !plain {
            return Err(CgroupError::BadName { name: name.to_owned() });
        }
        let (roots, other_roots) = (layout.roots(), layout.other_roots());
        if roots.is_empty() {
            return Err(CgroupError::NoHierarchy);
        }
        Ok(Self { layout: layout.clone(), roots, other_roots, name: path.to_owned() })
    }

    /// Makes the group again. One left over by a killed predecessor is removed first; one in use is an error.
    pub fn create(&self) -> Result<(), CgroupError> {
        self.remove()?;
        for root in &self.roots {
            self.create_below(root)?;
        }
        Ok(())
    }

    /// Moves this process into the group, in every hierarchy that has it.
    pub fn join(&self) -> Result<(), CgroupError> {
        let others = self.other_roots.iter().map(|root| root.join(&self.name)).filter(|path| path.exists());
        for path in self.paths().chain(others) {
            // 0 is whoever writes, also where process numbers are those of another namespace (cgroups(7)).
            let joined = fs::write(path.join("cgroup.procs"), "0");
            joined.map_err(|source| CgroupError::Join { path, source })?;
        }
        Ok(())
    }

    /// Removes the group with all groups below it, and those above it that are no longer used.
    ///
    /// Its processes must be dead. A group that does not exist is a success. Tries every hierarchy, whatever
    /// happens in another, and gives the first error.
    pub fn remove(&self) -> Result<(), CgroupError> {
        let mut result = Ok(());
        for root in self.roots.iter().chain(&self.other_roots) {
            let path = root.join(&self.name);
            match remove_patiently(&path) {
                Ok(()) => remove_unused_parents(root, &self.name),
                Err(source) => result = result.and(Err(CgroupError::Remove { path, source })),
            }
        }
        result
    }

    fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.roots.iter().map(|root| root.join(&self.name))
    }

    /// Where its processes may be, whatever was mounted when they were started.
    fn paths_everywhere(&self) -> impl Iterator<Item = PathBuf> {
        self.roots.iter().chain(&self.other_roots).map(|root| root.join(&self.name))
    }

    fn create_below(&self, root: &Path) -> Result<(), CgroupError> {
        let mut tries = 0;
        loop {
            match create_chain(root, &self.name) {
                // The parent was there and is not: another group's removal took it for unused.
                Err(error) if is_gone(&error) && tries < REMOVE_TRIES => {}
                // In a container the root group has processes: the container's own.
                Err(error)
                    if error.kind() == io::ErrorKind::ResourceBusy
                        && layout::is_of_container(root)
                        && tries < REMOVE_TRIES =>
                {
                    layout::vacate(root)?;
                }
                done => {
                    return done
                        .map_err(|source| CgroupError::Create { path: root.join(&self.name), source });
                }
            }
            tries += 1;
        }
    }
}

/// Mounts the host's hierarchies at `target` the way the host has them, seen from this cgroup namespace's root.
///
/// `read_only` keeps programs from creating groups that would never be removed.
pub fn mount_all(layout: &Layout, target: &Path, read_only: bool) -> Result<(), CgroupError> {
    let mounted = |kind: &str, target: &Path, options: &str| {
        mount::filesystem(kind, target, DATA_ONLY, options)?;
        if read_only { mount::make_read_only(target) } else { Ok(()) }
    };
    match layout {
        Layout::None => {}
        Layout::V2 { .. } => mounted("cgroup2", target, "")?,
        Layout::V1 { hierarchies, .. } => {
            mount::filesystem("tmpfs", target, DATA_ONLY, "mode=0755,size=1m")?;
            for hierarchy in hierarchies {
                mounted("cgroup", &target.join(hierarchy.folder()), &hierarchy.mount_options())?;
                for alias in hierarchy.aliases() {
                    std::os::unix::fs::symlink(hierarchy.folder(), target.join(alias))
                        .map_err(|source| CgroupError::Link { name: alias.to_owned(), source })?;
                }
            }
            if read_only {
                mount::make_read_only(target)?;
            }
        }
    }
    Ok(())
}

/// Makes each directory from `root` down to `name`, ready for processes.
fn create_chain(root: &Path, name: &Path) -> io::Result<()> {
    let mut path = root.to_owned();
    for part in name.components() {
        let parent = path.clone();
        path.push(part);
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        // In v2 a controller that the parent does not hand down cannot limit the child.
        layout::hand_down_controllers(&parent)?;
        // In v1 of kernels before 5.11 the limit of a group does not hold for those below it unless it is told to. Refused where a
        // group exists below already, which then has been told.
        let use_hierarchy = path.join("memory.use_hierarchy");
        if use_hierarchy.exists() && fs::read_to_string(&use_hierarchy)?.trim() == "0" {
            fs::write(use_hierarchy, "1")?;
        }
        // In v1 a new cpuset is empty, and then no process may enter (cpuset(7)). In v2 empty means the parent's,
        // and the root has no such file.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if parent.join(file).exists() && fs::read_to_string(path.join(file))?.trim().is_empty() {
                let inherited = fs::read_to_string(parent.join(file))?;
                if !inherited.trim().is_empty() {
                    fs::write(path.join(file), inherited)?;
                }
            }
        }
    }
    Ok(())
}

fn remove_patiently(path: &Path) -> io::Result<()> {
    let mut tries = 0;
    loop {
        match remove_tree(path) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && tries < REMOVE_TRIES => tries += 1,
            done => return done,
        }
        pause(REMOVE_PAUSE);
    }
}

/// Removes a group after those below it. One with processes is left alone, with everything in it.
fn remove_tree(path: &Path) -> io::Result<()> {
    tree::walk(path, &mut Removal)
}

struct Removal;

impl tree::Visit for Removal {
    fn enter(&mut self, group: BorrowedFd<'_>) -> io::Result<()> {
        match processes::read_file(group, c"cgroup.procs") {
            Ok(processes) if processes.trim().is_empty() => Ok(()),
            Ok(_) => Err(io::ErrorKind::ResourceBusy.into()),
            Err(error) if is_gone(&error) || processes::is_threaded(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn leave(&mut self, parent: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
        match unlinkat(parent, name, AtFlags::REMOVEDIR).map_err(io::Error::from) {
            Err(error) if is_gone(&error) => Ok(()),
            done => done,
        }
    }
}

fn remove_unused_parents(root: &Path, name: &Path) {
    for parent in name.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty()) {
        // The kernel refuses when there are groups or processes in it: that is the check.
        if fs::remove_dir(root.join(parent)).is_err() {
            break;
        }
    }
}

/// A group that is being removed, or a file of it that was open, answers ENODEV.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_below_the_root() {
        let layout = Layout::V2 { mount_point: "/sys/fs/cgroup".into(), strays: Vec::new() };
        for bad in ["", "/", "/flotilla", "../x", "a/../b", "."] {
            assert!(matches!(Group::new(&layout, bad), Err(CgroupError::BadName { .. })), "{bad}");
        }
        assert!(Group::new(&layout, "flotilla/e2e-123").is_ok());
        assert!(matches!(Group::new(&Layout::None, "a"), Err(CgroupError::NoHierarchy)));
    }
}
