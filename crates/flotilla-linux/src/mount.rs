//! Mounts, for a process that has a mount namespace of its own.
//!
//! Nothing here that changes anything may be called in the host's namespace: what it mounts must vanish with the
//! caller's.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, StatVfsMountFlags, statvfs};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsmount, fsopen, mount_change, mount_remount, move_mount,
    open_tree, unmount,
};
use rustix::process::{chdir, pivot_root};

use crate::enter::Files;
use crate::process::Process;

mod idmap;
pub(crate) mod info;

/// A file system could not be put where it belongs.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    #[error("cannot mount {what} on {}", target.display())]
    Mount { what: String, target: PathBuf, source: io::Error },
    #[error("cannot make a file system of the kind {kind}")]
    Make { kind: String, source: io::Error },
    #[error("cannot make the mount point {}", path.display())]
    MountPoint { path: PathBuf, source: io::Error },
    #[error("cannot mount {what} on {}: that leads to {}, which the machine itself uses", target.display(), to.display())]
    Covers { what: String, target: PathBuf, to: PathBuf },
    #[error("cannot find {} to bind it", path.display())]
    BindSource { path: PathBuf, source: io::Error },
    #[error("cannot make {} read-only", target.display())]
    ReadOnly { target: PathBuf, source: io::Error },
    #[error("cannot show {} with the owners of a user namespace", path.display())]
    Owners { path: PathBuf, source: io::Error },
    #[error("cannot mount the image {}", image.display())]
    Image { image: PathBuf, source: io::Error },
    #[error("cannot make a read-only view of {}", path.display())]
    Sealed { path: PathBuf, source: io::Error },
    #[error("cannot read /proc/self/mountinfo")]
    List { source: io::Error },
    #[error("cannot change the propagation of mounts")]
    Propagation { source: io::Error },
    #[error("cannot make {} the root", path.display())]
    Pivot { path: PathBuf, source: io::Error },
}

/// The flags of file systems that hold no programs: `nosuid,nodev,noexec`.
pub const DATA_ONLY: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// The same for [`Detached::filesystem`].
pub const DATA_ONLY_ATTR: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID
    .union(MountAttrFlags::MOUNT_ATTR_NODEV)
    .union(MountAttrFlags::MOUNT_ATTR_NOEXEC);
/// The descriptor by which one stage leaves a mount to the next: the first after the standard streams.
const HANDED_OVER: RawFd = 3;

/// The flags of scratch directories: `nosuid,nodev`.
pub const SCRATCH: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);

/// Keeps all mounts made from now on out of other namespaces, and theirs out of this one.
pub fn make_all_private() -> Result<(), MountError> {
    propagation(MountPropagationFlags::PRIVATE)
}

/// Lets mounts made from now on reach the namespaces made from this one: a kubelet and its containers need it.
pub fn make_all_shared() -> Result<(), MountError> {
    propagation(MountPropagationFlags::SHARED)
}

/// Mounts a file system that has no device, such as proc or tmpfs. Makes the mount point.
pub fn filesystem(kind: &str, target: &Path, flags: MountFlags, options: &str) -> Result<(), MountError> {
    make_folder(target)?;
    mount(kind, target, flags, options)
}

/// Mounts a writable view of `lower`, which itself stays as it is, and returns where.
///
/// What is written goes to a tmpfs on `scratch` and is gone with the namespace. The directory `scratch` must be
/// there and stays empty for everybody else. **Changes the working directory** to it.
pub fn ephemeral_overlay(lower: &Path, scratch: &Path) -> Result<PathBuf, MountError> {
    // Both before the tmpfs and the change of directory, so that they may be relative.
    let lower_tree = Detached::of(lower)?;
    let scratch = fs::canonicalize(scratch)
        .map_err(|source| MountError::MountPoint { path: scratch.to_owned(), source })?;
    mount("tmpfs", &scratch, SCRATCH, "mode=0700")?;
    overlay_of(lower_tree, &scratch, Attributes::Trusted)
}

/// Where an overlay writes down what its upper directory hides of the lower one. Another kind is not seen, so a directory has
/// the same one for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attributes {
    /// Attributes that only root of the host may write.
    Trusted,
    /// Attributes that root of a user namespace may write.
    User,
}

/// Mounts a writable view of `lower`, which itself stays as it is, and returns where.
///
/// What is written goes to `upper` in `directory` and stays there; the directories `work`, `lower` and `merged` beside it are
/// the overlay's own. **Changes the working directory** to `directory`.
pub fn lasting_overlay(lower: &Path, folder: &Path, attributes: Attributes) -> Result<PathBuf, MountError> {
    overlay_of(Detached::of(lower)?, folder, attributes)
}

/// The mount point of the overlay in `folder`, made if it does not exist. Until the overlay is mounted it is an empty directory.
pub(crate) fn stage(folder: &Path) -> Result<PathBuf, MountError> {
    let merged = folder.join("merged");
    make_folder(&merged)?;
    Ok(merged)
}

fn overlay_of(lower: Detached, folder: &Path, attributes: Attributes) -> Result<PathBuf, MountError> {
    let failed = |source: rustix::io::Errno| MountError::Mount {
        what: format!("the overlay of {}", lower.source.display()),
        target: folder.to_owned(),
        source: source.into(),
    };
    // Short relative names: `:` and `,` separate overlay's options, and a directory's name may contain them.
    chdir(folder).map_err(failed)?;
    for name in ["upper", "work", "merged"] {
        make_folder(Path::new(name))?;
    }
    // The root of the overlay shows the mode of the upper directory.
    rustix::fs::chmod("upper", rustix::fs::Mode::from_raw_mode(0o755)).map_err(failed)?;
    lower.attach(Path::new("lower"), false)?;
    let merged = folder.join("merged");
    let options = match attributes {
        Attributes::Trusted => "lowerdir=lower,upperdir=upper,workdir=work",
        Attributes::User => "lowerdir=lower,upperdir=upper,workdir=work,userxattr",
    };
    mount("overlay", &merged, MountFlags::empty(), options)?;
    Ok(merged)
}

/// Makes `new_root`, a mount point, the root of this namespace; the old one is gone afterwards.
pub fn pivot_into(new_root: &Path) -> Result<(), MountError> {
    let pivot = || -> rustix::io::Result<()> {
        chdir(new_root)?;
        // With the same directory twice the old root ends up on top of the new one, so no place for it has to be
        // made in the new root (pivot_root(2), "pivot_root(".", ".")").
        pivot_root(".", ".")?;
        unmount(".", UnmountFlags::DETACH)?;
        chdir("/")
    };
    pivot().map_err(|source| MountError::Pivot { path: new_root.to_owned(), source: source.into() })
}

/// A file or directory of the host, held so that it can be attached when the host's root is out of sight.
///
/// Attaching after [`pivot_into`] is the point: only then do links in the target's path lead where the program
/// inside sees them lead. Before it, an absolute link in the new root would lead into the host's files.
#[derive(Debug)]
pub struct Detached {
    tree: OwnedFd,
    is_folder: bool,
    source: PathBuf,
}

impl Detached {
    /// Takes hold of `source`. Mounts below it do not come along.
    pub fn of(source: &Path) -> Result<Self, MountError> {
        Self::held(source, OpenTreeFlags::empty())
    }

    /// Takes hold of `source` with all that is mounted below it.
    pub fn with_mounts_of(source: &Path) -> Result<Self, MountError> {
        Self::held(source, OpenTreeFlags::AT_RECURSIVE)
    }

    /// Makes a file system that has no device, such as proc. In a user namespace the kernel allows that only as long as the
    /// host's own is in sight.
    pub fn filesystem(kind: &str, flags: MountAttrFlags) -> Result<Self, MountError> {
        let make = || -> rustix::io::Result<OwnedFd> {
            let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
            fsconfig_create(&context)?;
            fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)
        };
        let tree =
            make().map_err(|errno| MountError::Make { kind: kind.to_owned(), source: errno.into() })?;
        Ok(Self::whole(tree, Path::new(kind)))
    }

    /// A mount that is attached nowhere yet, made from `source`.
    pub(crate) fn whole(tree: OwnedFd, source: &Path) -> Self {
        Self { tree, is_folder: true, source: source.to_owned() }
    }

    /// Leaves it to the next program that this process starts: [`Self::handed_over`].
    #[expect(unsafe_code, reason = "a descriptor with a number that both programs know")]
    pub(crate) fn hand_over(&self) -> io::Result<()> {
        // SAFETY: the number is used for nothing else: this is for a stage that has opened nothing before.
        let done = unsafe { libc::dup2(self.tree.as_raw_fd(), HANDED_OVER) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// What whoever started this process left to it. `source` is what it was made from.
    #[expect(unsafe_code, reason = "a descriptor that was not opened here")]
    pub(crate) fn handed_over(source: &Path) -> Result<Self, MountError> {
        let missing =
            |errno: rustix::io::Errno| MountError::Image { image: source.to_owned(), source: errno.into() };
        // SAFETY: nobody else in this process knows the number, and nothing is taken over if it is not open.
        let tree = unsafe { OwnedFd::from_raw_fd(HANDED_OVER) };
        rustix::io::fcntl_setfd(&tree, rustix::io::FdFlags::CLOEXEC).map_err(missing)?;
        Ok(Self::whole(tree, source))
    }

    /// What keeps it.
    #[cfg(test)]
    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.tree
    }

    fn held(source: &Path, how_much: OpenTreeFlags) -> Result<Self, MountError> {
        let missing = |error| MountError::BindSource { path: source.to_owned(), source: error };
        let is_folder = fs::metadata(source).map_err(missing)?.is_dir();
        let flags = how_much | OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = open_tree(CWD, source, flags).map_err(|errno| missing(errno.into()))?;
        Ok(Self { tree, is_folder, source: source.to_owned() })
    }

    /// Attaches it at `target`, which is made if it does not exist.
    pub fn attach(self, target: &Path, read_only: bool) -> Result<(), MountError> {
        if self.is_folder {
            make_folder(target)?;
        } else {
            make_file(target)?;
        }
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_SYMLINKS;
        move_mount(&self.tree, "", CWD, target, flags).map_err(|source| MountError::Mount {
            what: self.source.display().to_string(),
            target: target.to_owned(),
            source: source.into(),
        })?;
        if read_only { make_read_only(target) } else { Ok(()) }
    }

    /// Attaches it at `target` in our own root, which is made if it does not exist, and gives the path that this is without
    /// links. What is in the root was left by others: links in the target's path lead only inside the root, and not into
    /// what this process holds, as those of `/proc` do. An error if they lead to one of `kept`, or above or below it.
    pub(crate) fn attach_inside(self, target: &Path, kept: &[PathBuf]) -> Result<PathBuf, MountError> {
        let failed = |source| MountError::MountPoint { path: target.to_owned(), source };
        let root = Files::below(Path::new("/")).map_err(failed)?;
        let place = root.mount_point(target, self.is_folder).map_err(failed)?;
        let to = fs::read_link(format!("/proc/self/fd/{}", place.as_raw_fd())).map_err(failed)?;
        let what = self.source.display().to_string();
        if kept.iter().any(|kept| to.starts_with(kept) || kept.starts_with(&to)) {
            return Err(MountError::Covers { what, target: target.to_owned(), to });
        }
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        let attached = move_mount(&self.tree, "", &place, "", flags);
        attached.map_err(|errno| MountError::Mount {
            what,
            target: target.to_owned(),
            source: errno.into(),
        })?;
        Ok(to)
    }
}

/// Makes the mount at `target` and all below it read-only. Needs `/proc`.
pub fn make_all_read_only(target: &Path) -> Result<(), MountError> {
    let mount_points = mount_points(Path::new("/proc/self")).map_err(|source| MountError::List { source })?;
    // The list has the paths as they are, without links.
    let target = fs::canonicalize(target)
        .map_err(|source| MountError::ReadOnly { target: target.to_owned(), source })?;
    // One that does not exist is hidden below another, where no one can write to it.
    let in_reach = mount_points.iter().filter(|path| path.starts_with(&target) && path.exists());
    in_reach.map(PathBuf::as_path).try_for_each(make_read_only)
}

/// Where something is mounted in a process's namespace, as that process sees it.
pub fn mount_points_of(process: &Process) -> io::Result<Vec<PathBuf>> {
    process.look(mount_points)
}

fn mount_points(process: &Path) -> io::Result<Vec<PathBuf>> {
    let list = fs::read(process.join("mountinfo"))?;
    Ok(info::mounts(&list).map(|mount| mount.at).collect())
}

/// Makes the mount at `target` read-only, here and not where else it is mounted.
pub fn make_read_only(target: &Path) -> Result<(), MountError> {
    let remount = || -> rustix::io::Result<()> {
        // A remount sets all flags again: name those that exist, or it takes them away.
        let now = statvfs(target)?.f_flag;
        let mut flags = MountFlags::BIND | MountFlags::RDONLY;
        flags.set(MountFlags::NOSUID, now.contains(StatVfsMountFlags::NOSUID));
        flags.set(MountFlags::NODEV, now.contains(StatVfsMountFlags::NODEV));
        flags.set(MountFlags::NOEXEC, now.contains(StatVfsMountFlags::NOEXEC));
        mount_remount(target, flags, "")
    };
    remount().map_err(|source| MountError::ReadOnly { target: target.to_owned(), source: source.into() })
}

fn mount(kind: &str, target: &Path, flags: MountFlags, options: &str) -> Result<(), MountError> {
    let options = CString::new(options).expect("mount options are made here and hold no NUL");
    rustix::mount::mount(kind, target, kind, flags, options.as_c_str()).map_err(|source| MountError::Mount {
        what: kind.to_owned(),
        target: target.to_owned(),
        source: source.into(),
    })
}

fn propagation(to: MountPropagationFlags) -> Result<(), MountError> {
    mount_change("/", MountPropagationFlags::REC | to)
        .map_err(|source| MountError::Propagation { source: source.into() })
}

fn make_folder(path: &Path) -> Result<(), MountError> {
    fs::create_dir_all(path).map_err(|source| MountError::MountPoint { path: path.to_owned(), source })
}

/// Makes an empty file unless something already exists.
fn make_file(path: &Path) -> Result<(), MountError> {
    if path.exists() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_folder(parent)?;
    }
    let made = fs::OpenOptions::new().create(true).append(true).open(path);
    made.map(drop).map_err(|source| MountError::MountPoint { path: path.to_owned(), source })
}
