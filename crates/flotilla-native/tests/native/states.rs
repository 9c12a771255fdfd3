//! Machines that are frozen, out of sight, or started by a shell with settings of its own.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;

use flotilla_core::Cluster;
use flotilla_core::{Changed, Cmd, GuestError, MachineState, Power};
use flotilla_linux::cgroup::Layout;
use flotilla_linux::machine::life::{self, Life};
use flotilla_linux::process::Process;
use flotilla_testkit::contract::{Case, Subject, cases};
use rustix::fs::Mode;
use rustix::io::{FdFlags, fcntl_setfd};

pub(crate) const CASES: &[(&str, Case)] = cases![
    what_is_frozen_in_a_machine_does_not_keep_it_up,
    a_frozen_machine_is_told_thawed_and_stopped,
    a_machine_whose_groups_are_out_of_sight_is_found,
    a_machine_of_the_last_release_is_found_stopped_and_removed,
    a_machine_s_limits_and_directories_in_memory_have_sizes,
    a_machine_has_nothing_of_our_umask_and_files,
    a_program_that_takes_too_long_is_an_error_of_its_node,
];

/// Makes a group in the machine as a paused container has one, with a process in it.
const FREEZE_ONE: &str = "
group=/sys/fs/cgroup/freezer/paused; [ -d /sys/fs/cgroup/freezer ] || group=/sys/fs/cgroup/paused
mkdir -p $group
sh -c \"echo 0 > $group/cgroup.procs; exec sleep 1000000\" </dev/null >/dev/null 2>&1 &
until grep -q . $group/cgroup.procs; do :; done
if [ -e $group/freezer.state ]; then echo FROZEN > $group/freezer.state; else echo 1 > $group/cgroup.freeze; fi";

async fn what_is_frozen_in_a_machine_does_not_keep_it_up(subject: Subject<'_>, cluster: &Cluster) {
    for _ in 0..2 {
        let machine = subject.make(cluster).await;
        machine.guest().run(Cmd::sh(FREEZE_ONE)).await.unwrap();
        assert_eq!(state(subject, cluster).await, MachineState { power: Power::On, intact: true }, "it runs");
        assert_eq!(subject.stop(cluster).await, Changed::Yes);
    }
    let machine = subject.make(cluster).await;
    machine.guest().run(Cmd::sh(FREEZE_ONE)).await.unwrap();
    subject.remove(cluster).await;
    assert!(subject.found(cluster).await.is_empty());
}

async fn a_frozen_machine_is_told_thawed_and_stopped(subject: Subject<'_>, cluster: &Cluster) {
    let machine = subject.make(cluster).await;
    freeze(&init(cluster));
    assert_eq!(state(subject, cluster).await, MachineState { power: Power::On, intact: false });
    let error = machine.guest().run(Cmd::new(["true"])).await.unwrap_err();
    assert!(matches!(&error, GuestError::Frozen { node, .. } if node == "te-contract"), "{error}");
    // Files can be read anyway: no process of the machine has a part in it.
    assert!(machine.guest().read("/etc/hosts").await.unwrap().is_some());
    subject.make(cluster).await;
    assert_eq!(state(subject, cluster).await, MachineState { power: Power::On, intact: true });
    machine.guest().run(Cmd::new(["true"])).await.unwrap();
    freeze(&init(cluster));
    assert_eq!(subject.stop(cluster).await, Changed::Yes);
    subject.make(cluster).await;
    freeze(&init(cluster));
    subject.remove(cluster).await;
}

async fn a_machine_whose_groups_are_out_of_sight_is_found(subject: Subject<'_>, cluster: &Cluster) {
    subject.make(cluster).await;
    let before = init(cluster);
    leave_groups(&before);
    assert_eq!(state(subject, cluster).await.power, Power::On);
    let machine = subject.make(cluster).await;
    assert_eq!(init(cluster).pid(), before.pid(), "no second machine is on its disk");
    machine.guest().run(Cmd::new(["true"])).await.unwrap();
    assert_eq!(subject.stop(cluster).await, Changed::Yes);
    assert!(before.has_ended());
    subject.make(cluster).await;
    leave_groups(&init(cluster));
    let last = init(cluster);
    subject.remove(cluster).await;
    assert!(last.has_ended(), "no process writes to what was removed");
}

async fn a_machine_of_the_last_release_is_found_stopped_and_removed(subject: Subject<'_>, cluster: &Cluster) {
    for remove in [false, true] {
        let machine = subject.make(cluster).await;
        let init = init(cluster);
        move_to_outer_groups(&init);
        assert_eq!(state(subject, cluster).await, MachineState { power: Power::On, intact: true });
        machine.guest().run(Cmd::new(["true"])).await.unwrap();
        freeze(&init);
        assert_eq!(state(subject, cluster).await, MachineState { power: Power::On, intact: false });
        if remove {
            subject.remove(cluster).await;
        } else {
            assert_eq!(subject.stop(cluster).await, Changed::Yes);
        }
        assert!(init.has_ended());
    }
    assert!(subject.found(cluster).await.is_empty());
}

async fn a_machine_s_limits_and_directories_in_memory_have_sizes(subject: Subject<'_>, cluster: &Cluster) {
    let machine = subject.make(cluster).await;
    let shown =
        machine.guest().run(Cmd::sh("stat -f -c '%n %b %S' /tmp /run /dev/shm /dev")).await.unwrap().text();
    for line in shown.lines() {
        let [directory, blocks, size] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let bytes = blocks.parse::<u64>().unwrap() * size.parse::<u64>().unwrap();
        let most = if directory == "/tmp" { 4 << 30 } else { 1 << 30 };
        assert!((1 << 20..=most).contains(&bytes), "{line}");
    }
    let mut outer =
        groups(&init(cluster)).into_iter().filter_map(|group| group.parent().map(ToOwned::to_owned));
    let limit = outer.find_map(|group| fs::read_to_string(group.join("pids.max")).ok()).unwrap();
    assert!(limit.trim().parse::<u64>().is_ok_and(|limit| limit <= 32_768), "{limit}");
}

async fn a_machine_has_nothing_of_our_umask_and_files(subject: Subject<'_>, cluster: &Cluster) {
    // As `flock LOCK flotilla start` has it: a file that whoever we start inherits.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("inherited");
    let file = File::create(&path).unwrap();
    fcntl_setfd(file.as_fd(), FdFlags::empty()).unwrap();
    let umask = rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let machine = subject.make(cluster).await;
    let shown = machine.guest().run(Cmd::sh("umask; stat -c '%a %n' / /etc /etc/hosts /etc/resolv.conf /run/flotilla /var/log /etc/cni/net.d; ls -l /proc/self/fd"));
    let shown = shown.await.unwrap().text();
    rustix::process::umask(umask);
    let (modes, files) = shown.split_once("/etc/cni/net.d").unwrap();
    let expected =
        "0022\n755 /\n755 /etc\n644 /etc/hosts\n644 /etc/resolv.conf\n755 /run/flotilla\n755 /var/log\n755 ";
    assert_eq!(modes, expected);
    assert!(!files.contains("inherited"), "{files}");
    let held =
        init(cluster).look(|proc| fs::read_dir(proc.join("fd"))?.collect::<Result<Vec<_>, _>>()).unwrap();
    let held: Vec<_> = held.iter().filter_map(|fd| fs::read_link(fd.path()).ok()).collect();
    assert!(!held.contains(&path), "{held:?}");
}

async fn a_program_that_takes_too_long_is_an_error_of_its_node(subject: Subject<'_>, cluster: &Cluster) {
    let machine = subject.make(cluster).await;
    let slow = Cmd::new(["sleep", "1000000"]).within(std::time::Duration::from_secs(1));
    let error = machine.guest().run(slow).await.unwrap_err();
    assert_eq!(error.to_string(), "node te-contract does not answer: `sleep 1000000` took longer than 1 s");
    let left = machine.guest().run(Cmd::sh("pgrep -f '[s]leep 1000000' || true")).await.unwrap().text();
    assert_eq!(left, "", "it was killed");
}

async fn state(subject: Subject<'_>, cluster: &Cluster) -> MachineState {
    subject.found(cluster).await[0].1.clone()
}

/// PID 1 of the cluster's only machine, by the lock on its disk.
fn init(cluster: &Cluster) -> Process {
    match life::of(&crate::machine_directory(cluster)).unwrap() {
        Life::Runs(init) => init,
        other => panic!("it does not run: {other:?}"),
    }
}

/// The directories of the groups that a process is in.
fn groups(process: &Process) -> Vec<std::path::PathBuf> {
    let text = process.look(|proc| fs::read_to_string(proc.join("cgroup"))).unwrap();
    let path_of = |controllers: &str| {
        text.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            (fields.next()? == controllers).then(|| fields.next().unwrap().trim_start_matches('/').to_owned())
        })
    };
    match Layout::of_host().unwrap() {
        Layout::None => Vec::new(),
        Layout::V1 { hierarchies, .. } => hierarchies
            .into_iter()
            .map(|one| one.mount_point.join(path_of(&one.controllers.join(",")).unwrap()))
            .collect(),
        Layout::V2 { mount_point, .. } => vec![mount_point.join(path_of("").unwrap())],
    }
}

/// Freezes the machine, all of it.
fn freeze(init: &Process) {
    for group in groups(init) {
        // PID 1 is in a group of the machine's own, and in v2 in a leaf of that.
        let group = if group.ends_with("init") { group.parent().unwrap().to_owned() } else { group };
        let group = if group.ends_with("in") { group.parent().unwrap().to_owned() } else { group };
        for (file, frozen) in [("freezer.state", "FROZEN"), ("cgroup.freeze", "1")] {
            if group.join(file).exists() {
                fs::write(group.join(file), frozen).unwrap();
            }
        }
    }
}

/// Moves all processes of a machine to where the last release had them: no group of its own was in the machine's.
fn move_to_outer_groups(init: &Process) {
    for group in groups(init) {
        let is_v2 = group.ends_with("in/init");
        let inner = if is_v2 { group.parent().unwrap() } else { &group };
        let outer = inner.parent().unwrap();
        let target = if is_v2 { outer.join("init") } else { outer.to_owned() };
        let _ = fs::create_dir(&target);
        move_all(&group, &target);
        let _ = fs::remove_dir(&group);
        let _ = fs::remove_dir(inner);
        assert!(!inner.exists(), "{}", inner.display());
    }
}

/// Moves all processes of one group to another.
fn move_all(from: &Path, to: &Path) {
    loop {
        let processes = fs::read_to_string(from.join("cgroup.procs")).unwrap();
        if processes.is_empty() {
            return;
        }
        for process in processes.lines() {
            // It may have ended.
            let _ = fs::write(to.join("cgroup.procs"), process);
        }
    }
}

/// Moves all processes of a machine out of its groups, as if the host's mounts were others than when it was started.
fn leave_groups(init: &Process) {
    for group in groups(init) {
        let root =
            group.ancestors().find(|path| path.ends_with("flotilla")).and_then(|path| path.parent()).unwrap();
        move_all(&group, root);
    }
}
