//! The processes of a group: a machine is identified by the control group it runs in, not by a stored number.

use std::collections::HashSet;
use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use super::machine::{self, leaves};
use super::{CgroupError, Group, is_gone, layout};
use crate::poll::pause;
use crate::process::Process;
use crate::tree;

/// Where the processes of a group of v2 are, since those with groups below them may have none.
pub(super) const LEAF: &str = "init";
/// How long processes that were killed may take to end: one that waits for a disk takes its time.
const KILL_PATIENCE: Duration = Duration::from_secs(15);
const KILL_PAUSE: Duration = Duration::from_millis(5);
/// How many processes are held at once to be killed. Each takes a descriptor, of which we may have no more than 1024.
const KILL_CHUNK: usize = 64;
/// How many of the processes that are left an error names.
const NAMED: usize = 5;

impl Group {
    /// The process that is PID 1 of the machine in this group, if there is one.
    ///
    /// It is held before the group is asked again whether it is the one: a number that went to another process in between
    /// is never taken for the machine.
    pub fn init(&self) -> Option<Process> {
        self.paths_everywhere().flat_map(|group| leaves(&group)).find_map(|leaf| {
            // A group that cannot be read has no PID 1 that we could use.
            let pids = || pids_in(&leaf).unwrap_or_default();
            pids().into_iter().filter(|pid| is_init(*pid)).find_map(|pid| {
                let process = Process::open(pid).ok()?;
                (pids().contains(&pid) && is_init(pid) && !process.has_ended()).then_some(process)
            })
        })
    }

    /// The files through which a process that is about to be a program of the machine joins it: writing `0` to each of
    /// them moves the writer. In each hierarchy the group that PID 1 is in; if PID 1 has moved elsewhere, the machine's
    /// inner group, so that no program escapes the machine's limits.
    pub(crate) fn doors(&self, init: Pid) -> io::Result<Vec<File>> {
        let mut doors = Vec::new();
        for group in self.paths_everywhere() {
            let mut door = None;
            for leaf in leaves(&group) {
                if pids_in(&leaf)?.contains(&init) {
                    door = Some(leaf);
                    break;
                }
            }
            let inner = || machine::inner_leaves(&group).into_iter().find(|leaf| leaf.exists());
            if let Some(leaf) = door.or_else(inner) {
                doors.push(OpenOptions::new().write(true).open(leaf.join("cgroup.procs"))?);
            }
        }
        Ok(doors)
    }

    /// All processes in the group and below it.
    pub fn processes(&self) -> Result<Vec<Pid>, CgroupError> {
        let mut found = Vec::new();
        for path in self.paths_everywhere() {
            found.extend(pids_below(&path).map_err(|source| CgroupError::Processes { path, source })?);
        }
        found.sort_unstable_by_key(|pid| pid.as_raw_nonzero());
        found.dedup();
        Ok(found)
    }

    /// Kills everything in the group, and waits until it is gone. What is left after that is in the error.
    pub fn kill(&self) -> Result<(), CgroupError> {
        self.kill_within(KILL_PATIENCE)
    }

    fn kill_within(&self, patience: Duration) -> Result<(), CgroupError> {
        let start = Instant::now();
        loop {
            let processes = self.processes()?;
            if processes.is_empty() {
                return Ok(());
            }
            if start.elapsed() > patience {
                let path = self.paths().next().unwrap_or_default();
                return Err(CgroupError::Alive { path, processes: described(&processes) });
            }
            // Again each time: somebody may freeze a group meanwhile. What cannot be thawed is reported as alive.
            let _ = self.thaw();
            for path in self.paths_everywhere() {
                // v2 kills a whole tree at once, also what forks just now. v1 and older kernels lack that file.
                let _ = OpenOptions::new().write(true).open(path.join("cgroup.kill")).and_then(|mut file| {
                    use std::io::Write;
                    file.write_all(b"1")
                });
            }
            for chunk in processes.chunks(KILL_CHUNK) {
                let held: Vec<_> = chunk.iter().filter_map(|pid| Process::open(*pid).ok()).collect();
                // Asked again now that they are held, or a number that was given away would be killed.
                let still: HashSet<Pid> = self.processes()?.into_iter().collect();
                for process in held.iter().filter(|process| still.contains(&process.pid())) {
                    // It may have ended meanwhile.
                    let _ = process.signal(Signal::KILL);
                }
            }
            pause(KILL_PAUSE);
        }
    }

    /// The names of the groups in this one, in any hierarchy: a cluster's nodes.
    pub fn children(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .paths_everywhere()
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
    layout::create_leaf(&leaf)?;
    fs::write(leaf.join("cgroup.procs"), "0").map_err(|source| CgroupError::Join { path: leaf, source })?;
    layout::hand_down_controllers(mount_point)
        .map_err(|source| CgroupError::Create { path: mount_point.to_owned(), source })
}

/// `etcd (42, D)` for each: name, number and state, where D waits for a device.
fn described(processes: &[Pid]) -> Vec<String> {
    let mut said: Vec<_> = processes.iter().take(NAMED).map(|pid| described_one(*pid)).collect();
    if processes.len() > NAMED {
        said.push(format!("{} more", processes.len() - NAMED));
    }
    said
}

fn described_one(pid: Pid) -> String {
    let stat = read_proc(pid, "stat");
    let parts = stat.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')'));
    match parts {
        Some((name, rest)) => format!("{name} ({pid}, {})", rest.trim_start().chars().next().unwrap_or('?')),
        None => pid.to_string(),
    }
}

/// The processes of a group and of all below it: a machine may nest as many as it likes.
fn pids_below(group: &Path) -> io::Result<Vec<Pid>> {
    struct Found(Vec<Pid>);
    impl tree::Visit for Found {
        fn enter(&mut self, group: BorrowedFd<'_>) -> io::Result<()> {
            self.0.extend(pids(read_file(group, c"cgroup.procs"))?);
            Ok(())
        }
    }
    let mut found = Found(Vec::new());
    tree::walk(group, &mut found)?;
    Ok(found.0)
}

/// The processes of the group itself.
fn pids_in(group: &Path) -> io::Result<Vec<Pid>> {
    pids(fs::read_to_string(group.join("cgroup.procs")))
}

/// The processes in the list of a group; none if it does not exist, or if it is a threaded one, whose processes v2 lists in
/// a group above it.
fn pids(list: io::Result<String>) -> io::Result<Vec<Pid>> {
    let text = match list {
        Err(error) if is_gone(&error) || is_threaded(&error) => return Ok(Vec::new()),
        text => text?,
    };
    Ok(text.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect())
}

/// A file of a group that is open.
pub(super) fn read_file(group: BorrowedFd<'_>, name: &CStr) -> io::Result<String> {
    let file = openat(group, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    io::read_to_string(File::from(file))
}

pub(super) fn is_threaded(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error())
}

/// A file of a process in `/proc`; empty if it is gone. A process's name in it is whatever it likes.
fn read_proc(pid: Pid, name: &str) -> String {
    let bytes = fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether a process is number 1 in a pid namespace just below ours, and not about to end.
pub fn is_init(pid: Pid) -> bool {
    let status = read_proc(pid, "status");
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    numbers.split_whitespace().skip(1).eq(["1"]) && !is_ending(&status, &read_proc(pid, "stat"))
}

/// Whether a process ends or has ended. One that was killed is still there while the kernel ends all others of its
/// namespace, and no process can enter it any more.
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
    fn processes_that_do_not_end_are_named() {
        let own = rustix::process::getpid();
        let [named] = &described(&[own])[..] else { panic!("one of one") };
        assert!(named.contains(&format!(" ({own}, ")), "{named}");
        let many = described(&[own; NAMED + 2]);
        assert_eq!((many.len(), many.last().map(String::as_str)), (NAMED + 1, Some("2 more")));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a process that is left alive on purpose")]
    fn a_kill_that_runs_out_of_time_says_what_is_left() {
        if !flotilla_testkit::is_root() {
            return flotilla_testkit::skip("only root makes control groups");
        }
        let layout = layout::Layout::of_host().unwrap();
        let group = Group::new(&layout, &format!("flotilla/fl-test-left-{}", std::process::id())).unwrap();
        group.create().unwrap();
        let mut child = std::process::Command::new("sleep").arg("1000000").spawn().unwrap();
        for path in group.paths() {
            fs::write(path.join("cgroup.procs"), child.id().to_string()).unwrap();
        }
        let error = group.kill_within(Duration::ZERO).unwrap_err();
        let killed = group.kill();
        child.wait().unwrap();
        group.remove().unwrap();
        killed.unwrap();
        let told = format!("did not end when killed: sleep ({}, ", child.id());
        assert!(error.to_string().contains(&told), "{error}");
    }

    #[test]
    fn a_list_of_processes_that_cannot_be_read_is_not_an_empty_one() {
        let root = tempfile::tempdir().unwrap();
        let (gone, below) = (root.path().join("gone"), root.path().join("below"));
        assert_eq!(pids_in(&gone).unwrap(), []);
        fs::create_dir(&below).unwrap();
        fs::write(root.path().join("cgroup.procs"), "7\n").unwrap();
        fs::write(below.join("cgroup.procs"), "8\n9\n").unwrap();
        let found: Vec<_> = pids_below(root.path()).unwrap().into_iter().map(Pid::as_raw_pid).collect();
        assert_eq!(found, [7, 8, 9]);
        // A directory cannot be read like a file, as a file cannot be opened without a descriptor for it.
        fs::remove_file(below.join("cgroup.procs")).unwrap();
        fs::create_dir(below.join("cgroup.procs")).unwrap();
        assert!(pids_below(root.path()).is_err());
    }

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
