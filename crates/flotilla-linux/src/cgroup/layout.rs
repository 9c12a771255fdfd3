//! Which hierarchies of control groups the host has.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::processes::LEAF;
use super::{CgroupError, REMOVE_TRIES};
use crate::mount::info::{Mount, mounts};

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

/// Controllers without which nodes cannot be limited: the version that has one of these is the one the host uses.
const DECISIVE: [&str; 2] = ["memory", "cpu"];

/// The control groups of a host.
///
/// The hierarchies that are not used for new groups are kept as well: a node may have been started when the mounts were
/// others, and has to be found anyway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Layout {
    /// None are mounted.
    None,
    V1 {
        hierarchies: Vec<Hierarchy>,
        /// Where a hierarchy of v2 is mounted beside them.
        unified: Option<PathBuf>,
    },
    V2 {
        mount_point: PathBuf,
        /// Hierarchies of v1 without the controllers that matter, such as one that an old program mounted.
        strays: Vec<Hierarchy>,
    },
}

/// One hierarchy of v1: some controllers mounted together, or none and a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hierarchy {
    pub mount_point: PathBuf,
    /// `cpu`, `cpuacct`; for a hierarchy without controllers `name=systemd`.
    pub controllers: Vec<String>,
}

impl Layout {
    /// Looks at what is mounted where we are.
    pub fn of_host() -> io::Result<Self> {
        fs::read("/proc/self/mountinfo").map(|text| Self::parse(&text))
    }

    /// Reads a `mountinfo` (proc(5)).
    pub fn parse(mountinfo: &[u8]) -> Self {
        let mut hierarchies: Vec<Hierarchy> = Vec::new();
        let mut unified = None;
        for Mount { at: mount_point, kind, options } in mounts(mountinfo) {
            if kind == "cgroup2" {
                unified.get_or_insert(mount_point);
            } else if kind == "cgroup" {
                let controllers = controllers(&options);
                // A hierarchy may be mounted in several places: the first is the host's own.
                if !controllers.is_empty() && hierarchies.iter().all(|known| known.controllers != controllers)
                {
                    hierarchies.push(Hierarchy { mount_point, controllers });
                }
            }
        }
        let is_decisive = |name: &String| DECISIVE.contains(&name.as_str());
        let v1_limits = hierarchies.iter().any(|hierarchy| hierarchy.controllers.iter().any(is_decisive));
        match unified {
            Some(mount_point) if !v1_limits => Self::V2 { mount_point, strays: hierarchies },
            None if hierarchies.is_empty() => Self::None,
            unified => Self::V1 { hierarchies, unified },
        }
    }

    pub fn is_v1(&self) -> bool {
        matches!(self, Self::V1 { .. })
    }

    /// The root groups below which new groups are made.
    pub(super) fn roots(&self) -> Vec<PathBuf> {
        match self {
            Self::None => Vec::new(),
            Self::V1 { hierarchies, .. } => mount_points(hierarchies),
            Self::V2 { mount_point, .. } => vec![mount_point.clone()],
        }
    }

    /// The root groups of all other hierarchies.
    pub(super) fn other_roots(&self) -> Vec<PathBuf> {
        match self {
            Self::None => Vec::new(),
            Self::V1 { unified, .. } => unified.iter().cloned().collect(),
            Self::V2 { strays, .. } => mount_points(strays),
        }
    }
}

impl Hierarchy {
    /// The directory it has in `/sys/fs/cgroup`: programs look there for the names the host uses.
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

/// Lets the groups below a group of v2 use all its controllers. Nothing to do in v1, which lacks that file.
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

/// Whether the root of the hierarchy that we see is a container's, not the host's: only the real root has no type.
pub(super) fn is_of_container(root: &Path) -> bool {
    root.join("cgroup.type").exists()
}

/// Moves the processes of a group of v2 to a leaf below it, so that it can hand down its controllers.
pub(super) fn vacate(group: &Path) -> Result<(), CgroupError> {
    let leaf = group.join(LEAF);
    create_leaf(&leaf)?;
    // A process that forks meanwhile leaves its child behind.
    for _ in 0..REMOVE_TRIES {
        let processes = fs::read_to_string(group.join("cgroup.procs"))
            .map_err(|source| CgroupError::Create { path: group.to_owned(), source })?;
        let processes: Vec<_> = processes.split_whitespace().collect();
        if processes.is_empty() {
            return Ok(());
        }
        // 0 is a process outside our process namespace, which we cannot move.
        if processes.contains(&"0") {
            break;
        }
        for process in processes {
            match fs::write(leaf.join("cgroup.procs"), process) {
                // It has ended.
                Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => {}
                moved => moved.map_err(|source| CgroupError::Join { path: leaf.clone(), source })?,
            }
        }
    }
    Err(CgroupError::Occupied { path: group.to_owned() })
}

pub(super) fn create_leaf(leaf: &Path) -> Result<(), CgroupError> {
    match fs::create_dir(leaf) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
            Err(CgroupError::Create { path: leaf.to_owned(), source })
        }
        _ => Ok(()),
    }
}

fn mount_points(hierarchies: &[Hierarchy]) -> Vec<PathBuf> {
    hierarchies.iter().map(|hierarchy| hierarchy.mount_point.clone()).collect()
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
        let Layout::V1 { hierarchies, unified } = Layout::parse(HYBRID.as_bytes()) else { panic!() };
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
        assert_eq!(unified.as_deref(), Some(Path::new("/sys/fs/cgroup/unified")), "machines may be there");
    }

    #[test]
    fn a_unified_host_is_v2() {
        let text = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let v2 = Layout::V2 { mount_point: "/sys/fs/cgroup".into(), strays: Vec::new() };
        assert_eq!(Layout::parse(text.as_bytes()), v2);
        assert_eq!(Layout::parse(b""), Layout::None);
    }

    #[test]
    fn a_stray_mount_of_v1_does_not_make_a_unified_host_v1() {
        for stray in ["freezer", "name=systemd", "net_cls,net_prio", "cpuacct"] {
            let text = format!(
                "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n31 23 0:27 / /mnt/old rw - cgroup old rw,{stray}\n"
            );
            let Layout::V2 { strays, .. } = Layout::parse(text.as_bytes()) else { panic!("{stray}") };
            assert_eq!(strays[0].mount_point, Path::new("/mnt/old"), "{stray}");
        }
        for decisive in ["memory", "cpu,cpuacct"] {
            let text =
                format!("30 23 0:26 / /u rw - cgroup2 c rw\n31 23 0:27 / /m rw - cgroup c rw,{decisive}\n");
            assert!(Layout::parse(text.as_bytes()).is_v1(), "{decisive}");
        }
        let alone = "31 23 0:27 / /mnt/old rw - cgroup old rw,freezer\n";
        assert!(Layout::parse(alone.as_bytes()).is_v1(), "there is nothing else");
    }

    #[test]
    fn a_mount_point_that_is_no_text_breaks_nothing() {
        let text = b"29 23 0:25 / /mnt/\xff\xfe rw - ext4 /dev/\xff rw\n\
                     30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert!(matches!(Layout::parse(text), Layout::V2 { .. }));
    }

    /// On the hierarchy of v2 that this host has, whatever else it has.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a process that is moved about")]
    fn processes_of_a_container_s_root_move_to_a_leaf() {
        let (Layout::V1 { unified: Some(unified), .. } | Layout::V2 { mount_point: unified, .. }) =
            Layout::of_host().unwrap()
        else {
            return flotilla_testkit::does_not_apply("there is no hierarchy of v2");
        };
        if !flotilla_testkit::is_root() {
            return flotilla_testkit::skip("only root makes control groups");
        }
        assert!(!is_of_container(&unified) || unified.join("cgroup.events").exists());
        let root = unified.join(format!("flotilla-test-root-{}", std::process::id()));
        fs::create_dir(&root).unwrap();
        assert!(is_of_container(&root), "any other than the host's own root");
        let mut children: Vec<_> =
            (0..3).map(|_| std::process::Command::new("sleep").arg("1000000").spawn().unwrap()).collect();
        for child in &children {
            fs::write(root.join("cgroup.procs"), child.id().to_string()).unwrap();
        }
        vacate(&root).unwrap();
        vacate(&root).unwrap();
        let in_group = |group: &Path| fs::read_to_string(group.join("cgroup.procs")).unwrap().lines().count();
        let moved = (in_group(&root), in_group(&root.join(LEAF)));
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        fs::remove_dir(root.join(LEAF)).and_then(|()| fs::remove_dir(&root)).unwrap();
        assert_eq!(moved, (0, 3));
    }

    #[test]
    fn processes_that_are_not_in_sight_are_an_error_that_says_so() {
        let group = tempfile::tempdir().unwrap();
        fs::write(group.path().join("cgroup.procs"), "0\n17\n").unwrap();
        let error = vacate(group.path()).unwrap_err();
        assert!(matches!(error, CgroupError::Occupied { .. }), "{error:?}");
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
