//! Which hierarchies of control groups the host has.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::mount::info::parse_line;

/// Words among a v1 hierarchy's mount options that name no controller (cgroups(7), mount options).
const NOT_CONTROLLERS: &[&str] = &[
    "rw",
    "ro",
    "all",
    "none",
    "noprefix",
    "clone_children",
    "cpuset_v2_mode",
    "xattr",
    "favordynmods",
    "nofavordynmods",
];

/// The control groups of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layout {
    /// None are mounted.
    None,
    V1 {
        hierarchies: Vec<Hierarchy>,
    },
    V2 {
        mount_point: PathBuf,
    },
}

/// One hierarchy of v1: some controllers mounted together, or none and a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    pub mount_point: PathBuf,
    /// `cpu`, `cpuacct`; for a hierarchy without controllers `name=systemd`.
    pub controllers: Vec<String>,
}

impl Layout {
    /// Looks at what is mounted where we are.
    pub fn of_host() -> io::Result<Self> {
        fs::read_to_string("/proc/self/mountinfo").map(|text| Self::parse(&text))
    }

    /// Reads the text of a `mountinfo` (proc(5)).
    pub fn parse(mountinfo: &str) -> Self {
        let mut hierarchies: Vec<Hierarchy> = Vec::new();
        let mut unified = None;
        for line in mountinfo.lines() {
            let Some((mount_point, kind, options)) = parse_line(line) else { continue };
            if kind == "cgroup2" {
                unified.get_or_insert(mount_point);
            } else if kind == "cgroup" {
                let controllers = controllers(options);
                // A hierarchy may be mounted in several places: the first is the host's own.
                if !controllers.is_empty() && hierarchies.iter().all(|known| known.controllers != controllers)
                {
                    hierarchies.push(Hierarchy { mount_point, controllers });
                }
            }
        }
        match unified {
            _ if !hierarchies.is_empty() => Self::V1 { hierarchies },
            Some(mount_point) => Self::V2 { mount_point },
            None => Self::None,
        }
    }

    pub fn is_v1(&self) -> bool {
        matches!(self, Self::V1 { .. })
    }

    /// The folders of the root groups.
    pub(super) fn roots(&self) -> impl Iterator<Item = &Path> {
        let (v1, v2) = match self {
            Self::None => (&[][..], None),
            Self::V1 { hierarchies } => (&hierarchies[..], None),
            Self::V2 { mount_point } => (&[][..], Some(mount_point.as_path())),
        };
        v1.iter().map(|hierarchy| hierarchy.mount_point.as_path()).chain(v2)
    }
}

impl Hierarchy {
    /// The folder it has in `/sys/fs/cgroup`: programs look there for the names the host uses.
    pub(super) fn folder(&self) -> &Path {
        self.mount_point.file_name().map_or(Path::new("cgroup"), Path::new)
    }

    /// Controllers that share the hierarchy and are also looked for under their own name.
    pub(super) fn aliases(&self) -> impl Iterator<Item = &str> {
        let names = self.controllers.iter().map(String::as_str);
        names.filter(|name| !name.starts_with("name=") && Path::new(name) != self.folder())
    }

    pub(super) fn mount_options(&self) -> String {
        let named_only = self.controllers.iter().all(|controller| controller.starts_with("name="));
        let options = self.controllers.join(",");
        if named_only { format!("none,{options}") } else { options }
    }
}

/// Lets the groups below a group of v2 use all its controllers. Nothing to do in v1, which has no such file.
///
/// Fails where the group has processes of its own: in v2 those are for the leaves (cgroups(7), "no internal processes").
pub(super) fn hand_down_controllers(group: &Path) -> io::Result<()> {
    let switch = group.join("cgroup.subtree_control");
    if !switch.exists() {
        return Ok(());
    }
    let there = fs::read_to_string(group.join("cgroup.controllers"))?;
    let on = fs::read_to_string(&switch)?;
    let missing: Vec<_> = there
        .split_whitespace()
        .filter(|controller| !on.split_whitespace().any(|on| on == *controller))
        .map(|controller| format!("+{controller}"))
        .collect();
    if missing.is_empty() { Ok(()) } else { fs::write(switch, missing.join(" ")) }
}

fn controllers(options: &str) -> Vec<String> {
    options
        .split(',')
        .filter(|word| !NOT_CONTROLLERS.contains(word) && !word.starts_with("release_agent="))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
23 1 0:21 / /sys rw,nosuid - sysfs sysfs rw
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:10 master:2 - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,release_agent=/x,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
50 1 0:32 / /somewhere/else rw,relatime - cgroup cgroup rw,memory
";

    #[test]
    fn a_hybrid_host_counts_as_v1() {
        let Layout::V1 { hierarchies } = Layout::parse(HYBRID) else { panic!() };
        let found: Vec<_> = hierarchies
            .iter()
            .map(|h| (h.folder().to_str().unwrap(), h.mount_options(), h.aliases().collect::<Vec<_>>()))
            .collect();
        assert_eq!(
            found,
            [
                ("cpu,cpuacct", "cpu,cpuacct".to_owned(), vec!["cpu", "cpuacct"]),
                ("memory", "memory".to_owned(), vec![]),
                ("systemd", "none,name=systemd".to_owned(), vec![]),
            ]
        );
        assert_eq!(hierarchies[1].mount_point, Path::new("/sys/fs/cgroup/memory"));
    }

    #[test]
    fn a_unified_host_is_v2() {
        let text = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(Layout::parse(text), Layout::V2 { mount_point: "/sys/fs/cgroup".into() });
        assert_eq!(Layout::parse(""), Layout::None);
    }

    #[test]
    fn controllers_that_are_off_are_handed_down() {
        let group = tempfile::tempdir().unwrap();
        let file = |name: &str| group.path().join(name);
        hand_down_controllers(group.path()).unwrap();
        assert!(!file("cgroup.subtree_control").exists(), "v1 is left alone");
        fs::write(file("cgroup.controllers"), "cpuset cpu memory pids\n").unwrap();
        fs::write(file("cgroup.subtree_control"), "memory pids\n").unwrap();
        hand_down_controllers(group.path()).unwrap();
        assert_eq!(fs::read_to_string(file("cgroup.subtree_control")).unwrap(), "+cpuset +cpu");
        fs::write(file("cgroup.subtree_control"), "cpuset cpu memory pids\n").unwrap();
        hand_down_controllers(group.path()).unwrap();
        assert_eq!(fs::read_to_string(file("cgroup.subtree_control")).unwrap(), "cpuset cpu memory pids\n");
    }
}
