//! Who is in a group: a machine is known by the control group it runs in, not by a number written down somewhere.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{CgroupError, Group, REMOVE_PAUSE, REMOVE_TRIES, layout};
use crate::poll::pause;

/// Where the processes of a group of v2 are, since those with groups below them may have none.
const LEAF: &str = "init";

impl Group {
    /// Moves this process to where a machine's own processes are: the group itself, or in v2 a leaf of it.
    pub fn join_leaf(&self) -> Result<(), CgroupError> {
        for path in self.paths() {
            let leaf = if self.layout.is_v1() { path } else { path.join(LEAF) };
            fs::write(leaf.join("cgroup.procs"), "0")
                .map_err(|source| CgroupError::Join { path: leaf, source })?;
        }
        Ok(())
    }

    /// The process that is PID 1 of the machine in this group, if there is one.
    pub fn init(&self) -> Option<Pid> {
        let group = self.paths().next()?;
        let leaf = if self.layout.is_v1() { group } else { group.join(LEAF) };
        pids_in(&leaf).into_iter().find(|pid| is_init(*pid))
    }

    /// All processes in the group and below it.
    pub fn processes(&self) -> Vec<Pid> {
        let mut found: Vec<Pid> = self.paths().flat_map(|path| pids_below(&path)).collect();
        found.sort_unstable_by_key(|pid| pid.as_raw_nonzero());
        found.dedup();
        found
    }

    /// Kills everything in the group, and waits until it is gone.
    pub fn kill(&self) {
        for _ in 0..REMOVE_TRIES {
            let processes = self.processes();
            if processes.is_empty() {
                return;
            }
            for pid in processes {
                // It may have ended meanwhile.
                let _ = kill_process(pid, Signal::KILL);
            }
            pause(Duration::min(REMOVE_PAUSE, Duration::from_millis(5)));
        }
    }

    /// The names of the groups in this one, in any hierarchy: a cluster's nodes.
    pub fn children(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .paths()
            .flat_map(|path| fs::read_dir(path).into_iter().flatten().flatten())
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        names.dedup();
        names
    }
}

/// Makes the root of this cgroup namespace, mounted at `mount_point`, one that can be divided: in v2 its processes
/// move to a leaf and the controllers are handed down. In v1 there is nothing to do.
pub fn delegate_here(layout: &layout::Layout, mount_point: &Path) -> Result<(), CgroupError> {
    if !matches!(layout, layout::Layout::V2 { .. }) {
        return Ok(());
    }
    let leaf = mount_point.join(LEAF);
    match fs::create_dir(&leaf) {
        Err(source) if source.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(CgroupError::Create { path: leaf, source });
        }
        _ => {}
    }
    fs::write(leaf.join("cgroup.procs"), "0").map_err(|source| CgroupError::Join { path: leaf, source })?;
    layout::hand_down_controllers(mount_point)
        .map_err(|source| CgroupError::Create { path: mount_point.to_owned(), source })
}

fn pids_below(group: &Path) -> Vec<Pid> {
    let mut found = pids_in(group);
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(pids_below(&entry.path()));
        }
    }
    found
}

fn pids_in(group: &Path) -> Vec<Pid> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect()
}

/// Whether a process is number 1 in a pid namespace just below ours.
fn is_init(pid: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap_or_default();
    let zombie = status.lines().any(|line| line.starts_with("State:") && line.contains('Z'));
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    !zombie && numbers.split_whitespace().skip(1).eq(["1"])
}
