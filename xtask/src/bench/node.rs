//! What a node takes of the host: read on the host, where reading costs the node nothing.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flotilla_linux::cgroup::Layout;
use flotilla_spec::ClusterName;
use rustix::process::{Pid, Signal, kill_process};
use walkdir::WalkDir;

/// The clusters that have processes, by the names of their control groups.
pub(super) fn running() -> Result<Vec<String>> {
    let items = match fs::read_dir(groups()?) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        items => items?,
    };
    let names = items.filter_map(|item| item.ok()?.file_name().into_string().ok());
    Ok(names.filter(|name| cluster_of(name).is_some()).collect())
}

/// CPU seconds of all that ever ran in the cluster's nodes since they were started; none if they are not.
pub(super) fn cpu(cluster: &ClusterName) -> Result<Option<f64>> {
    let Some(group) = group(cluster)? else { return Ok(None) };
    let nanoseconds = match fs::read_to_string(group.join("cpuacct.usage")) {
        Ok(text) => text.trim().parse::<f64>()?,
        Err(_) => match fs::read_to_string(group.join("cpu.stat")) {
            Ok(text) => usage_of(&text).context("cpu.stat has no usage_usec")? * 1e3,
            // It was removed just now.
            Err(_) => return Ok(None),
        },
    };
    Ok(Some(nanoseconds / 1e9))
}

/// Megabytes of private memory, by program: anonymous pages, which cannot be read again from a file.
pub(super) fn memory(cluster: &ClusterName, node: &str) -> Result<BTreeMap<String, f64>> {
    let mut programs = BTreeMap::new();
    for pid in all_processes(cluster, node)? {
        // One that ended meanwhile has no memory.
        let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { continue };
        if let Some((name, bytes)) = anonymous(&status) {
            *programs.entry(name).or_default() += bytes / 1e6;
        }
    }
    Ok(programs)
}

/// The processes of a node that were started by this name, as the host numbers them.
pub(super) fn processes(cluster: &ClusterName, node: &str, program: &str) -> Result<Vec<Pid>> {
    let is_it = |pid: &i32| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split('\0').next() == Some(program)
    };
    let found = all_processes(cluster, node)?.into_iter().filter(is_it);
    Ok(found.filter_map(Pid::from_raw).collect())
}

/// SIGKILL. One that ended by itself is dead as well.
pub(super) fn kill(process: Pid) {
    let _ = kill_process(process, Signal::KILL);
}

/// Whether the node in which this process runs has this address.
pub(super) fn has_address(process: Pid, address: Ipv4Addr) -> Result<bool> {
    let table = fs::read_to_string(format!("/proc/{}/net/fib_trie", process.as_raw_nonzero()))?;
    Ok(is_local(&table, address))
}

fn all_processes(cluster: &ClusterName, node: &str) -> Result<Vec<i32>> {
    let group = group(cluster)?.context("the cluster has no control group")?.join(node);
    let mut processes = Vec::new();
    for file in WalkDir::new(group).into_iter().filter_map(Result::ok) {
        if file.file_name() == "cgroup.procs" {
            let text = fs::read_to_string(file.path())?;
            processes.extend(text.lines().filter_map(|pid| pid.parse::<i32>().ok()));
        }
    }
    Ok(processes)
}

/// Megabytes of disk that go away with the node: files with one name only. The others are the bundle's.
pub(super) fn disk(folder: &Path) -> f64 {
    let files = WalkDir::new(folder).same_file_system(true).into_iter().filter_map(Result::ok);
    let own = files.filter_map(|file| file.metadata().ok()).filter(|file| file.is_dir() || file.nlink() == 1);
    let kibibytes: u32 = own.map(|file| u32::try_from(file.blocks() / 2).unwrap_or(u32::MAX)).sum();
    f64::from(kibibytes) * 1024.0 / 1e6
}

/// Where the control groups of all clusters are, in the hierarchy that counts CPU time.
fn groups() -> Result<PathBuf> {
    let root = match Layout::of_host()? {
        Layout::None => None,
        Layout::V2 { mount_point, .. } => Some(mount_point),
        Layout::V1 { hierarchies, .. } => {
            let mut hierarchies = hierarchies.into_iter();
            let counts = hierarchies.find(|found| found.controllers.iter().any(|name| name == "cpuacct"));
            counts.map(|found| found.mount_point)
        }
    };
    Ok(root.context("no control group counts CPU time")?.join("flotilla"))
}

/// The control group of a cluster that has one.
fn group(cluster: &ClusterName) -> Result<Option<PathBuf>> {
    let found = running()?.into_iter().find(|group| cluster_of(group) == Some(cluster.as_ref()));
    found.map(|name| Ok(groups()?.join(name))).transpose()
}

/// The cluster whose control group has this name: its own, a hyphen, eight digits. Sandboxes have groups as well.
fn cluster_of(group: &str) -> Option<&str> {
    let (cluster, id) = group.rsplit_once('-')?;
    (id.len() == 8 && id.bytes().all(|digit| digit.is_ascii_hexdigit())).then_some(cluster)
}

/// Microseconds of CPU time in a `cpu.stat` of cgroup v2.
fn usage_of(cpu_stat: &str) -> Option<f64> {
    cpu_stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?.parse().ok()
}

/// Whether an address is one of the host's own, by its table of routes: the address, and what it is in the next line.
fn is_local(fib_trie: &str, address: Ipv4Addr) -> bool {
    let leaf = format!("|-- {address}");
    let mut lines = fib_trie.lines();
    let mut found = false;
    while let Some(line) = lines.next() {
        found |= line.ends_with(&leaf) && lines.next().is_some_and(|kind| kind.ends_with("/32 host LOCAL"));
    }
    found
}

/// A process's name and its anonymous memory in bytes (`proc_pid_status(5)`). Kernel threads and zombies have none.
fn anonymous(status: &str) -> Option<(String, f64)> {
    let field = |name: &str| Some(status.lines().find_map(|line| line.strip_prefix(name))?.trim());
    let kibibytes: f64 = field("RssAnon:")?.strip_suffix(" kB")?.parse().ok()?;
    Some((field("Name:")?.to_owned(), kibibytes * 1024.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_memory_is_read_from_a_status() {
        let status = "Name:\tkubelet\nVmRSS:\t  90000 kB\nRssAnon:\t   38360 kB\nRssFile:\t  5 kB\n";
        assert_eq!(anonymous(status), Some(("kubelet".to_owned(), 39_280_640.0)));
        assert_eq!(anonymous("Name:\tzombie\n"), None);
    }

    #[test]
    fn an_address_is_local_only_if_the_table_says_so() {
        let table = "Main:\n  +-- 10.213.0.0/24 2 0 2\n     |-- 10.213.0.2\n        /32 host LOCAL\n     \
                     |-- 10.213.0.255\n        /32 link BROADCAST\n";
        let is_local = |address: &str| is_local(table, address.parse().unwrap());
        assert!(is_local("10.213.0.2"));
        assert!(!is_local("10.213.0.255"));
        assert!(!is_local("10.213.0.25"));
    }

    #[test]
    fn sandboxes_and_files_are_no_clusters() {
        assert_eq!(cluster_of("my-bench-81e7aa8a"), Some("my-bench"));
        assert_eq!(cluster_of("fl-sandbox-30103-21"), None);
        assert_eq!(cluster_of("cgroup.procs"), None);
    }

    #[test]
    fn cpu_time_is_read_from_a_stat_of_cgroup_v2() {
        assert_eq!(usage_of("usage_usec 1500\nuser_usec 1000\n"), Some(1500.0));
    }

    #[test]
    fn hard_links_take_no_disk() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        fs::write(&first, vec![1; 1 << 20]).unwrap();
        let alone = disk(folder.path());
        fs::hard_link(&first, &second).unwrap();
        assert!(alone >= 1.0, "{alone}");
        assert!(disk(folder.path()) <= alone - 1.0);
    }
}
