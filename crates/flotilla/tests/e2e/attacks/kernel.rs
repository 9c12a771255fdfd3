//! The kernel that all share: its settings, its devices, and what its capabilities allow.

use std::path::Path;

use flotilla_linux::host::Command;

use super::field::{Field, copy_of_flotilla, identity, reached};
use super::{Attack, Stopped, Tried, Works};

/// Opens a file for writing in a new mount of a file system of the kernel's.
fn in_new_mount(field: &Field, kind: &str, file: &str) -> Tried {
    field.in_both(&format!(
        "d=$(mktemp -d) || exit 3; mount -t {kind} none $d || exit 1; attack write $d/{file}; r=$?; umount $d; rmdir $d; exit $r"
    ))
}

const BY_CAPABILITY: &str = "missing capability";
const NEEDS_ADMIN: &str = "`SYS_ADMIN` allows it; a user namespace does not";

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "open files of the host by their handles",
        none: Stopped,
        user: Stopped,
        why: BY_CAPABILITY,
        run: |field| field.call("handle /var"),
    },
    Attack {
        name: "open directories of the host by their handles",
        none: Stopped,
        user: Stopped,
        why: BY_CAPABILITY,
        run: |field| field.call("handle-of-directory /var"),
    },
    Attack {
        name: "the same from a new user namespace, where a process has every capability",
        none: Stopped,
        user: Stopped,
        why: "the kernel looks below the mount only",
        run: |field| match field.in_node("attack handle-in-user-namespace /var") {
            Tried::Impossible(why) => Tried::Stopped(why),
            tried => tried,
        },
    },
    Attack {
        name: "leave the root directory by `chroot`",
        none: Stopped,
        user: Stopped,
        why: "the host's root is not in the node's mounts",
        run: |field| {
            let (device, inode) = identity(Path::new("/"));
            field.in_both(&format!("attack leave-root {device} {inode}"))
        },
    },
    Attack {
        name: "use directories of the host that PID 1 has open",
        none: Stopped,
        user: Stopped,
        why: "it has none",
        run: |field| field.in_node("attack descriptors"),
    },
    Attack {
        name: "set the clock",
        none: Stopped,
        user: Stopped,
        why: BY_CAPABILITY,
        run: |field| field.call("clock"),
    },
    Attack {
        name: "change the kernel's log",
        none: Stopped,
        user: Stopped,
        why: BY_CAPABILITY,
        run: |field| field.call("kernel-log"),
    },
    Attack {
        name: "load a kernel module",
        none: Stopped,
        user: Stopped,
        why: BY_CAPABILITY,
        run: |field| field.call("module"),
    },
    Attack {
        name: "reboot",
        none: Stopped,
        user: Stopped,
        why: BY_CAPABILITY,
        run: |field| field.call("reboot"),
    },
    Attack {
        name: "kexec",
        none: Stopped,
        user: Stopped,
        why: BY_CAPABILITY,
        run: |field| field.call("kexec"),
    },
    #[cfg(target_arch = "x86_64")]
    Attack {
        name: "I/O ports",
        none: Stopped,
        user: Stopped,
        why: BY_CAPABILITY,
        run: |field| field.call("io-ports"),
    },
    Attack {
        name: "make files immutable",
        none: Stopped,
        user: Stopped,
        why: BY_CAPABILITY,
        run: |field| match field.on_host("immutable file") {
            Tried::Works(_) => field.in_node("attack immutable /var/attack/immutable"),
            other => Tried::Impossible(format!("{other:?}")),
        },
    },
    Attack {
        name: "a core dump handler, by a new mount of proc",
        none: Works,
        user: Stopped,
        why: NEEDS_ADMIN,
        run: |field| in_new_mount(field, "proc", "sys/kernel/core_pattern"),
    },
    Attack {
        name: "the same without a new mount",
        none: Stopped,
        user: Stopped,
        why: "read-only mount",
        run: |field| field.in_node("attack write /proc/sys/kernel/core_pattern"),
    },
    Attack {
        name: "the same after the mask was unmounted",
        none: Works,
        user: Stopped,
        why: NEEDS_ADMIN,
        run: |field| {
            field.in_node(
                "unshare -m sh -c 'umount -l /proc/sys; umount -l /proc/sys; attack write /proc/sys/kernel/core_pattern'",
            )
        },
    },
    Attack {
        name: "settings of memory, by a new mount of proc",
        none: Works,
        user: Stopped,
        why: NEEDS_ADMIN,
        run: |field| in_new_mount(field, "proc", "sys/vm/overcommit_memory"),
    },
    Attack {
        name: "the emergency keys, by a new mount of proc",
        none: Works,
        user: Stopped,
        why: NEEDS_ADMIN,
        run: |field| in_new_mount(field, "proc", "sysrq-trigger"),
    },
    Attack {
        name: "settings of the kernel, by a new mount of sysfs",
        none: Works,
        user: Stopped,
        why: NEEDS_ADMIN,
        run: |field| in_new_mount(field, "sysfs", "kernel/mm/transparent_hugepage/enabled"),
    },
    Attack {
        name: "the same without a new mount",
        none: Stopped,
        user: Stopped,
        why: "read-only mount",
        run: |field| field.in_node("attack write /sys/kernel/mm/transparent_hugepage/enabled"),
    },
    Attack {
        name: "a handler of programs, by a mount of binfmt_misc",
        none: Works,
        user: Stopped,
        why: "`SYS_ADMIN` allows it; in a user namespace the handlers are the node's own",
        run: handler_of_programs,
    },
    Attack {
        name: "tracing of the host, by a mount of tracefs",
        none: Works,
        user: Stopped,
        why: NEEDS_ADMIN,
        run: |field| in_new_mount(field, "tracefs", "trace_marker"),
    },
    Attack {
        name: "the host's device files, by a mount of devtmpfs",
        none: Works,
        user: Stopped,
        why: NEEDS_ADMIN,
        run: |field| {
            field.in_both(
                "d=$(mktemp -d) || exit 3; mount -t devtmpfs none $d || exit 1; mkdir $d/attack && rmdir $d/attack; r=$?; umount $d; rmdir $d; exit $r",
            )
        },
    },
    Attack {
        name: "remount a file system of the host, as it is",
        none: Works,
        user: Stopped,
        why: NEEDS_ADMIN,
        run: |field| field.in_node("mount -o remount,rw /var || exit 1"),
    },
    Attack {
        name: "freeze a file system of the host",
        none: Stopped,
        user: Stopped,
        why: "system call filter",
        run: |field| field.call("freeze /var"),
    },
    Attack {
        name: "shut a file system of the host down",
        none: Stopped,
        user: Stopped,
        why: "system call filter",
        run: |field| field.call("shutdown /var"),
    },
    Attack {
        name: "watch all files of a file system of the host",
        none: Stopped,
        user: Stopped,
        why: "system call filter",
        run: |field| field.call("watch /var"),
    },
    Attack {
        name: "hold up whoever opens a file of the host",
        none: Stopped,
        user: Stopped,
        why: "system call filter",
        run: |field| field.call("hold-opens"),
    },
    Attack {
        name: "give the host swap space, or take it away",
        none: Stopped,
        user: Stopped,
        why: "system call filter",
        run: |field| field.call("swap"),
    },
    Attack {
        name: "read keys in the keyring of the host's root user",
        none: Stopped,
        user: Stopped,
        why: "system call filter",
        run: key_of_root,
    },
    Attack {
        name: "load an eBPF program that traces the host",
        none: Works,
        user: Stopped,
        why: "eBPF networks need it; a user namespace does not allow it",
        run: |field| field.call("bpf"),
    },
    Attack {
        name: "count events of all processes of the host",
        none: Works,
        user: Stopped,
        why: NEEDS_ADMIN,
        run: |field| field.call("perf"),
    },
    Attack {
        name: "a release agent, by new mounts of control groups",
        none: Stopped,
        user: Stopped,
        why: "cgroup namespace",
        run: |field| {
            field.in_both(
                "d=$(mktemp -d) || exit 3; mount -t cgroup -o memory none $d || exit 1; test -e $d/release_agent; r=$?; umount $d; rmdir $d; exit $r",
            )
        },
    },
    Attack {
        name: "a new hierarchy of control groups",
        none: Stopped,
        user: Stopped,
        why: "cgroup namespace",
        run: |field| {
            field.in_both(
                "d=$(mktemp -d) || exit 3; mount -t cgroup -o none,name=attack none $d || exit 1; umount $d; rmdir $d",
            )
        },
    },
    Attack {
        name: "sockets of the host that have a name but no file",
        none: Stopped,
        user: Stopped,
        why: "network namespace",
        run: abstract_socket,
    },
    Attack {
        name: "overwrite the `flotilla` that enters a node, by its process",
        none: Stopped,
        user: Stopped,
        why: "it runs from a file system that is read-only itself",
        run: program_that_enters,
    },
];

/// Numbers of devices are those of devices.txt of the kernel's documentation.
pub(super) const DEVICES: &[Attack] = &[
    Attack {
        name: "read the host's disk",
        none: Stopped,
        user: Stopped,
        why: "device rules",
        run: |field| field.call(&format!("device b {}", root_disk())),
    },
    Attack {
        name: "mount the host's disk",
        none: Works,
        user: Stopped,
        why: "Linux mounts a disk that is mounted already without opening it, so no device rule is asked; a user namespace may not",
        run: |field| {
            field.in_both(&format!(
                "mknod attack-disk b {}; d=$(mktemp -d) || exit 3; mount -t ext4 attack-disk $d && umount $d; r=$?; rm -f attack-disk; rmdir $d; test $r = 0",
                root_disk()
            ))
        },
    },
    Attack {
        name: "loop devices",
        none: Stopped,
        user: Stopped,
        why: "device rules",
        run: |field| field.call("device b 7 0"),
    },
    Attack {
        name: "loop devices, after the node has allowed itself all",
        none: Stopped,
        user: Stopped,
        why: "device rules are above the node's own group",
        run: |field| field.in_node("echo a > /sys/fs/cgroup/devices/devices.allow; attack device b 7 0"),
    },
    Attack {
        name: "the host's memory",
        none: Stopped,
        user: Stopped,
        why: "device rules",
        run: |field| field.call("device c 1 1"),
    },
    Attack {
        name: "the kernel's log device",
        none: Stopped,
        user: Stopped,
        why: "device rules",
        run: |field| field.call("device c 1 11"),
    },
    Attack {
        name: "virtual consoles",
        none: Stopped,
        user: Stopped,
        why: "device rules",
        run: |field| field.call("device c 4 1"),
    },
    Attack {
        name: "what consoles show",
        none: Stopped,
        user: Stopped,
        why: "device rules",
        run: |field| field.call("device c 7 1"),
    },
    Attack {
        name: "loop-control, which makes devices",
        none: Stopped,
        user: Stopped,
        why: "device rules",
        run: |field| field.call("device c 10 237"),
    },
    Attack {
        name: "the system console",
        none: Works,
        user: Stopped,
        why: "containerd allows it to each container by name",
        run: |field| field.call("device c 5 1"),
    },
    Attack {
        name: "FUSE and tunnels",
        none: Works,
        user: Works,
        why: "on purpose: pods use them",
        run: |field| field.in_node("attack read /dev/fuse && attack read /dev/net/tun"),
    },
];

/// As arguments of mknod.
fn root_disk() -> String {
    let (device, _) = identity(Path::new("/"));
    format!("{} {}", rustix::fs::major(device), rustix::fs::minor(device))
}

/// For files that end in its name, which nobody has: seen by the host, it would be run there.
fn handler_of_programs(field: &Field) -> Tried {
    let name = format!("flotilla{}", std::process::id());
    let mounted = "d=$(mktemp -d) || exit 3; mount -t binfmt_misc none $d || exit 1";
    let made =
        field.in_node(&format!("{mounted}; echo ':{name}:E::{name}::/bin/true:' > $d/register || exit 1"));
    if !matches!(made, Tried::Works(_)) {
        return made;
    }
    let line = format!("mount -t binfmt_misc none /mnt && test -e /mnt/{name}");
    let is_seen = Command::new("unshare").args(["-m", "sh", "-c", &line]).run().is_ok();
    field.ssh(&format!("{mounted}; echo -1 > $d/{name}; umount $d; rmdir $d"));
    reached(is_seen, format!("the handler {name}"))
}

fn key_of_root(field: &Field) -> Tried {
    let name = format!("flotilla-attack-{}", std::process::id());
    if !matches!(field.on_host(&format!("add-key {name} secret")), Tried::Works(_)) {
        return Tried::Impossible("the host has no keys".to_owned());
    }
    let tried = field.call(&format!("key {name}"));
    field.on_host(&format!("remove-key {name}"));
    tried
}

fn abstract_socket(field: &Field) -> Tried {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};
    let name = format!("flotilla-attack-{}", std::process::id());
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let tried = field.call(&format!("abstract-socket {name}"));
    drop(listener);
    tried
}

/// Another program than that of PID 1, as after an upgrade: what runs cannot be written.
fn program_that_enters(field: &Field) -> Tried {
    let program = copy_of_flotilla(field.host.path());
    let (device, inode) = identity(&program);
    let hunt = format!("attack take-program {device} {inode} 6");
    std::thread::scope(|scope| {
        let hunter = scope.spawn(|| field.in_node(&hunt));
        while !hunter.is_finished() {
            let given = field.cluster.command(&["ssh", "-n", &field.worker, "--", "true"]);
            #[expect(clippy::disallowed_methods, reason = "another copy of the program")]
            let mut entering = std::process::Command::new(&program);
            entering
                .args(given.get_args())
                .envs(given.get_envs().filter_map(|(name, value)| Some((name, value?))));
            assert!(entering.output().unwrap().status.success());
        }
        match hunter.join().unwrap() {
            Tried::Impossible(why) => Tried::Stopped(why),
            tried => tried,
        }
    })
}
