//! What a node may use of the host.

use std::fs;
use std::path::PathBuf;

use super::field::{Field, reached};
use super::{Attack, Stopped, Tried, Works};
use crate::host_state;

const ABOVE: &str = "limits are above the node's own group";

pub(super) const ATTACKS: &[Attack] = &[
    Attack { name: "raise its own limits", none: Stopped, user: Stopped, why: ABOVE, run: raise },
    Attack {
        name: "use more memory than its limit",
        none: Stopped,
        user: Stopped,
        why: ABOVE,
        run: |field| {
            reached(field.ssh("attack memory 2500 || true").contains("all of it"), "2500 MiB of 2048")
        },
    },
    Attack { name: "a fork bomb", none: Stopped, user: Stopped, why: ABOVE, run: fork_bomb },
    Attack {
        name: "fill `/tmp`, `/run` and `/dev/shm`",
        none: Stopped,
        user: Stopped,
        why: "each has a size",
        run: fill,
    },
    Attack {
        name: "real-time priority, which no CPU limit holds",
        none: Works,
        user: Stopped,
        why: "`SYS_NICE` allows it, unless the kernel has real-time groups; a user namespace does not",
        run: |field| match field.in_both("attack real-time") {
            // A kernel that gives each group its own real-time allows none to a new one.
            Tried::Stopped(_) if has_real_time_groups() => Tried::Impossible("real-time groups".to_owned()),
            tried => tried,
        },
    },
    Attack {
        name: "fill the disk",
        none: Works,
        user: Works,
        why: "nodes share the file system of the host",
        run: |field| {
            field.in_node("dd if=/dev/zero of=/var/attack/fill bs=1M count=1 && rm /var/attack/fill")
        },
    },
];

fn has_real_time_groups() -> bool {
    ["/sys/fs/cgroup/cpu/cpu.rt_runtime_us", "/sys/fs/cgroup/cpu,cpuacct/cpu.rt_runtime_us"]
        .iter()
        .any(|file| fs::exists(file).unwrap_or(false))
}

/// A file of the group above the node's own, on the host.
fn files_above(field: &Field, names: &[&str]) -> Vec<PathBuf> {
    let own = host_state::groups().into_iter().filter(|group| group.ends_with(&field.worker));
    own.flat_map(|group| names.iter().map(move |name| group.join(name)))
        .filter(|file| file.exists())
        .collect()
}

fn raise(field: &Field) -> Tried {
    let names = [
        "memory.limit_in_bytes",
        "memory.memsw.limit_in_bytes",
        "memory.max",
        "cpu.cfs_quota_us",
        "cpu.max",
        "pids.max",
    ];
    let read = || {
        let files = files_above(field, &names);
        assert!(!files.is_empty(), "the node has no limits");
        files.into_iter().map(|file| (fs::read_to_string(&file).unwrap(), file)).collect::<Vec<_>>()
    };
    let before = read();
    field.ssh(
        "cd /sys/fs/cgroup
        for dir in . */; do for name in memory.memsw.limit_in_bytes memory.limit_in_bytes memory.max cpu.cfs_quota_us cpu.max pids.max; do
            test ! -e $dir/$name || echo max > $dir/$name || echo -1 > $dir/$name || true
        done; done 2>/dev/null",
    );
    let after = read();
    reached(before != after, format!("{after:?}"))
}

/// With a limit that the test sets a little above what the node has: a bomb must not hurt, whatever comes of it.
fn fork_bomb(field: &Field) -> Tried {
    let [file] = &files_above(field, &["pids.max"])[..] else { panic!("no limit of processes") };
    let before = fs::read_to_string(file).unwrap();
    if before.trim() == "max" {
        return Tried::Works("without a limit".to_owned());
    }
    let now: u64 = fs::read_to_string(file.with_file_name("pids.current")).unwrap().trim().parse().unwrap();
    fs::write(file, (now + 100).to_string()).unwrap();
    let tried = field.in_node("echo max 2>/dev/null > /sys/fs/cgroup/pids/pids.max; attack forks 1000");
    fs::write(file, before.trim()).unwrap();
    tried
}

/// One after the other, and no more than the node's memory.
fn fill(field: &Field) -> Tried {
    field.in_node(
        "for dir in /tmp /run /dev/shm; do
            size=$(df -k $dir | tail -n 1 | tr -s ' ' | cut -d ' ' -f 2)
            test $size -le 1048576 || { echo $dir holds $size KiB; exit 0; }
            dd if=/dev/zero of=$dir/attack-fill bs=1M count=1100 2>/dev/null && { rm $dir/attack-fill; exit 0; }
            rm $dir/attack-fill
        done; exit 1",
    )
}
