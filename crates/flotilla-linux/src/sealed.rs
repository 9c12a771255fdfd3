//! Files of the host that a machine may read and never change.
//!
//! What protects them is an overlay without an upper layer: its superblock is read-only, and unlike a read-only bind no remount
//! changes that. It costs no disk and no memory, since it shows the very files of the host. Two things it cannot do: it hides
//! the marks of deleted files in an image's layers, and it cannot be mapped to other owners. So image stores are in
//! [`erofs`](crate::erofs) images where the kernel has that.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags, open, openat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, UnmountFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen, unmount,
};

use crate::mount::{self, Detached, MountError, SCRATCH};

/// Takes hold of `source`, which cannot be changed where that is attached. `stage` is an empty directory, used as a mount
/// point meanwhile: call this in a mount namespace of one's own.
pub(crate) fn view(source: &Path, stage: &Path) -> Result<Detached, MountError> {
    let failed = |source_error| MountError::Sealed { path: source.to_owned(), source: source_error };
    // A file is shown by its directory: only directories can be layers.
    let (layer, name) = if source.is_dir() { (source, None) } else { split(source).map_err(failed)? };
    // The other layer is on a file system of its own: none of the two may be below the other.
    mount::filesystem("tmpfs", stage, SCRATCH, "mode=0700")?;
    let (empty, shown) = (stage.join("empty"), stage.join("shown"));
    fs::create_dir(&empty).map_err(failed)?;
    let tree = overlay(layer, &empty).map_err(failed)?;
    Detached::whole(tree, source).attach(&shown, false)?;
    let held = Detached::of(&name.map_or_else(|| shown.clone(), |name| shown.join(name)));
    unmount(stage, UnmountFlags::DETACH).map_err(|errno| failed(errno.into()))?;
    held
}

/// The path of the running program, as one to start it by: whoever finds the process in a machine's `/proc` cannot change our
/// binary by it. Without the right to mount there is no machine either, and it is the plain path.
pub fn own_program() -> PathBuf {
    static PROGRAM: OnceLock<Option<File>> = OnceLock::new();
    let opened = PROGRAM.get_or_init(|| open_own_program().ok());
    match opened {
        Some(file) => PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())),
        None => PathBuf::from("/proc/self/exe"),
    }
}

fn open_own_program() -> io::Result<File> {
    // A directory of another file system, since none of the two may be below the other. The name is found in the first.
    const OTHER: &str = "/dev";
    let program = std::env::current_exe()?;
    let (folder, Some(name)) = split(&program)? else { return Err(io::ErrorKind::NotFound.into()) };
    let tree = overlay(folder, Path::new(OTHER))?;
    let file = openat(&tree, name, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())?;
    Ok(File::from(file))
}

fn split(file: &Path) -> io::Result<(&Path, Option<&Path>)> {
    let missing = || io::Error::from(io::ErrorKind::NotFound);
    let name = file.file_name().ok_or_else(missing)?;
    Ok((file.parent().ok_or_else(missing)?, Some(Path::new(name))))
}

/// A read-only overlay of two directories, attached nowhere: the kernel wants two layers at least.
fn overlay(first: &Path, second: &Path) -> io::Result<OwnedFd> {
    // By descriptors: a name may contain what separates layers and options.
    let folder = |path: &Path| open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let (first, second) = (folder(first)?, folder(second)?);
    let shown = |folder: &OwnedFd| format!("/proc/self/fd/{}", folder.as_raw_fd());
    let overlay = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&overlay, "source", "sealed")?;
    fsconfig_set_string(&overlay, "lowerdir", format!("{}:{}", shown(&first), shown(&second)))?;
    fsconfig_set_flag(&overlay, "ro")?;
    fsconfig_create(&overlay)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV;
    Ok(fsmount(&overlay, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}
