//! Mounts whose files have other owners than on the disk (`mount_setattr(2)`, "ID-mapped mounts").

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::mount::MountAttrFlags;

use super::{Detached, MountError};

impl Detached {
    /// Sets flags on it and all that came along with it, before anybody sees it. With `owners`, a user namespace, owner 0 of
    /// the disk is shown as the namespace's root, and so on: nothing on the disk changes. Not every file system can do that.
    pub(crate) fn change(
        &self,
        flags: MountAttrFlags,
        owners: Option<BorrowedFd<'_>>,
    ) -> Result<(), MountError> {
        let mut attributes = Attributes { set: u64::from(flags.bits()), ..Attributes::default() };
        if let Some(namespace) = owners {
            attributes.set |= IDMAP;
            attributes.namespace = u64::from(namespace.as_raw_fd().cast_unsigned());
        }
        set(&self.tree, &attributes)
            .map_err(|source| MountError::Owners { path: self.source.clone(), source })
    }
}

/// The kernel's `struct mount_attr` (include/uapi/linux/mount.h).
#[derive(Default)]
#[repr(C)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    namespace: u64,
}

/// `MOUNT_ATTR_IDMAP`.
const IDMAP: u64 = 0x0010_0000;

#[expect(unsafe_code, reason = "a system call that no crate here has")]
fn set(tree: &impl AsRawFd, attributes: &Attributes) -> io::Result<()> {
    let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
    // SAFETY: the kernel reads the empty path and as many bytes of the attributes as they have.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            flags,
            std::ptr::from_ref(attributes),
            size_of::<Attributes>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
