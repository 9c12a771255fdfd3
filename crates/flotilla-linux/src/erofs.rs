//! Read-only images of directories, which machines share and cannot change.
//!
//! A read-only bind mount does not hold: root in a machine makes it writable again by a remount. An EROFS file system has no code
//! that writes. [`ensure`] makes the image of a directory, [`mount()`] mounts it.
//!
//! All mounts of one image use one loop device, so that the kernel gives them one superblock, and one page cache: ten
//! machines that run the same program have it in memory once. The device goes away with its last mount, whoever ends and
//! however; no mount is made in the host's namespace.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string,
    fsmount, fsopen,
};

use crate::loop_device;
use crate::mount::{Detached, MountError};

mod image;

/// What is appended to the name of an image that is being written.
pub const UNFINISHED: &str = ".unfinished";

/// Whether this host can mount such images. Needs root.
pub fn is_supported() -> bool {
    fsopen("erofs", FsOpenFlags::FSOPEN_CLOEXEC).is_ok() && loop_device::is_supported()
}

/// Makes the image of `directory`, unless it exists. `id` tells it from others.
///
/// Written whole or not at all; one that was cut off is made again. Who comes second waits for who was first.
pub fn ensure(directory: &Path, image: &Path, id: &str) -> io::Result<()> {
    let lock = File::open(directory)?;
    flock(&lock, FlockOperation::LockExclusive)?;
    if image::is_whole(image)? {
        return Ok(());
    }
    let mut unfinished = image.to_owned().into_os_string();
    unfinished.push(UNFINISHED);
    let write = || {
        let mut file = BufWriter::with_capacity(1 << 20, File::create(&unfinished)?);
        image::write(directory, id, &mut file)?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&unfinished, image)
    };
    write().inspect_err(|_| drop(fs::remove_file(&unfinished)))
}

/// Whether `image` is what [`ensure`] makes of `directory`. Reads every byte of both.
pub fn is_image_of(directory: &Path, image: &Path, id: &str) -> io::Result<bool> {
    let mut compared = Compared { image: File::open(image)?, same: true };
    image::write(directory, id, &mut compared)?;
    Ok(compared.same && compared.image.read(&mut [0])? == 0)
}

/// Mounts an image, nowhere yet. Opens devices, so whoever calls this is not in a machine's control group.
pub fn mount(image: &Path) -> Result<Detached, MountError> {
    let failed = |source: io::Error| MountError::Image { image: image.to_owned(), source };
    // Two who mount it at the same time must not make a device each. Opened on its own: a device keeps the file that it was made
    // with, and with it that file's locks.
    let lock = File::open(image).map_err(failed)?;
    flock(&lock, FlockOperation::LockExclusive).map_err(|errno| failed(errno.into()))?;
    // Held until the mount holds it.
    let device = loop_device::of(image).map_err(failed)?;
    let mount = || {
        let erofs = fsopen("erofs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_string(&erofs, "source", &device.path)?;
        fsconfig_set_flag(&erofs, "ro")?;
        fsconfig_create(&erofs)?;
        let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
            | MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV;
        fsmount(&erofs, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
    };
    let tree = mount().map_err(|errno| failed(errno.into()))?;
    Ok(Detached::whole(tree, image))
}

/// Takes what an image should be, and compares it with one.
struct Compared {
    image: File,
    same: bool,
}

impl Write for Compared {
    fn write(&mut self, wanted: &[u8]) -> io::Result<usize> {
        let mut found = Vec::with_capacity(wanted.len());
        (&self.image).take(wanted.len() as u64).read_to_end(&mut found)?;
        self.same &= found == wanted;
        Ok(wanted.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
