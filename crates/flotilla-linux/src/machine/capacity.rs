//! The capacity a machine's programs see: a kubelet reports what it reads in `/proc` and `/sys`, not what its control
//! group allows.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::MachineError;
use super::root::{SHOWN, show as show_file, write};
use crate::mount::Detached;

/// What a machine has; nothing means all the host has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capacity {
    /// The numbers of the host's CPUs that it sees. The kubelet confines pods to these.
    pub cpus: Option<Vec<u32>>,
    /// Bytes.
    pub memory: Option<u64>,
}

/// Puts files that tell of this capacity over the kernel's own.
pub(super) fn show(capacity: &Capacity) -> Result<(), MachineError> {
    if let Some(bytes) = capacity.memory {
        let path = Path::new("/proc/meminfo");
        let real = fs::read_to_string(path)
            .map_err(|source| MachineError::Make { path: path.to_owned(), source })?;
        show_file("/proc/meminfo", &meminfo(&real, bytes))?;
    }
    if let Some(cpus) = &capacity.cpus {
        show_file("/sys/devices/system/cpu/online", &format!("{}\n", list(cpus)))?;
    }
    if *capacity != Capacity::default() {
        show_topology(capacity)?;
    }
    Ok(())
}

/// One memory node that holds these CPUs: where cadvisor looks for both.
fn show_topology(capacity: &Capacity) -> Result<(), MachineError> {
    let system = Path::new("/sys/devices/system/node");
    if !system.exists() {
        return Ok(());
    }
    let shown = Path::new(SHOWN).join("node");
    let node = shown.join("node0");
    let total = match capacity.memory {
        Some(bytes) => bytes / 1024,
        None => total_kilobytes(&fs::read_to_string("/proc/meminfo").unwrap_or_default()),
    };
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let cpus = capacity.cpus.clone().unwrap_or_else(|| parse_list(online.trim()));
    write(&node.join("meminfo"), &format!("Node 0 MemTotal: {total} kB\n"))?;
    write(&node.join("distance"), "10\n")?;
    write(&node.join("cpulist"), &format!("{}\n", list(&cpus)))?;
    for cpu in &cpus {
        let topology = node.join(format!("cpu{cpu}/topology"));
        write(&topology.join("core_id"), &format!("{cpu}\n"))?;
        write(&topology.join("physical_package_id"), "0\n")?;
    }
    let hugepages = node.join("hugepages");
    fs::create_dir_all(&hugepages).map_err(|source| MachineError::Make { path: hugepages, source })?;
    Ok(Detached::of(&shown)?.attach(system, true)?)
}

/// The kernel's text with another size, all of it free, and no swap.
fn meminfo(real: &str, bytes: u64) -> String {
    let mut text = String::new();
    for line in real.lines() {
        let name = line.split(':').next().unwrap_or_default();
        let kilobytes = match name {
            "MemTotal" | "MemFree" | "MemAvailable" => Some(bytes / 1024),
            "SwapTotal" | "SwapFree" => Some(0),
            _ => None,
        };
        let written = match kilobytes {
            Some(kilobytes) => writeln!(text, "{:<16}{kilobytes:>8} kB", format!("{name}:")),
            None => writeln!(text, "{line}"),
        };
        written.expect("a string can be written to");
    }
    text
}

fn total_kilobytes(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

/// `0,2,3` as the kernel writes lists of CPUs; it also writes ranges, and reads both.
fn list(cpus: &[u32]) -> String {
    cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// Reads `0-3,8`.
pub(crate) fn parse_list(text: &str) -> Vec<u32> {
    text.split(',')
        .filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
        })
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_replaced_and_the_rest_is_kept() {
        let real = "MemTotal:       24000000 kB\nMemFree:         1000000 kB\nBuffers:            100 kB\nSwapFree: 7 kB\n";
        assert_eq!(
            meminfo(real, 2 << 30),
            "MemTotal:        2097152 kB\nMemFree:         2097152 kB\nBuffers:            100 kB\n\
             SwapFree:              0 kB\n"
        );
    }

    #[test]
    fn lists_of_processors_are_read_and_written() {
        assert_eq!(parse_list("0-3,8"), [0, 1, 2, 3, 8]);
        assert_eq!(parse_list("1"), [1]);
        assert_eq!(parse_list(""), [0_u32; 0]);
        assert_eq!(list(&[1, 0]), "1,0");
    }

    #[test]
    fn the_size_of_the_host_is_found() {
        assert_eq!(total_kilobytes("MemTotal:       24000000 kB\n"), 24_000_000);
        assert_eq!(total_kilobytes(""), 0);
    }
}
