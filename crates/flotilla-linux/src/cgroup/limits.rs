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
    /// Bytes.
    pub memory: Option<u64>,
}

impl Group {
    /// Sets the limits, also of a group that is in use; one that is not given is taken away.
    pub fn limit(&self, limits: Limits) -> Result<(), CgroupError> {
        for (path, value) in files(&self.layout, &self.name, limits) {
            // A hierarchy that the host does not have cannot limit anything; no limit is what it has.
            if !path.exists() && limits == Limits::default() {
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

/// What is written where.
fn files(layout: &Layout, name: &Path, limits: Limits) -> Vec<(PathBuf, String)> {
    let quota = limits.cpus.map(|cpus| u64::from(cpus) * PERIOD);
    match layout {
        Layout::None => Vec::new(),
        Layout::V2 { mount_point, .. } => {
            let group = mount_point.join(name);
            let all = || "max".to_owned();
            vec![
                (group.join("cpu.max"), format!("{} {PERIOD}", quota.map_or_else(all, |q| q.to_string()))),
                (group.join("memory.max"), limits.memory.map_or_else(all, |bytes| bytes.to_string())),
            ]
        }
        Layout::V1 { hierarchies, .. } => {
            let group = |controller: &str| {
                let has = |known: &String| known == controller;
                let found = hierarchies.iter().find(|hierarchy| hierarchy.controllers.iter().any(has));
                found.map(|hierarchy| hierarchy.mount_point.join(name))
            };
            let all = || "-1".to_owned();
            let cpu = group("cpu").map(|group| {
                [
                    (group.join("cpu.cfs_period_us"), PERIOD.to_string()),
                    (group.join("cpu.cfs_quota_us"), quota.map_or_else(all, |quota| quota.to_string())),
                ]
            });
            let memory = group("memory").map(|group| {
                let value = limits.memory.map_or_else(all, |bytes| bytes.to_string());
                (group.join("memory.limit_in_bytes"), value)
            });
            cpu.into_iter().flatten().chain(memory).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: Limits = Limits { cpus: Some(2), memory: Some(3 << 30) };

    fn written(layout: &Layout, limits: Limits) -> Vec<String> {
        let files = files(layout, Path::new("flotilla/demo"), limits);
        files.into_iter().map(|(path, value)| format!("{} {value}", path.display())).collect()
    }

    #[test]
    fn v2_has_one_file_for_each_limit() {
        let layout = Layout::V2 { mount_point: "/cg".into(), strays: Vec::new() };
        assert_eq!(
            written(&layout, SOME),
            ["/cg/flotilla/demo/cpu.max 200000 100000", "/cg/flotilla/demo/memory.max 3221225472"]
        );
        assert_eq!(
            written(&layout, Limits::default()),
            ["/cg/flotilla/demo/cpu.max max 100000", "/cg/flotilla/demo/memory.max max"]
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
             35 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n",
        );
        assert_eq!(
            written(&layout, SOME),
            [
                "/cg/cpu,cpuacct/flotilla/demo/cpu.cfs_period_us 100000",
                "/cg/cpu,cpuacct/flotilla/demo/cpu.cfs_quota_us 200000",
                "/cg/memory/flotilla/demo/memory.limit_in_bytes 3221225472",
            ]
        );
        let unlimited = written(&layout, Limits::default());
        assert!(unlimited[1].ends_with(" -1") && unlimited[2].ends_with(" -1"), "{unlimited:?}");
    }
}
