//! The device files a Linux program expects, in a `/dev` of its own.
//!
//! Made one by one instead of showing the host's: a program in a node has no business with the host's disks.

use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, chmod, makedev, mknodat};
use rustix::mount::MountFlags;

use crate::mount::{self, DATA_ONLY, Detached, MountError, SCRATCH};

/// A character device.
#[derive(Debug, Clone, Copy)]
pub struct Device {
    pub name: &'static str,
    pub major: u32,
    pub minor: u32,
    pub mode: u32,
}

/// What every program may expect (devices.txt of the kernel's documentation).
pub const BASIC: &[Device] = &[
    Device { name: "null", major: 1, minor: 3, mode: 0o666 },
    Device { name: "zero", major: 1, minor: 5, mode: 0o666 },
    Device { name: "full", major: 1, minor: 7, mode: 0o666 },
    Device { name: "random", major: 1, minor: 8, mode: 0o666 },
    Device { name: "urandom", major: 1, minor: 9, mode: 0o666 },
    Device { name: "tty", major: 5, minor: 0, mode: 0o666 },
];

/// What a node has beside: what pods that mount or tunnel open, and an empty log of the kernel. A kubelet does not start without
/// one, to look for processes that the kernel killed; that of the host is about the host's control groups, so a kubelet
/// would find none of its own in it, and those of others.
pub const OF_A_NODE: &[Device] = &[
    Device { name: "kmsg", major: 1, minor: 3, mode: 0o600 },
    Device { name: "fuse", major: 10, minor: 229, mode: 0o600 },
    Device { name: "net/tun", major: 10, minor: 200, mode: 0o666 },
];

const LINKS: &[(&str, &str)] = &[
    ("ptmx", "pts/ptmx"),
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

/// A device file could not be made.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    #[error("cannot make the device {}", path.display())]
    Make { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Mount(#[from] MountError),
}

/// Room for device files, which need none, and for what a program may put beside them by mistake.
const DEV_SIZE: &str = "size=1m";

/// Mounts a tmpfs at `dev` with the given devices, pseudo terminals, shared memory of the size
/// `shm` (tmpfs(5)), and message queues.
pub fn populate<'a>(
    dev: &Path,
    devices: impl IntoIterator<Item = &'a Device>,
    shm: &str,
) -> Result<(), DeviceError> {
    mount_dev(dev)?;
    make_all(dev, devices)?;
    furnish(dev, shm)
}

/// The same with devices that exist elsewhere: in a user namespace no device can be made.
pub(crate) fn populate_with(
    dev: &Path,
    devices: Vec<(&Device, Detached)>,
    shm: &str,
) -> Result<(), DeviceError> {
    mount_dev(dev)?;
    for (device, held) in devices {
        held.attach(&dev.join(device.name), false)?;
    }
    furnish(dev, shm)
}

fn mount_dev(dev: &Path) -> Result<(), DeviceError> {
    Ok(mount::filesystem("tmpfs", dev, MountFlags::NOSUID, &format!("mode=0755,{DEV_SIZE}"))?)
}

/// Makes device files in a directory.
pub(crate) fn make_all<'a>(
    dev: &Path,
    devices: impl IntoIterator<Item = &'a Device>,
) -> Result<(), DeviceError> {
    for device in devices {
        let path = dev.join(device.name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .map_err(|source| DeviceError::Make { path: folder.to_owned(), source })?;
        }
        make(&path, device).map_err(|source| DeviceError::Make { path, source })?;
    }
    Ok(())
}

/// What is in `dev` beside devices.
fn furnish(dev: &Path, shm: &str) -> Result<(), DeviceError> {
    for (name, target) in LINKS {
        let path = dev.join(name);
        symlink(target, &path).map_err(|source| DeviceError::Make { path, source })?;
    }
    let pts = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount::filesystem("devpts", &dev.join("pts"), pts, "newinstance,ptmxmode=0666,mode=0620,gid=5")?;
    mount::filesystem("tmpfs", &dev.join("shm"), SCRATCH, &format!("mode=1777,size={shm}"))?;
    mount::filesystem("mqueue", &dev.join("mqueue"), DATA_ONLY, "")?;
    Ok(())
}

fn make(path: &Path, device: &Device) -> io::Result<()> {
    let mode = Mode::from_raw_mode(device.mode);
    mknodat(CWD, path, FileType::CharacterDevice, mode, makedev(device.major, device.minor))?;
    // What mknod makes is cut by our umask, whatever that is.
    chmod(path, mode)?;
    Ok(())
}
