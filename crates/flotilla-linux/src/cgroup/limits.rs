//! How much of the host a group may use.

use std::fs;
use std::path::{Path, PathBuf};

use super::{CgroupError, Group, Layout};
use crate::machine::parse_list;

/// One turn of the scheduler, in microseconds: the kernel's default.
const PERIOD: u64 = 100_000;

/// What a group may use; nothing means all there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    pub cpus: Option<u32>,
    /// Bytes, of which none may be swapped out: a group that swaps gets more than its share of the host.
    pub memory: Option<u64>,
    /// How many processes and threads there may be at once.
    pub processes: Option<u64>,
}

/// A file of a group, and what it is to say.
struct Setting {
    path: PathBuf,
    value: String,
    /// Whether a host without this file is an error: what a person has asked for must hold.
    required: bool,
}

impl Group {
    /// Sets the limits, also of a group that is in use; one that is not given is taken away.
    pub fn limit(&self, limits: Limits) -> Result<(), CgroupError> {
        for Setting { path, value, required } in settings(&self.layout, &self.name, limits) {
            if !required && !path.exists() {
                continue;
            }
            fs::write(&path, &value).map_err(|source| CgroupError::Limit { path, value, source })?;
        }
        Ok(())
    }
}

impl Group {
    /// The numbers of the CPUs that its processes may use; they need not begin with 0.
    pub fn processors(&self) -> Vec<u32> {
        let read = |path: PathBuf| fs::read_to_string(path).ok().map(|text| parse_list(text.trim()));
        let files = ["cpuset.effective_cpus", "cpuset.cpus.effective", "cpuset.cpus"];
        let own = self.paths().flat_map(|group| files.map(|file| group.join(file)));
        own.chain(["/sys/devices/system/cpu/online".into()])
            .filter_map(read)
            .find(|list| !list.is_empty())
            .unwrap_or_default()
    }
}

/// What is written where, in this order.
fn settings(layout: &Layout, name: &Path, limits: Limits) -> Vec<Setting> {
    let quota = limits.cpus.map(|cpus| u64::from(cpus) * PERIOD);
    let setting = |group: &Path, file: &str, value: Option<u64>, all: &str, required: bool| {
        let value = value.map_or_else(|| all.to_owned(), |value| value.to_string());
        Setting { path: group.join(file), value, required }
    };
    match layout {
        Layout::None => Vec::new(),
        Layout::V2 { mount_point, .. } => {
            let group = mount_point.join(name);
            let no_swap = limits.memory.map(|_| 0);
            let mut cpu = setting(&group, "cpu.max", quota, "max", limits.cpus.is_some());
            cpu.value = format!("{} {PERIOD}", cpu.value);
            vec![
                cpu,
                setting(&group, "memory.max", limits.memory, "max", limits.memory.is_some()),
                setting(&group, "memory.swap.max", no_swap, "max", false),
                setting(&group, "pids.max", limits.processes, "max", false),
            ]
        }
        Layout::V1 { hierarchies, .. } => {
            let group = |controller: &str| {
                let has = |known: &String| known == controller;
                let found = hierarchies.iter().find(|hierarchy| hierarchy.controllers.iter().any(has));
                found.map(|hierarchy| hierarchy.mount_point.join(name))
            };
            let cpu = group("cpu").map(|group| {
                let required = limits.cpus.is_some();
                [
                    setting(&group, "cpu.cfs_period_us", Some(PERIOD), "", required),
                    setting(&group, "cpu.cfs_quota_us", quota, "-1", required),
                ]
            });
            let memory = group("memory").map(|group| {
                [
                    // The limit of memory and swap together may never be lower than that of memory.
                    setting(&group, "memory.memsw.limit_in_bytes", None, "-1", false),
                    setting(&group, "memory.limit_in_bytes", limits.memory, "-1", limits.memory.is_some()),
                    setting(&group, "memory.memsw.limit_in_bytes", limits.memory, "-1", false),
                ]
            });
            let processes =
                group("pids").map(|group| setting(&group, "pids.max", limits.processes, "max", false));
            cpu.into_iter().flatten().chain(memory.into_iter().flatten()).chain(processes).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: Limits = Limits { cpus: Some(2), memory: Some(3 << 30), processes: Some(500) };

    fn written(layout: &Layout, limits: Limits) -> Vec<String> {
        let settings = settings(layout, Path::new("flotilla/demo"), limits);
        settings.into_iter().map(|one| format!("{} {}", one.path.display(), one.value)).collect()
    }

    #[test]
    fn v2_has_one_file_for_each_limit() {
        let layout = Layout::V2 { mount_point: "/cg".into(), strays: Vec::new() };
        let group = "/cg/flotilla/demo";
        assert_eq!(
            written(&layout, SOME),
            [
                format!("{group}/cpu.max 200000 100000"),
                format!("{group}/memory.max 3221225472"),
                format!("{group}/memory.swap.max 0"),
                format!("{group}/pids.max 500"),
            ]
        );
        assert_eq!(
            written(&layout, Limits::default()),
            [
                format!("{group}/cpu.max max 100000"),
                format!("{group}/memory.max max"),
                format!("{group}/memory.swap.max max"),
                format!("{group}/pids.max max"),
            ]
        );
    }

    #[test]
    fn processors_are_those_of_the_group_whatever_their_numbers() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::V2 { mount_point: root.path().to_owned(), strays: Vec::new() };
        let group = Group::new(&layout, "node").unwrap();
        assert!(!group.processors().is_empty(), "those of the host");
        fs::create_dir(root.path().join("node")).unwrap();
        fs::write(root.path().join("node/cpuset.cpus.effective"), "2-3,6\n").unwrap();
        assert_eq!(group.processors(), [2, 3, 6]);
    }

    #[test]
    fn v1_limits_in_the_hierarchy_that_has_the_controller() {
        let layout = Layout::parse(
            b"32 31 0:29 / /cg/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
             35 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n\
             36 31 0:33 / /cg/pids rw - cgroup cgroup rw,pids\n",
        );
        assert_eq!(
            written(&layout, SOME),
            [
                "/cg/cpu,cpuacct/flotilla/demo/cpu.cfs_period_us 100000",
                "/cg/cpu,cpuacct/flotilla/demo/cpu.cfs_quota_us 200000",
                "/cg/memory/flotilla/demo/memory.memsw.limit_in_bytes -1",
                "/cg/memory/flotilla/demo/memory.limit_in_bytes 3221225472",
                "/cg/memory/flotilla/demo/memory.memsw.limit_in_bytes 3221225472",
                "/cg/pids/flotilla/demo/pids.max 500",
            ]
        );
        let unlimited = written(&layout, Limits::default());
        assert!(unlimited[1..5].iter().all(|line| line.ends_with(" -1")), "{unlimited:?}");
        assert!(unlimited[5].ends_with(" max"), "{unlimited:?}");
    }
}
