//! How the machine is when a test fails: what else runs, and what is left over.

use std::fs;
use std::path::Path;

/// Programs that take the processors from tests, or change what they share.
const OTHERS: [&str; 5] = ["cargo", "rustc", "go", "flotilla", "qemu-system"];
const MOST: usize = 20;

/// Load, memory, other builds and clusters, for a person who asks why.
pub(crate) fn state(home: &Path) -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap_or("unknown").trim();
    let mut lines = vec![format!("load {}, {free} of memory available", load.trim())];
    lines.extend(processes().into_iter().take(MOST).map(|process| format!("process {process}")));
    let clusters = fs::read_dir(home.join("clusters")).into_iter().flatten().flatten();
    lines.extend(clusters.map(|cluster| format!("cluster {}", cluster.file_name().display())));
    lines.join("\n")
}

fn processes() -> Vec<String> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let process = |entry: fs::DirEntry| {
        let name = fs::read_to_string(entry.path().join("comm")).ok()?;
        let is_other = OTHERS.iter().any(|other| name.starts_with(other));
        let line = fs::read(entry.path().join("cmdline")).ok().filter(|_| is_other)?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        Some(format!(
            "{} {}",
            entry.file_name().display(),
            line.chars().take(120).collect::<String>().trim_end()
        ))
    };
    all.filter_map(process).collect()
}
