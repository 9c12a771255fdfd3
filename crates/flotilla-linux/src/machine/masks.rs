//! Files of the kernel that are about the host, not about a machine: hidden or read-only, as OCI runtimes have them in containers.
//!
//! A machine that may mount can undo this. It is for accidents, and for programs without that right.

use std::path::Path;

use rustix::mount::MountFlags;

use super::MachineError;
use crate::mount::{self, DATA_ONLY, Detached};

/// Empty in a machine.
const MASKED: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/power",
];

/// Read-only in a machine. `/proc/sys` is treated on its own: the settings of the network are the machine's.
const READ_ONLY: &[&str] =
    &["/proc/bus", "/proc/fs", "/proc/irq", "/proc/mtrr", "/proc/sysrq-trigger", "/proc/driver"];

/// Hides and protects them, as far as this kernel has them.
pub(super) fn apply() -> Result<(), MachineError> {
    for path in existing(MASKED) {
        hide(path)?;
    }
    for path in existing(READ_ONLY) {
        Detached::of(path)?.attach(path, true)?;
    }
    // This mount of it, not the file system: containers with the machine's own network mount it again, writable.
    Ok(mount::make_read_only(Path::new("/sys"))?)
}

fn existing(paths: &'static [&'static str]) -> impl Iterator<Item = &'static Path> {
    paths.iter().map(Path::new).filter(|path| path.exists())
}

fn hide(path: &Path) -> Result<(), MachineError> {
    if path.is_dir() {
        let flags = DATA_ONLY | MountFlags::RDONLY;
        return Ok(mount::filesystem("tmpfs", path, flags, "mode=0555,size=4k,nr_inodes=2")?);
    }
    Ok(Detached::of(Path::new("/dev/null"))?.attach(path, true)?)
}
