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

/// Whether a process is number 1 in a pid namespace just below ours, and not about to end.
fn is_init(pid: Pid) -> bool {
    let read =
        |name| fs::read_to_string(format!("/proc/{}/{name}", pid.as_raw_nonzero())).unwrap_or_default();
    let status = read("status");
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    numbers.split_whitespace().skip(1).eq(["1"]) && !is_ending(&status, &read("stat"))
}

/// Whether a process ends or has ended. One that was killed is still there while the kernel ends all others of its
/// namespace, and nobody can enter it any more.
fn is_ending(status: &str, stat: &str) -> bool {
    /// `PF_EXITING` of the kernel's `include/linux/sched.h`: field 9 of proc(5)'s stat has it.
    const EXITING: u64 = 4;
    const KILLED: u64 = 1 << (Signal::KILL.as_raw() - 1);
    let is_zombie = status.lines().any(|line| line.starts_with("State:") && line.contains('Z'));
    let pending =
        status.lines().filter_map(|line| line.strip_prefix("SigPnd:").or(line.strip_prefix("ShdPnd:")));
    let is_killed =
        pending.filter_map(|mask| u64::from_str_radix(mask.trim(), 16).ok()).any(|mask| mask & KILLED != 0);
    // The name before it is in brackets and may hold anything.
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default();
    let flags = fields.split_whitespace().nth(6).and_then(|flags| flags.parse::<u64>().ok());
    is_zombie || is_killed || flags.is_some_and(|flags| flags & EXITING != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_was_killed_is_on_its_way_out_before_it_is_gone() {
        let alive = "State:\tS (sleeping)\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\n";
        let stat = |flags: u32| format!("7 (a) b) S 1 7 7 0 -1 {flags} 0 0");
        assert!(!is_ending(alive, &stat(0x0040_0100)));
        assert!(is_ending(alive, &stat(0x0040_0104)), "it ends");
        assert!(
            is_ending(&alive.replace("ShdPnd:\t00000000000000", "ShdPnd:\t00000000000001"), &stat(0)),
            "SIGKILL waits"
        );
        assert!(is_ending(&alive.replace("S (sleeping)", "Z (zombie)"), &stat(0)));
        let own = |name| fs::read_to_string(format!("/proc/self/{name}")).unwrap();
        assert!(!is_ending(&own("status"), &own("stat")));
    }
}
