//! Machines in user namespaces of their own, on the real kernel.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flotilla_core::{Cancel, TtySize};
use flotilla_linux::enter::{self, Files, Opening, Progress};
use flotilla_linux::machine::life::{self, Life};
use flotilla_linux::machine::{self, Lack};
use flotilla_linux::sandbox::Bind;
use flotilla_linux::user::Ids;
use tokio::io::AsyncReadExt;

use crate::cases::Case;
use crate::machines::{MASKED, Machine, runtime};
use crate::support;

pub(crate) const ALL: &[Case] = &[
    ("root_of_a_user_namespace_is_nobody_on_the_host", root_is_nobody_on_the_host),
    ("a_machine_in_a_user_namespace_is_found_by_its_folder", is_found_by_its_folder),
    ("a_machine_in_a_user_namespace_cannot_undo_what_protects_the_host", cannot_undo_what_protects_the_host),
    ("owners_on_the_disk_of_a_user_namespace_are_those_of_any_machine", owners_on_disk_are_ordinary),
    ("files_of_a_user_namespace_are_written_for_its_root", files_are_written_for_its_root),
    ("folders_of_the_host_are_shown_with_their_owners_and_read_only_holds", folders_of_the_host),
    ("a_terminal_in_a_user_namespace_works", a_terminal_works),
    ("whoever_enters_a_user_namespace_cannot_be_traced_from_it", whoever_enters_cannot_be_traced),
    ("whether_machines_can_have_user_namespaces_is_found_out_by_trying", trying),
];

const FIRST: u32 = 1_879_048_192;
const IDS: Ids = Ids { first: FIRST, count: 65536 };

fn machine(name: &str) -> Machine {
    Machine::launch_with_ids(name, Some(IDS), |_| {})
}

fn says(machine: &Machine, script: &str) -> String {
    machine.command(script).run().unwrap().text()
}

fn root_is_nobody_on_the_host() {
    let machine = machine("nobody");
    assert_eq!(
        says(&machine, "id -u; id -g; id -G; cat /proc/self/uid_map | tr -s ' '"),
        format!("0\n0\n0\n 0 {FIRST} 65536")
    );
    let status = fs::read_to_string(format!("/proc/{}/status", machine.init.pid())).unwrap();
    let ids = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(ids("Uid:"), vec![FIRST.to_string(); 4]);
    assert_eq!(ids("Gid:"), vec![FIRST.to_string(); 4]);
    assert_eq!(ids("Groups:"), Vec::<String>::new());
    // The same capabilities as without, although whoever enters a user namespace has all.
    assert_eq!(u64::from_str_radix(&ids("CapBnd:")[0], 16).unwrap() & (1 << 16 | 1 << 25), 0, "{status}");
    assert_eq!(says(&machine, "grep CapBnd /proc/self/status"), says(&machine, "grep CapBnd /proc/1/status"));
}

fn is_found_by_its_folder() {
    let machine = machine("found");
    let Life::Runs(found) = life::of(machine.folder.path()).unwrap() else { panic!("it runs") };
    assert_eq!(found.pid(), machine.init.pid());
    assert_eq!(machine.group.init().map(|init| init.pid()), Some(found.pid()));
}

/// What works prints a word. All of it works for root of the host.
const ATTACKS: &str = "
mknod /tmp/disk b 7 0 && echo mknod
mkdir /tmp/p && mount -t proc none /tmp/p && (echo 60 > /tmp/p/sys/vm/swappiness) && echo proc
mkdir /tmp/s && mount -t sysfs none /tmp/s && (echo always > /tmp/s/kernel/mm/transparent_hugepage/enabled) && echo sysfs
umount /proc/sys/vm; umount /proc/sys
(echo x > /proc/sys/kernel/hostname) ; (echo 1 > /proc/sysrq-trigger) && echo sysrq
dmesg > /tmp/log 2>/dev/null && [ -s /tmp/log ] && echo dmesg
date -s 2001-01-01 > /dev/null && echo date
for limit in $(find /sys/fs/cgroup -maxdepth 2 -name memory.limit_in_bytes -o -maxdepth 2 -name pids.max -o -maxdepth 2 -name cpu.cfs_quota_us); do
    echo -1 > $limit && echo $limit; done
true";

fn cannot_undo_what_protects_the_host() {
    let machine = machine("tries");
    assert_eq!(says(&machine, &format!("({MASKED}) 2>&1")), "");
    let worked = says(&machine, &format!("({ATTACKS}) 2>/dev/null"));
    assert_eq!(worked, "");
    // What it has of its own: groups, devices, mounts.
    let own = "set -e; g=/sys/fs/cgroup; [ -e $g/cgroup.procs ] || g=$g/pids; mkdir $g/own; \
               echo 0 > $g/own/cgroup.procs; echo 7 > $g/own/pids.max; : > /dev/null; head -c 1 /dev/urandom > /dev/zero; \
               mount -t tmpfs none /mnt; ls /dev/fuse /dev/net/tun /dev/kmsg; ip link add a type dummy 2>/dev/null || true; echo fine";
    assert_eq!(says(&machine, own).lines().last(), Some("fine"));
}

fn owners_on_disk_are_ordinary() {
    let machine = machine("owners");
    says(
        &machine,
        "echo a > /var/mine; echo b > /var/other; chown 1000:1001 /var/other; rm /etc/hostname; echo c > /etc/made",
    );
    let owner = |path: &str| {
        let file = fs::symlink_metadata(machine.folder.path().join(path)).unwrap();
        (file.uid(), file.gid())
    };
    assert_eq!(
        [owner("var/mine"), owner("var/other"), owner("upper/etc/made")],
        [(0, 0), (1000, 1001), (0, 0)]
    );
    let files = Files::below(machine.folder.path()).unwrap();
    assert_eq!(files.read(Path::new("/upper/etc/made")).unwrap().unwrap(), b"c\n");
    assert!(
        !Path::new("/etc/made").exists() && Path::new("/etc/hostname").exists(),
        "the host's own is only read"
    );
}

fn files_are_written_for_its_root() {
    let machine = machine("written");
    says(&machine, "mkdir -m 700 /var/theirs; chown 1000:1000 /var/theirs");
    let files = Files::of(&machine.init).unwrap();
    for path in ["/etc/deep/er/file", "/var/file", "/run/file", "/var/theirs/file"] {
        files.write(Path::new(path), 0o640, b"text").unwrap();
        assert_eq!(files.read(Path::new(path)).unwrap().unwrap(), b"text");
        assert_eq!(says(&machine, &format!("stat -c '%u %g %a' {path}")), "0 0 640", "{path}");
    }
    let mut source: &[u8] = b"copied";
    let cancel = Cancel::new();
    files.copy_in(&mut source, Path::new("/root/in"), 0o755, &cancel, &Progress::default()).unwrap();
    assert_eq!(says(&machine, "cat /root/in"), "copied");
    says(&machine, "echo secret > /root/out; chown 1234 /root/out; chmod 600 /root/out");
    let mut out = Vec::new();
    files.copy_out(Path::new("/root/out"), &mut out, &cancel, &Progress::default()).unwrap();
    assert_eq!(out, b"secret\n");
    files.remove(Path::new("/root/out")).unwrap();
    assert_eq!(fs::metadata(machine.folder.path().join("var/file")).unwrap().uid(), 0, "on the disk");
}

fn folders_of_the_host() {
    let host = tempfile::tempdir().unwrap();
    let [shared, fixed] = ["shared", "fixed"].map(|name| host.path().join(name));
    for folder in [&shared, &fixed] {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("file"), "host").unwrap();
        std::os::unix::fs::chown(folder.join("file"), Some(1000), Some(1000)).unwrap();
    }
    let bind = |source: &PathBuf, target: &str, read_only| Bind {
        source: source.clone(),
        target: target.into(),
        read_only,
    };
    let machine = Machine::launch_with_ids("mounts", Some(IDS), |spec| {
        spec.mounts = vec![bind(&shared, "/srv/shared", false), bind(&fixed, "/srv/fixed", true)];
        spec.binds = vec![bind(&fixed, "/srv/bound", true)];
    });
    assert_eq!(
        says(&machine, "stat -c %u /srv/shared/file /srv/fixed/file /srv/bound/file"),
        "1000\n1000\n1000"
    );
    let tries = "for one in fixed bound; do (echo x > /srv/$one/file) 2>/dev/null && echo written; \
                 mount -o remount,rw,bind /srv/$one 2>/dev/null && echo remounted; \
                 mkdir /tmp/$one; mount --bind /srv/$one /tmp/$one && mount -o remount,rw,bind /tmp/$one 2>/dev/null && echo again; \
                 done; echo node > /srv/shared/new; true";
    assert_eq!(says(&machine, tries), "");
    assert_eq!(fs::read_to_string(fixed.join("file")).unwrap(), "host");
    assert_eq!(fs::metadata(shared.join("new")).unwrap().uid(), 0, "as without a user namespace");
}

fn a_terminal_works() {
    let machine = machine("tty");
    let (request, cancel) = (machine.request("tty; id -u; stty size; echo hello > /dev/tty"), Cancel::new());
    let text = runtime().block_on(async {
        let opening = Opening {
            machine: &machine.init,
            name: "it",
            request: &request,
            tty: Some(TtySize { rows: 7, columns: 70 }),
            limit: Duration::from_mins(1),
            cancel: &cancel,
        };
        let mut session = enter::open(opening).await.unwrap();
        let mut text = String::new();
        // A terminal that hangs up may be an error.
        let _ = session.stdout.read_to_string(&mut text).await;
        session.program.wait().await.unwrap();
        text
    });
    assert_eq!(text.replace('\r', ""), "/dev/pts/0\n0\n7 70\nhello\n");
}

/// Programs that enter are in the namespace before they are programs of the machine: for that long they are our own binary, with
/// what it has in memory. A watcher inside tries to look at each of them.
fn whoever_enters_cannot_be_traced() {
    let machine = machine("traced");
    let watcher = "while [ ! -e /tmp/stop ]; do for exe in /proc/[0-9]*/exe; do \
        case $(readlink $exe 2>/dev/null) in /program|*/sandbox-*) [ $exe = /proc/1/exe ] || echo $exe >> /tmp/seen;; *bin/*) : > /tmp/looks;; esac; done; done";
    says(&machine, &format!("({watcher}) > /dev/null 2>&1 & echo"));
    for _ in 0..50 {
        says(&machine, "true");
    }
    says(&machine, "touch /tmp/stop");
    assert_eq!(says(&machine, "ls /tmp/looks; cat /tmp/seen 2>/dev/null || true"), "/tmp/looks");
    drop(machine);
    support::wait_until("nothing is left", || support::groups_of("flotilla/fl-test-traced").is_empty());
}

fn trying() {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let odd = folder.path().join("a,b:c");
    fs::create_dir(&odd).unwrap();
    fs::set_permissions(&odd, fs::Permissions::from_mode(0o700)).unwrap();
    // A file system that the kernel makes itself has no owners to show.
    let trial = machine::try_machine(&odd, &["/usr".into(), "/proc/sys".into(), "/no/such".into()], IDS);
    assert_eq!(trial.lack, None);
    let refused: Vec<_> = trial.not_mounted.iter().map(|(path, _)| path.to_str().unwrap()).collect();
    assert_eq!(refused, ["/proc/sys"], "{trial:?}");
    assert_eq!(fs::read_dir(&odd).unwrap().count(), 0, "nothing is left");
    let (lack, why) = machine::try_machine(Path::new("/proc/sys"), &[], IDS).lack.unwrap();
    assert_eq!(lack, Lack::Other, "{why}");
}
