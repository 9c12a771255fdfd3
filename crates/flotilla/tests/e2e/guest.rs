//! A machine that is not like the ones that Flotilla is developed on: a stock Debian with systemd, control groups of v2,
//! `AppArmor`, systemd-resolved, a firewall that drops, and swap. It is emulated, which makes it ten times slower.
//!
//! The image of the guest is made on first use and kept in `~/.cache/flotilla/guest/image`. The disks of the guest that ran last
//! are beside it: the file `console` there is the first to look at after a failure.

mod image;
mod limits;
mod machine;
mod session;
mod traces;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use flotilla_linux::host::Command;
use flotilla_testkit::image::busybox;

use crate::lab;
use image::Image;
use machine::Machine;
use traces::Traces;

/// What a person with a slow machine adds: this one may be emulated on a busy one.
const WAIT: &str = "--wait-timeout 15m";

pub(crate) fn a_stock_debian_runs_clusters() {
    if !cfg!(target_arch = "x86_64") {
        return flotilla_testkit::does_not_apply(
            "the emulated machine has an x86-64 processor, and the program another",
        );
    }
    let is_missing = |program: &&str| Command::new(program).arg("--version").run().is_err();
    if let Some(program) = ["qemu-system-x86_64", "mmdebstrap"].into_iter().find(is_missing) {
        return flotilla_testkit::skip(&format!("there is no {program}: run `scripts/install-deps full`"));
    }
    let cache = cache();
    fs::create_dir_all(&cache).unwrap();
    // Another checkout's test waits for this one.
    let lock = fs::File::create(cache.join("lock")).unwrap();
    lock.lock().unwrap();
    let image = Image::ensure(&cache);
    let disks = cache.join("disks");
    drop(fs::remove_dir_all(&disks));
    fs::create_dir(&disks).unwrap();
    make_srv(&disks.join("srv"));
    let mut guest = Machine::new(&image, &disks);
    guest.boot();
    live(&mut guest);
    drop(guest);
    fs::remove_dir_all(&disks).unwrap();
}

/// What a person does with a cluster, from the first command to the last.
fn live(guest: &mut Machine<'_>) {
    is_stock(guest);
    let before = Traces::take(guest);
    // It warns of the firewall.
    let said = guest.succeed("flotilla doctor");
    assert!(said.contains("\nok       cgroups: v2, with cpu, cpuset, memory, pids\n"), "{said}");
    let warnings: Vec<_> = said.lines().filter(|line| !line.starts_with("ok ")).collect();
    assert!(warnings.len() == 2 && warnings[0].starts_with("warning  firewall: "), "{warnings:#?}");

    start(guest, &format!("--memory {}", limits::MEMORY));
    works(guest, 1);
    guest.succeed("flotilla ssh -- ctr -n k8s.io images import - </srv/busybox.tar");
    limits::the_limits_of_pods_hold(guest);
    limits::the_disks_of_the_host_are_refused(guest);
    limits::the_limits_of_a_node_are_out_of_its_reach(guest);

    guest.succeed(&format!("flotilla node add {WAIT} --memory {}", limits::MEMORY));
    works(guest, 2);

    guest.succeed("flotilla stop");
    assert_eq!(guest.succeed("pgrep --full '^flotilla-init' || echo none"), "none\n");
    start(guest, "");
    works(guest, 2);

    guest.reboot();
    let status = guest.run("flotilla status");
    assert_eq!(status.status, 7, "{status:?}");
    start(guest, "");
    works(guest, 2);
    guest.succeed("flotilla kubectl -- wait --for=condition=Ready pod/modest --timeout=5m");

    guest.succeed("flotilla delete");
    before.assert_unchanged(guest, "delete");
}

/// What is tried here is there.
fn is_stock(guest: &mut Machine<'_>) {
    let words = "stat --file-system --format=%T /sys/fs/cgroup; cat /proc/1/comm /sys/module/apparmor/parameters/enabled; \
        readlink /etc/resolv.conf; nft list chain ip filter FORWARD | grep -o 'policy drop'; systemctl is-active ufw systemd-resolved";
    assert_eq!(
        guest.succeed(words),
        "cgroup2fs\nsystemd\nY\n../run/systemd/resolve/stub-resolv.conf\npolicy drop\nactive\nactive\n"
    );
}

fn start(guest: &mut Machine<'_>, args: &str) {
    let begun = Instant::now();
    guest.succeed(&format!("flotilla start {WAIT} {args}"));
    lab::announce_start("guest", &[args], begun.elapsed());
}

/// What a person expects of a cluster of so many nodes when the command has returned.
fn works(guest: &mut Machine<'_>, nodes: usize) {
    let ready = "{.items[*].status.conditions[?(@.type==\"Ready\")].status}";
    let said = guest.succeed(&format!("flotilla kubectl -- get nodes -o 'jsonpath={ready}'"));
    assert_eq!(said, vec!["True"; nodes].join(" "));
    guest.succeed("flotilla ssh -- busybox nslookup -type=a kubernetes.default.svc.cluster.local 10.96.0.10");
}

#[expect(clippy::disallowed_methods, reason = "tests find the cache where other programs do")]
fn cache() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from);
    set("XDG_CACHE_HOME").unwrap_or_else(|| set("HOME").unwrap().join(".cache")).join("flotilla/guest")
}

/// A disk with the program, a state directory that has the bundle, and an image for pods.
fn make_srv(disk: &Path) {
    // The tree is made of hard links.
    let tree = lab::home();
    let path = |name: &str| tree.path().join(name);
    let bundles = path("home/bundles");
    fs::create_dir_all(&bundles).unwrap();
    lab::link_tree(lab::bundle(), &bundles.join(lab::digest()));
    fs::create_dir(path("bin")).unwrap();
    // Without what only a debugger reads: most of it.
    let program = env!("CARGO_BIN_EXE_flotilla");
    Command::new("strip").arg("-o").arg(path("bin/flotilla")).arg(program).run().unwrap();
    fs::write(path("busybox.tar"), busybox(&lab::bundle().join("rootfs/usr/bin/busybox"))).unwrap();
    image::make_disk(disk, "srv", "8G", tree.path());
}
