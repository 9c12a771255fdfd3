//! Control groups of the real kernel.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};

use flotilla_linux::cgroup::{Group, Layout};
use rustix::process::Pid;

use crate::cases::Case;
use crate::support;

pub(crate) const ALL: &[Case] = &[
    ("a_frozen_group_is_thawed_and_killed", a_frozen_group_is_thawed_and_killed),
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

/// The mounts were others when its processes were put there.
fn a_group_elsewhere_is_found() {
    let Layout::V1 { hierarchies, unified } = Layout::of_host().unwrap() else {
        flotilla_testkit::skip("this host has one hierarchy only");
        return;
    };
    let freezer = hierarchies.iter().find(|one| one.controllers == ["freezer"]);
    let (Some(stray), Some(mount_point)) = (freezer.cloned(), unified) else {
        flotilla_testkit::skip("this host has no hierarchy beside those of v1");
        return;
    };
    // What the host looks like once its mounts have changed: v2, and a hierarchy that nobody asks any more.
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
