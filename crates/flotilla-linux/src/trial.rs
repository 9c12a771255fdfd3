//! Whether a directory can hold machines, found out by trying.
//!
//! The names of file systems do not tell: an overlay needs things of its upper layer that NFS, eCryptfs, older ZFS and
//! another overlay lack, each in another version or not at all.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen,
};

/// Why a directory cannot hold machines.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    #[error("nothing can be written there")]
    Write { source: io::Error },
    #[error("its file system cannot be the upper layer of an overlay")]
    Overlay { source: io::Error },
    /// The kernel or a container's runtime does not let us: that says nothing about the file system.
    #[error("whether it can be the upper layer of an overlay cannot be tried")]
    Untried { source: io::Error },
}

/// Tries in a directory that exists what machines need of its file system. Leaves nothing behind. Needs root.
pub fn try_folder(folder: &Path) -> Result<(), TrialError> {
    let place = Place::make(folder).map_err(|source| TrialError::Write { source })?;
    let overlay = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).map_err(not_opened)?;
    try_overlay(&overlay, &place.0).map_err(|source| TrialError::Overlay { source })
}

/// How the directories to try with are called, before the number of the process that tries.
const PREFIX: &str = ".flotilla-try-";

/// A directory with layers to try with, gone when dropped.
pub(crate) struct Place(pub(crate) PathBuf);

impl Place {
    pub(crate) fn make(folder: &Path) -> io::Result<Self> {
        remove_abandoned(folder);
        let place = folder.join(format!("{PREFIX}{}", std::process::id()));
        // What a killed process with our number left.
        match fs::remove_dir_all(&place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::create_dir(&place)?;
        let place = Self(place);
        for name in ["lower", "upper", "work"] {
            fs::create_dir(place.0.join(name))?;
        }
        fs::write(place.0.join("lower/old"), "old")?;
        Ok(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // If it cannot be removed, the next trial removes it.
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Removes what killed processes left. It is only in the way of tidiness, so what cannot be removed stays.
fn remove_abandoned(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if number.is_some_and(|number| !Path::new("/proc").join(number.to_string()).exists()) {
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

fn not_opened(errno: Errno) -> TrialError {
    match errno {
        Errno::PERM | Errno::NOSYS => TrialError::Untried { source: errno.into() },
        errno => TrialError::Overlay { source: errno.into() },
    }
}

/// Makes an overlay that is mounted nowhere, writes to it and deletes from it, which takes a whiteout.
fn try_overlay(overlay: &OwnedFd, place: &Path) -> io::Result<()> {
    let layers = [("lowerdir", "lower"), ("upperdir", "upper"), ("workdir", "work")];
    let mut open = Vec::new();
    for (key, folder) in layers {
        let folder = File::open(place.join(folder))?;
        // By their descriptors: `:` and `,` separate overlay's options, and a directory's name may contain them.
        fsconfig_set_string(overlay, key, format!("/proc/self/fd/{}", folder.as_raw_fd()))?;
        open.push(folder);
    }
    fsconfig_create(overlay)?;
    let root = fsmount(overlay, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    drop(openat(&root, "new", flags, Mode::RUSR | Mode::WUSR)?);
    unlinkat(&root, "old", AtFlags::empty())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::geteuid;

    #[test]
    fn an_ordinary_folder_can_hold_machines_and_stays_as_it_was() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let odd = folder.path().join("a,b:c");
        fs::create_dir(&odd).unwrap();
        if geteuid().is_root() {
            try_folder(&odd).unwrap();
        }
        assert_eq!(fs::read_dir(&odd).unwrap().count(), 0);
    }

    #[test]
    fn what_killed_processes_left_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let left = |number: u32| folder.path().join(format!("{PREFIX}{number}"));
        // No process has a number that large (proc(5), pid_max).
        let (gone, parent) = (left(1 << 30), left(std::os::unix::process::parent_id()));
        for place in [&gone, &parent] {
            fs::create_dir_all(place.join("upper")).unwrap();
        }
        let place = Place::make(folder.path()).unwrap();
        assert!(!gone.exists() && parent.exists() && place.0.exists());
        drop(place);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_the_kernel_does_not_let_us_try_says_nothing_about_the_folder() {
        assert!(matches!(not_opened(Errno::PERM), TrialError::Untried { .. }));
        assert!(matches!(not_opened(Errno::NOSYS), TrialError::Untried { .. }));
        assert!(matches!(not_opened(Errno::NODEV), TrialError::Overlay { .. }));
    }

    #[test]
    fn what_cannot_hold_machines_says_why() {
        // The kernel makes no directories here, not even for root.
        let error = try_folder(Path::new("/proc/sys")).unwrap_err();
        assert!(matches!(error, TrialError::Write { .. }), "{error:?}");
    }
}
