//! Devices that no program of a machine may open, whatever device files it makes: those that lead to the host's disks, screens,
//! keyboards and buses.
//!
//! Denied in the machine's outer group, since a machine can undo what is denied in its own. Not the making of device files
//! (`m`), which harms nobody: images contain them, and runc allows it to each container by name.

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};

use super::{CgroupError, Group, Layout};

mod filter;

/// Majors of character devices, by their names in `/proc/devices`. Many are numbers that the kernel gives out as drivers
/// come. What is not here stays allowed: a pod may need a GPU, and v1 cannot deny all but a few without breaking privileged
/// containers.
const MAJORS: &[&str] = &[
    "/dev/vc/0",    // the host's consoles: what a person types there, and typing for them
    "ttyS",         // serial lines, often a console as well
    "hidraw",       // keyboards and mice, raw
    "bsg",          // raw commands to disks
    "nvme",         // the same
    "nvme-generic", // the same
    "dax",          // memory that is a disk
    "ndctl",        // its management
    "dimmctl",      // the same
    "mei",          // the processor's management engine
    "ipmidev",      // the host's power switch
    "watchdog",     // opened and left alone, it restarts the host
    "rtc",          // the host's clock
    "ptp",          // the same
];

/// Minors of the major for miscellaneous devices, by their names in `/proc/misc`.
const MISC: &[&str] = &[
    "rtc",
    "mcelog",
    "cpu_dma_latency", // keeps the processor from sleeping
    "vga_arbiter",
];

/// Devices that have the same number everywhere (devices.txt of the kernel's documentation), so that they are denied even if their
/// driver is loaded after the node has booted, or because the node opens them. No minor means all.
const NUMBERS: &[(u32, Option<u32>)] = &[
    (1, Some(1)),            // memory
    (1, Some(2)),            // kernel memory
    (1, Some(4)),            // I/O ports
    (1, Some(11)),           // the kernel's log
    (7, None),               // what the consoles show
    (9, None),               // tapes
    (13, None),              // keyboards and mice
    (21, None),              // raw commands to disks
    (29, None),              // the screen
    (89, None),              // raw I2C
    (189, None),             // raw USB
    (202, None),             // registers of the processor
    (MISC_MAJOR, Some(130)), // watchdog
    (MISC_MAJOR, Some(144)), // the firmware's settings
    (MISC_MAJOR, Some(203)), // devices that a program of the node would serve to the host
    (MISC_MAJOR, Some(223)), // types on the host's behalf
    (MISC_MAJOR, Some(231)), // the image of a hibernated host
    (MISC_MAJOR, Some(234)), // registers disks
    (MISC_MAJOR, Some(236)), // the host's volumes
    (MISC_MAJOR, Some(237)), // the host's loop devices
    (MISC_MAJOR, Some(239)), // types on the host's behalf
    (MISC_MAJOR, Some(242)), // switches radios off
];

const MISC_MAJOR: u32 = 10;

/// The host's console. Denied in v2 alone: containerd allows it to each container by name, which v1 then refuses.
const CONSOLE: Denied = Denied { kind: Kind::Character, major: Some(5), minor: Some(1) };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Block,
    Character,
}

/// Devices that may be neither read nor written. No number means all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Denied {
    kind: Kind,
    major: Option<u32>,
    minor: Option<u32>,
}

impl Denied {
    /// As `devices.deny` of v1 takes it.
    fn rule(self) -> String {
        let kind = match self.kind {
            Kind::Block => 'b',
            Kind::Character => 'c',
        };
        let number = |number: Option<u32>| number.map_or_else(|| "*".to_owned(), |number| number.to_string());
        format!("{kind} {}:{} rw", number(self.major), number(self.minor))
    }
}

impl Group {
    /// Denies the group, and all groups below it, the host's devices. A host of v1 without a hierarchy for devices denies
    /// nothing.
    pub(super) fn deny_devices(&self) -> Result<(), CgroupError> {
        // Drivers that are not there have no numbers.
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mut denied = denied(&read("/proc/devices"), &read("/proc/misc"));
        match &self.layout {
            Layout::None => Ok(()),
            Layout::V1 { hierarchies, .. } => {
                let has = |name: &String| name == "devices";
                let devices = hierarchies.iter().filter(|one| one.controllers.iter().any(has));
                devices
                    .map(|one| one.mount_point.join(&self.name))
                    .try_for_each(|group| deny_v1(&group, &denied))
            }
            Layout::V2 { mount_point, .. } => {
                denied.push(CONSOLE);
                deny_v2(&mount_point.join(&self.name), &denied)
            }
        }
    }
}

fn deny_v1(group: &Path, denied: &[Denied]) -> Result<(), CgroupError> {
    let path = group.join("devices.deny");
    // One rule at a time is all that the kernel reads.
    denied.iter().try_for_each(|denied| {
        let failed = |source| CgroupError::Devices { path: group.to_owned(), source };
        fs::write(&path, denied.rule()).map_err(failed)
    })
}

fn deny_v2(group: &Path, denied: &[Denied]) -> Result<(), CgroupError> {
    let failed = |source| CgroupError::Devices { path: group.to_owned(), source };
    let directory = openat(CWD, group, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| failed(errno.into()))?;
    filter::attach(directory.as_fd(), &filter::program(denied)).map_err(failed)
}

/// What is denied on a host with these `/proc/devices` and `/proc/misc`.
fn denied(devices: &str, misc: &str) -> Vec<Denied> {
    // Character devices come first.
    let characters = devices.split("Block devices:").next().unwrap_or_default();
    let mut denied = vec![Denied { kind: Kind::Block, major: None, minor: None }];
    let character = |major, minor| Denied { kind: Kind::Character, major: Some(major), minor };
    denied.extend(NUMBERS.iter().map(|(major, minor)| character(*major, *minor)));
    denied.extend(numbers(characters, MAJORS).map(|major| character(major, None)));
    denied.extend(numbers(misc, MISC).map(|minor| character(MISC_MAJOR, Some(minor))));
    denied
}

/// The numbers of those lines, `13 input`, that have one of these names.
fn numbers<'a>(lines: &'a str, names: &'a [&str]) -> impl Iterator<Item = u32> + 'a {
    lines.lines().filter_map(|line| {
        let (number, name) = line.trim().split_once(' ')?;
        names.contains(&name.trim()).then(|| number.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICES: &str = "\
Character devices:
  1 mem
  4 /dev/vc/0
  4 tty
 10 misc
136 pts
249 watchdog

Block devices:
  7 loop
 21 sg
";

    #[test]
    fn all_disks_are_denied_and_character_devices_by_their_name() {
        let denied = denied(DEVICES, "229 fuse\n200 tun\n135 rtc\n").into_iter().map(Denied::rule);
        let rules: Vec<_> =
            denied.filter(|rule| !rule.starts_with("c 10:") || rule == "c 10:135 rw").collect();
        let numbers =
            ["1:1", "1:2", "1:4", "1:11", "7:*", "9:*", "13:*", "21:*", "29:*", "89:*", "189:*", "202:*"];
        let named = ["4:*", "249:*", "10:135"];
        let characters = numbers.iter().chain(&named).map(|number| format!("c {number} rw"));
        assert_eq!(rules, ["b *:* rw".to_owned()].into_iter().chain(characters).collect::<Vec<_>>());
    }

    /// On the hierarchy of v2 that this host has, whatever else it has.
    #[test]
    fn a_filter_of_v2_is_taken_by_the_kernel() {
        let (Layout::V1 { unified: Some(unified), .. } | Layout::V2 { mount_point: unified, .. }) =
            Layout::of_host().unwrap()
        else {
            return flotilla_testkit::does_not_apply("there is no hierarchy of v2");
        };
        if !flotilla_testkit::is_root() {
            return flotilla_testkit::skip("only root makes control groups");
        }
        let layout = Layout::V2 { mount_point: unified.clone(), strays: Vec::new() };
        let name = format!("flotilla/fl-test-filter-{}", std::process::id());
        let group = Group::new(&layout, &name).unwrap();
        let made = group.create_for_machine();
        let tried = made.as_ref().ok().map(|()| opens_in(&unified.join(&name).join("in")));
        group.remove().unwrap();
        made.unwrap();
        assert_eq!(tried.unwrap(), "null opens\ndisk is denied\nlog is denied\nconsole is denied\n");
    }

    /// What a process in the group says of devices.
    #[expect(clippy::disallowed_methods, reason = "a shell that moves itself about")]
    fn opens_in(group: &Path) -> String {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        // The first loop device, which opens on any host that has the driver; else the error is another.
        let script = "echo 0 > \"$0/cgroup.procs\" && cd \"$1\" && \
            mknod null c 1 3 && mknod disk b 7 0 && mknod log c 1 11 && mknod console c 5 1 && \
            for name in null disk log console; do \
                said=$( (: < $name) 2>&1 ) && echo $name opens || case $said in \
                    *'not permitted'*) echo $name is denied;; *) echo $name: $said;; esac; done";
        let shell =
            std::process::Command::new("sh").args(["-c", script]).args([group, dir.path()]).output().unwrap();
        assert!(shell.status.success(), "{}", String::from_utf8_lossy(&shell.stderr));
        String::from_utf8(shell.stdout).unwrap()
    }
}
