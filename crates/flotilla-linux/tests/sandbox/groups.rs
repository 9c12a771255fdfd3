//! Control groups of the real kernel.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use flotilla_linux::cgroup::{Group, Layout};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::process::Pid;

use crate::cases::Case;
use crate::support;

pub(crate) const ALL: &[Case] = &[
    ("a_frozen_group_is_thawed_and_killed", a_frozen_group_is_thawed_and_killed),
    ("groups_that_are_nested_deeper_than_a_path_are_removed", groups_that_are_nested_deeply_are_removed),
    ("a_group_in_a_hierarchy_that_is_not_used_any_more_is_found", a_group_elsewhere_is_found),
];

/// A process that ends only when killed.
#[expect(clippy::disallowed_methods, reason = "it is to outlive the thread that started it")]
pub(crate) fn sleeper() -> Child {
    Command::new("sleep").arg("1000000").spawn().unwrap()
}

fn a_frozen_group_is_thawed_and_killed() {
    let name = format!("flotilla/fl-test-frozen-{}", std::process::id());
    let group = Group::new(&Layout::of_host().unwrap(), &format!("{name}/below")).unwrap();
    group.create().unwrap();
    let mut sleeper = sleeper();
    let paths = support::groups_of(&format!("{name}/below"));
    for path in &paths {
        fs::write(path.join("cgroup.procs"), sleeper.id().to_string()).unwrap();
    }
    // The group above as well, as a user may do it: the one below cannot be thawed alone.
    let parent = Group::new(&Layout::of_host().unwrap(), &name).unwrap();
    for path in support::groups_of(&name).iter().chain(&paths) {
        support::freeze(path);
    }
    support::wait_until("it is frozen", || group.is_frozen());
    assert_eq!(group.processes().unwrap(), [Pid::from_child(&sleeper)]);
    parent.kill().unwrap();
    sleeper.wait().unwrap();
    assert!(!parent.is_frozen());
    parent.remove().unwrap();
    assert_eq!(support::groups_of(&name), Vec::<PathBuf>::new());
}

/// A machine may do this to its own.
fn groups_that_are_nested_deeply_are_removed() {
    // More than a process may have files open (1024), and with these names longer than any path (4096).
    const DEEP: usize = 1200;
    const NAME: &str = "deep";
    let name = format!("flotilla/fl-test-deep-{}", std::process::id());
    let group = Group::new(&Layout::of_host().unwrap(), &name).unwrap();
    group.create_for_machine().unwrap();
    let open = |at: BorrowedFd<'_>, name: &Path| {
        openat(at, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
    };
    // One hierarchy is enough.
    let mut here = open(CWD, &support::groups_of(&name)[0].join("in"));
    for _ in 0..DEEP {
        mkdirat(&here, NAME, Mode::RWXU).unwrap();
        here = open(here.as_fd(), Path::new(NAME));
    }
    let mut sleeper = sleeper();
    let procs = openat(&here, "cgroup.procs", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    rustix::io::write(&procs, sleeper.id().to_string().as_bytes()).unwrap();
    drop((here, procs));
    assert_eq!(group.processes().unwrap(), [Pid::from_child(&sleeper)]);
    group.kill().unwrap();
    sleeper.wait().unwrap();
    group.remove().unwrap();
    assert_eq!(support::groups_of(&name), Vec::<PathBuf>::new());
}

/// The mounts were others when its processes were put there.
fn a_group_elsewhere_is_found() {
    let Layout::V1 { hierarchies, unified } = Layout::of_host().unwrap() else {
        flotilla_testkit::does_not_apply("this host has one hierarchy only");
        return;
    };
    let freezer = hierarchies.iter().find(|one| one.controllers == ["freezer"]);
    let (Some(stray), Some(mount_point)) = (freezer.cloned(), unified) else {
        flotilla_testkit::does_not_apply("this host has no hierarchy beside those of v1");
        return;
    };
    // What the host looks like once its mounts have changed: v2, and a hierarchy that is no longer used.
    let layout = Layout::V2 { mount_point, strays: vec![stray.clone()] };
    let name = format!("flotilla/fl-test-elsewhere-{}", std::process::id());
    let path = stray.mount_point.join(&name);
    fs::create_dir_all(&path).unwrap();
    let mut sleeper = sleeper();
    fs::write(path.join("cgroup.procs"), sleeper.id().to_string()).unwrap();
    let group = Group::new(&layout, &name).unwrap();
    let cluster = Group::new(&layout, "flotilla").unwrap();
    assert!(cluster.children().contains(&name["flotilla/".len()..].to_owned()));
    assert_eq!(group.processes().unwrap(), [Pid::from_child(&sleeper)]);
    group.kill().unwrap();
    sleeper.wait().unwrap();
    group.remove().unwrap();
    assert!(!path.exists());
}
