//! Collects facts about the host, without evaluating them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use flotilla_linux::cgroup::Layout;
use flotilla_linux::disk;
use flotilla_linux::net::{Net, NetError, UsedRange};
use flotilla_linux::nft::Refusals;
use flotilla_linux::process::host_size;
use flotilla_linux::resolver::{ResolverError, Upstream};
use flotilla_linux::sysctl;
use flotilla_linux::trial::{TrialError, try_folder};
use rustix::fs::{FsWord, statfs};
use rustix::process::{Resource, geteuid, getrlimit};
use rustix::system::uname;
use rustix::thread::{CapabilitySet, capabilities, capability_is_in_bounding_set};

use super::filter;
use crate::network::nft;

/// `OVERLAYFS_SUPER_MAGIC` of statfs(2).
const OVERLAY_MAGIC: FsWord = 0x794c_7630;

/// The namespaces a machine has of its own, as `/proc/self/ns` calls them.
pub(super) const NAMESPACES: [&str; 6] = ["mnt", "pid", "net", "uts", "ipc", "cgroup"];

/// Everything about the host that matters to machines.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Facts {
    /// The state directory, which need not be there yet.
    pub(super) home: PathBuf,
    pub(super) root: bool,
    /// What root has; of anybody else, what root would have here.
    pub(super) capabilities: CapabilitySet,
    /// The kernel's version: `6.1.0-18-amd64`.
    pub(super) release: String,
    /// Those of [`NAMESPACES`] that the kernel has.
    pub(super) namespaces: Vec<&'static str>,
    pub(super) cgroups: Cgroups,
    /// The kernel has the overlay file system, or a module with it that comes when it is used.
    pub(super) overlay: bool,
    /// The same for EROFS, and devices to mount it from.
    pub(super) erofs: bool,
    pub(super) home_on_overlay: bool,
    /// What came of trying there what machines need; none where only root can try.
    pub(super) home_trial: Option<Result<(), TrialError>>,
    pub(super) inotify_instances: Setting,
    pub(super) forwarding: Setting,
    /// How many files a process may open at most; none: as many as it likes.
    pub(super) open_files: Option<u64>,
    pub(super) selinux_enforces: bool,
    pub(super) cpus: u32,
    /// Bytes, like the next two.
    pub(super) total_memory: u64,
    pub(super) available_memory: u64,
    pub(super) free_disk: io::Result<u64>,
    /// None where only root may know, like the next two.
    pub(super) nf_tables: Option<bool>,
    pub(super) firewalld: Option<bool>,
    pub(super) legacy_filter: Option<bool>,
    /// Chains of others that refuse what they do not know; none where nobody can ask for them: not root, or no nft.
    pub(super) refusals: Option<Refusals>,
    pub(super) ranges: Result<Vec<UsedRange>, NetError>,
    pub(super) name_server: Result<Upstream, ResolverError>,
}

/// Which control groups there are, with their controllers.
#[derive(Debug)]
pub(super) enum Cgroups {
    None,
    V1(Vec<String>),
    V2(Vec<String>),
}

/// A setting of the kernel that `start` raises where it is too low.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting {
    pub(super) value: u64,
    pub(super) writable: bool,
}

impl Facts {
    /// Collects the facts. Values that cannot be read count as missing, unless the field has a case for it.
    pub(super) fn gather(home: &Path) -> Self {
        let root = geteuid().is_root();
        let release = uname().release().to_string_lossy().into_owned();
        let size = host_size();
        Self {
            home: home.to_owned(),
            root,
            capabilities: capabilities_of(root),
            namespaces: NAMESPACES.into_iter().filter(|name| has_namespace(name)).collect(),
            cgroups: Cgroups::of_host(),
            overlay: lists_filesystem(&text("/proc/filesystems"), "overlay")
                || has_module(&release, "overlay"),
            erofs: (lists_filesystem(&text("/proc/filesystems"), "erofs") || has_module(&release, "erofs"))
                && Path::new("/dev/loop-control").exists(),
            home_on_overlay: file_system(home) == Some(OVERLAY_MAGIC),
            home_trial: root.then(|| try_home(home)),
            inotify_instances: Setting::read("fs/inotify/max_user_instances"),
            forwarding: Setting::read("net/ipv4/ip_forward"),
            open_files: getrlimit(Resource::Nofile).maximum,
            selinux_enforces: text("/sys/fs/selinux/enforce").trim() == "1",
            cpus: size.cpus,
            total_memory: size.memory,
            available_memory: parse_available(&text("/proc/meminfo")).unwrap_or_default(),
            free_disk: disk::free_bytes(home),
            nf_tables: filter::has_nf_tables(),
            firewalld: filter::has_table("firewalld"),
            legacy_filter: has_legacy_filter(),
            refusals: root.then(|| refusals(home)).flatten(),
            ranges: Net::here().and_then(|net| net.used_ranges()),
            name_server: Upstream::read(),
            release,
        }
    }
}

impl Cgroups {
    fn of_host() -> Self {
        match Layout::of_host() {
            Ok(Layout::V1 { hierarchies, .. }) => {
                Self::V1(hierarchies.into_iter().flat_map(|hierarchy| hierarchy.controllers).collect())
            }
            Ok(Layout::V2 { mount_point, .. }) => {
                let controllers = text(mount_point.join("cgroup.controllers"));
                Self::V2(controllers.split_whitespace().map(str::to_owned).collect())
            }
            Ok(Layout::None) | Err(_) => Self::None,
        }
    }
}

impl Setting {
    fn read(path: &str) -> Self {
        let value = sysctl::get(path).ok().and_then(|value| value.parse().ok());
        Self {
            value: value.unwrap_or_default(),
            writable: disk::is_writable(&Path::new("/proc/sys").join(path)),
        }
    }
}

/// The text of a file, empty where it cannot be read.
fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn capabilities_of(root: bool) -> CapabilitySet {
    if root {
        return capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    }
    // Root gets the capabilities of the bounding set (capabilities(7)).
    let all = CapabilitySet::all().iter();
    all.filter(|one| capability_is_in_bounding_set(*one).unwrap_or_default()).collect()
}

fn has_namespace(name: &str) -> bool {
    // The link itself: it leads to nothing that has a path.
    fs::symlink_metadata(Path::new("/proc/self/ns").join(name)).is_ok()
}

/// Whether `/proc/filesystems` lists it: each line is `nodev` or nothing, a tab, and a name.
fn lists_filesystem(filesystems: &str, name: &str) -> bool {
    filesystems.lines().any(|line| line.split('\t').next_back() == Some(name))
}

/// Whether the kernel's modules include one, loaded or not.
fn has_module(release: &str, name: &str) -> bool {
    let folder = Path::new("/lib/modules").join(release);
    ["modules.builtin", "modules.dep"].iter().any(|list| lists_module(&text(folder.join(list)), name))
}

/// Whether one of depmod's lists has it: `kernel/fs/overlayfs/overlay.ko.xz: kernel/…`, with or without the rest.
fn lists_module(list: &str, name: &str) -> bool {
    let files = list.lines().filter_map(|line| line.split(':').next()?.rsplit('/').next());
    files.filter_map(|file| file.split_once(".ko")).any(|(module, _)| module == name)
}

/// The kind of file system that the directory, or the nearest one above it that exists, is on.
fn file_system(directory: &Path) -> Option<FsWord> {
    directory.ancestors().find_map(|path| statfs(path).ok()).map(|stat| stat.f_type)
}

/// Tries the directory, or the nearest one above it that exists.
fn try_home(home: &Path) -> Result<(), TrialError> {
    let folder = disk::nearest_existing(home).map_err(|source| TrialError::Write { source })?;
    try_folder(folder)
}

/// By the nft of any bundle, or the host's.
fn refusals(home: &Path) -> Option<Refusals> {
    nft::any(home).refusals().ok()
}

/// The bytes that programs can still get, by the text of `/proc/meminfo`.
fn parse_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// Whether the old iptables filters packets. Only root may know.
fn has_legacy_filter() -> Option<bool> {
    match fs::read_to_string("/proc/net/ip_tables_names") {
        Ok(names) => Some(names.lines().any(|name| name == "filter")),
        // The kernel does not have it, or has not loaded it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(false),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_are_found_by_their_whole_name() {
        let text = "nodev\tsysfs\n\text4\nnodev\toverlay2\n";
        assert!(lists_filesystem(text, "ext4") && lists_filesystem(text, "sysfs"));
        assert!(!lists_filesystem(text, "overlay"));
    }

    #[test]
    fn modules_are_found_however_they_are_packed() {
        for list in [
            "kernel/fs/overlayfs/overlay.ko\n",
            "kernel/fs/ext4/ext4.ko: kernel/lib/crc16.ko\nkernel/fs/overlayfs/overlay.ko.zst:\n",
        ] {
            assert!(lists_module(list, "overlay"), "{list}");
        }
        // Another one that needs it, or is called much the same, is not it.
        assert!(!lists_module(
            "kernel/a.ko: kernel/fs/overlayfs/overlay.ko\nkernel/my-overlay.ko:\n",
            "overlay"
        ));
        assert!(!lists_module("", "overlay"));
    }

    #[test]
    fn available_memory_is_read() {
        assert_eq!(parse_available("MemTotal:  24 kB\nMemAvailable:    2048 kB\n"), Some(2_097_152));
        assert_eq!(parse_available("MemTotal:  24 kB\n"), None);
    }

    #[test]
    fn a_directory_that_does_not_exist_yet_is_on_the_file_system_of_the_nearest_above() {
        // statfs(2): the one kind of which every host has exactly one place.
        const PROC_MAGIC: FsWord = 0x9fa0;
        for path in ["/proc", "/proc/not/made/yet"] {
            assert_eq!(file_system(Path::new(path)), Some(PROC_MAGIC), "{path}");
        }
        let elsewhere = file_system(Path::new("/not/made/yet"));
        assert!(elsewhere.is_some_and(|kind| kind != PROC_MAGIC), "{elsewhere:?}");
    }
}
