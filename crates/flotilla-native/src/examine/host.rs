//! The kernel and what it lets us do.

use flotilla_core::Finding;
use flotilla_core::explain::run_as_root;
use flotilla_linux::trial::TrialError;
use rustix::thread::CapabilitySet;

use super::Check;
use super::facts::{Cgroups, Facts, NAMESPACES, Setting};

/// Entering all of a machine's namespaces at once (setns(2) on a pidfd) is the newest thing we ask of a kernel.
const OLDEST_KERNEL: (u32, u32) = (5, 8);
/// Below this kube-proxy refuses to make nftables rules.
const OLDEST_FOR_KUBE_PROXY: (u32, u32) = (5, 13);

/// Capabilities that root needs, with their names.
const NEEDED_CAPABILITIES: [(CapabilitySet, &str); 2] =
    [(CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN"), (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN")];

/// Controllers that the kubelet or resource limits need.
const NEEDED_V1: [&str; 5] = ["cpu", "cpuacct", "cpuset", "memory", "pids"];
const NEEDED_V2: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];
/// In v2 these are not controllers: every group has them.
const WANTED_V1: [&str; 2] = ["devices", "freezer"];

/// What `start` raises it to. Each node needs some twenty.
const INOTIFY_INSTANCES: u64 = 8192;
const FEW_OPEN_FILES: u64 = 4096;

pub(super) fn permission(facts: &Facts) -> Finding {
    const CHECK: Check = Check::new("HOST_PERMISSION", 37);
    let lacks =
        NEEDED_CAPABILITIES.iter().filter(|(capability, _)| !facts.capabilities.contains(*capability));
    let lacks: Vec<_> = lacks.map(|(_, name)| *name).collect();
    if !facts.root {
        return CHECK.fatal("permission: you are not root", run_as_root());
    }
    if lacks.is_empty() {
        return CHECK.good("permission: you are root");
    }
    CHECK.fatal(
        format!("permission: you are root, but without {}", lacks.join(" and ")),
        "run it outside the container, or make the container privileged",
    )
}

pub(super) fn kernel(facts: &Facts) -> Finding {
    const CHECK: Check = Check::new("HOST_OLD_KERNEL", 36);
    let release = &facts.release;
    let Some(version) = parse_version(release) else {
        return CHECK.warning(
            format!("kernel: Linux {release}, unrecognised version"),
            format!("make sure that it is {} or newer", dotted(OLDEST_FOR_KUBE_PROXY)),
        );
    };
    if version < OLDEST_KERNEL {
        CHECK.fatal(
            format!("kernel: Linux {release} is older than {}", dotted(OLDEST_KERNEL)),
            format!("install Linux {} or newer", dotted(OLDEST_FOR_KUBE_PROXY)),
        )
    } else if version < OLDEST_FOR_KUBE_PROXY {
        CHECK.warning(
            format!(
                "kernel: Linux {release}; kube-proxy needs {} for nftables",
                dotted(OLDEST_FOR_KUBE_PROXY)
            ),
            "install a newer one, or start clusters with `--extra-config=kube-proxy.mode=iptables`",
        )
    } else {
        CHECK.good(format!("kernel: Linux {release}"))
    }
}

pub(super) fn namespaces(facts: &Facts) -> Finding {
    const CHECK: Check = Check::new("HOST_NO_NAMESPACES", 36);
    let missing = missing(&NAMESPACES, &facts.namespaces);
    if missing.is_empty() {
        return CHECK.good(format!("namespaces: {}", NAMESPACES.join(", ")));
    }
    CHECK.fatal(format!("namespaces: the kernel lacks {}", missing.join(", ")), "use a distribution's kernel")
}

pub(super) fn cgroups(facts: &Facts) -> Finding {
    const CHECK: Check = Check::new("HOST_NO_CGROUPS", 36);
    let (version, needed, wanted, there) = match &facts.cgroups {
        Cgroups::None => {
            return CHECK.fatal(
                "cgroups: none are mounted",
                "mount them with `mount -t cgroup2 cgroup2 /sys/fs/cgroup`, like systemd",
            );
        }
        Cgroups::V1(there) => ("v1", &NEEDED_V1[..], &WANTED_V1[..], there),
        Cgroups::V2(there) => ("v2", &NEEDED_V2[..], &[][..], there),
    };
    let lacks = missing(needed, there);
    if !lacks.is_empty() {
        let cure = "switch them on by the kernel's command line (`cgroup_enable=memory`), or where the container that \
                    you are in was made";
        return CHECK.fatal(format!("cgroups: {version}, without {}", lacks.join(", ")), cure);
    }
    let lacks = missing(wanted, there);
    if !lacks.is_empty() {
        let cure = "mount these hierarchies below /sys/fs/cgroup: containers may fail without them";
        return CHECK.warning(format!("cgroups: {version}, without {}", lacks.join(", ")), cure);
    }
    CHECK.good(format!("cgroups: {version}, with {}", needed.join(", ")))
}

pub(super) fn overlay(facts: &Facts) -> Finding {
    const CHECK: Check = Check::new("HOST_NO_OVERLAY", 36);
    if facts.overlay {
        CHECK.good("overlay: supported by the kernel")
    } else {
        CHECK.fatal(
            "overlay: not supported by the kernel",
            "use a distribution's kernel, and make sure that its modules are in /lib/modules",
        )
    }
}

pub(super) fn images(facts: &Facts) -> Finding {
    const CHECK: Check = Check::new("HOST_NO_EROFS", 36);
    if facts.erofs {
        CHECK.good("images: shared by an EROFS file system")
    } else {
        CHECK.warning(
            "images: no EROFS in the kernel or no loop devices: an overlay shares them, which pods with `hostUsers: false` cannot use",
            "use a distribution's kernel, and make sure that its modules are in /lib/modules",
        )
    }
}

pub(super) fn state_folder_is_writable(facts: &Facts) -> Finding {
    const CHECK: Check = Check::new("HOST_READ_ONLY_HOME", 37);
    let home = facts.home.display();
    match &facts.home_trial {
        Some(Err(TrialError::Write { source })) => CHECK.fatal(
            format!("writing: cannot write to {home}: {source}"),
            "make that file system writable, or set FLOTILLA_HOME to a directory on another one",
        ),
        Some(_) => CHECK.good(format!("writing: {home} is writable")),
        None => CHECK.good(format!("writing: root will try {home}")),
    }
}

pub(super) fn state_folder(facts: &Facts) -> Finding {
    const CHECK: Check = Check::new("HOST_OVERLAY_HOME", 36);
    let home = facts.home.display();
    if facts.home_on_overlay {
        // An overlay cannot be the upper layer of another.
        return CHECK.fatal(
            format!("state directory: {home} is on an overlay, which cannot hold the nodes' file systems"),
            "set FLOTILLA_HOME to a directory on a disk or a volume",
        );
    }
    match &facts.home_trial {
        // A kernel without overlays is already reported.
        Some(Err(TrialError::Overlay { source })) if facts.overlay => CHECK.fatal(
            format!(
                "state directory: {home} is on a file system that cannot be the upper layer of an overlay, like NFS, \
                 eCryptfs or an older ZFS: {source}"
            ),
            "set FLOTILLA_HOME to a directory on a local disk with ext4, xfs or btrfs",
        ),
        Some(Err(TrialError::Untried { source })) => CHECK.warning(
            format!("state directory: cannot check whether {home} can be the upper layer of an overlay: {source}"),
            "if nodes do not start, set FLOTILLA_HOME to a directory on a local disk with ext4, xfs or btrfs",
        ),
        _ => CHECK.good(format!("state directory: {home}")),
    }
}

pub(super) fn inotify(facts: &Facts) -> Finding {
    const CHECK: Check = Check::new("HOST_FEW_INOTIFY", 37);
    let Setting { value, .. } = facts.inotify_instances;
    let text = format!("inotify: {value} instances per user");
    if value >= INOTIFY_INSTANCES {
        CHECK.good(text)
    } else if can_raise(facts, facts.inotify_instances) {
        CHECK.good(format!("{text}, will be raised to {INOTIFY_INSTANCES}"))
    } else {
        CHECK.fatal(
            format!("{text}, cannot be raised"),
            format!("set fs.inotify.max_user_instances to {INOTIFY_INSTANCES} on the host"),
        )
    }
}

pub(super) fn open_files(facts: &Facts) -> Finding {
    const CHECK: Check = Check::new("HOST_FEW_OPEN_FILES", 30);
    match facts.open_files {
        None => CHECK.good("open files: no limit"),
        Some(limit) if limit >= FEW_OPEN_FILES => {
            CHECK.good(format!("open files: up to {limit} per process"))
        }
        Some(limit) => CHECK.warning(
            format!("open files: only up to {limit} per process"),
            "raise the hard limit of `nofile` in /etc/security/limits.conf, and log in again",
        ),
    }
}

pub(super) fn oom_scores(facts: &Facts) -> Finding {
    const CHECK: Check = Check::new("HOST_NO_OOM_SCORES", 37);
    if facts.capabilities.contains(CapabilitySet::SYS_RESOURCE) {
        CHECK.good("out of memory: system containers are killed last")
    } else {
        CHECK.warning(
            "out of memory: cannot lower OOM scores (no CAP_SYS_RESOURCE), so system containers may be killed first",
            "give CAP_SYS_RESOURCE to the container or service that flotilla runs in",
        )
    }
}

pub(super) fn selinux(facts: &Facts) -> Finding {
    const CHECK: Check = Check::new("HOST_SELINUX", 37);
    if facts.selinux_enforces {
        CHECK.warning(
            "SELinux: enforcing, which may block nodes",
            "if a node fails, check `ausearch -m avc -ts recent`, and retry after `setenforce 0`",
        )
    } else {
        CHECK.good("SELinux: not enforcing")
    }
}

/// Whether `start` can raise it. Without root this is unknown, and missing root is already reported.
pub(super) fn can_raise(facts: &Facts, setting: Setting) -> bool {
    setting.writable || !facts.root
}

fn missing<'a, T: AsRef<str>>(needed: &[&'a str], there: &[T]) -> Vec<&'a str> {
    let is_there = |name: &str| there.iter().any(|has| has.as_ref() == name);
    needed.iter().copied().filter(|name| !is_there(name)).collect()
}

/// The first two numbers of `6.1.0-18-amd64`.
fn parse_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn dotted((major, minor): (u32, u32)) -> String {
    format!("{major}.{minor}")
}
