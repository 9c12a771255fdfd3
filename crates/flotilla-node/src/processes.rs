//! The processes of this node.

use std::fmt;
use std::fs;
use std::io;

use rustix::process::{Pid, Signal, getpid, kill_process};

/// What the kernel shows of the name `containerd-shim-runc-v2` and its like: 15 characters.
const SHIM: &str = "containerd-shim";

/// A process as the journal names it: `etcd (42)`.
#[derive(Debug)]
pub(crate) struct Process {
    pid: Pid,
    pub(crate) name: String,
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.pid)
    }
}

/// The processes to stop before containerd: all except us, containerd, and the shims that reap the pods' processes.
pub(crate) fn of_pods(containerd: Option<Pid>) -> io::Result<Vec<Process>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let number = entry?.file_name();
        let Some(pid) = number.to_str().and_then(|number| number.parse().ok()).and_then(Pid::from_raw) else {
            continue;
        };
        // A process that is gone needs no signal.
        let Ok(stat) = fs::read(format!("/proc/{pid}/stat")) else { continue };
        let spared = pid == getpid() || Some(pid) == containerd;
        if let Some(name) = living_name(&String::from_utf8_lossy(&stat))
            && !spared
            && name != SHIM
        {
            found.push(Process { pid, name: name.to_owned() });
        }
    }
    Ok(found)
}

/// Sends a signal to each; processes that are gone are ignored.
pub(crate) fn signal_all(processes: &[Process], signal: Signal) {
    for process in processes {
        let _ = kill_process(process.pid, signal);
    }
}

/// The name in `/proc/PID/stat`, `42 (name) S …`, unless the process is dead. The name is whatever the process likes,
/// parentheses included.
fn living_name(stat: &str) -> Option<&str> {
    let (before, after) = stat.rsplit_once(')')?;
    let state = after.trim_start().chars().next()?;
    let (_, name) = before.split_once('(')?;
    (!matches!(state, 'Z' | 'X')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dead_have_no_name() {
        assert_eq!(living_name("42 (etcd) S 1 42"), Some("etcd"));
        assert_eq!(living_name("42 (etcd) Z 1 42"), None);
        assert_eq!(living_name(""), None);
    }

    #[test]
    fn a_name_with_parentheses_is_read_whole() {
        assert_eq!(living_name("42 (a) Z (b) S 1 42"), Some("a) Z (b"));
        assert_eq!(living_name("42 (a) S (b) Z 1 42"), None);
    }

    #[test]
    fn the_caller_and_containerd_are_spared() {
        let parent = rustix::process::getppid().unwrap();
        let found = |containerd| -> Vec<Pid> {
            of_pods(containerd).unwrap().into_iter().map(|process| process.pid).collect()
        };
        assert!(found(None).contains(&parent));
        assert!(!found(None).contains(&getpid()));
        assert!(!found(Some(parent)).contains(&parent));
    }
}
