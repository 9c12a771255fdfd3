//! A node's image store: shares the read-only files of its bundle.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, lchown, symlink};
use std::path::Path;

use rustix::buffer::spare_capacity;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags, lgetxattr, llistxattr, lsetxattr,
    mknodat, utimensat,
};
use rustix::io::Errno;
use walkdir::WalkDir;

use super::disk::make_folder;
use super::error::{At, NativeError};

/// Attributes that make a file of a layer what it is: an overlay's marks, capabilities of programs, the image's own. Others
/// (labels of `SELinux`) are this host's business.
const KEPT: [&[u8]; 3] = [b"trusted.overlay.", b"security.capability", b"user."];
/// Point to a file of the file system that the store is on, which the copy is not.
const OF_ONE_FILE_SYSTEM: [&[u8]; 2] = [b"trusted.overlay.origin", b"trusted.overlay.uuid"];
/// As much as an attribute, or a list of their names, can be (listxattr(2)).
const LONGEST: usize = 64 << 10;

/// Links the store: images are read-only, so nodes share them. The databases are written, so each node has its own
/// copy. If the bundle is on another file system, everything is copied.
pub(super) fn link(from: &Path, to: &Path) -> Result<(), NativeError> {
    link_by(from, to, &|from, to| fs::hard_link(from, to))
}

fn link_by(
    from: &Path,
    to: &Path,
    hard_link: &dyn Fn(&Path, &Path) -> io::Result<()>,
) -> Result<(), NativeError> {
    for entry in WalkDir::new(from) {
        let entry = entry.map_err(|error| NativeError::Io {
            action: "read",
            path: from.to_owned(),
            source: error.into(),
        })?;
        let target = to.join(entry.path().strip_prefix(from).expect("it is below"));
        let metadata = entry.metadata().map_err(io::Error::from).at("read", entry.path())?;
        if metadata.is_dir() {
            make_folder(&target, metadata.mode() & 0o7777)?;
            keep_attributes(entry.path(), &target, &metadata).at("make", &target)?;
            continue;
        }
        let is_database = entry.path().extension().is_some_and(|extension| extension == "db");
        let linked = if is_database {
            Err(io::ErrorKind::CrossesDevices.into())
        } else {
            hard_link(entry.path(), &target)
        };
        match linked {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                copy(entry.path(), &target, &metadata).at("copy", &target)?;
            }
            linked => linked.at("link", &target)?,
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path, metadata: &fs::Metadata) -> io::Result<()> {
    let kind = metadata.file_type();
    let special = [
        // In a layer one with the number 0 says that a file of the layer below is gone.
        (kind.is_char_device(), FileType::CharacterDevice),
        (kind.is_block_device(), FileType::BlockDevice),
        (kind.is_fifo(), FileType::Fifo),
        (kind.is_socket(), FileType::Socket),
    ];
    if kind.is_symlink() {
        symlink(fs::read_link(from)?, to)?;
    } else if let Some((_, special)) = special.into_iter().find(|(is_it, _)| *is_it) {
        let mode = Mode::from_raw_mode(metadata.mode() & 0o7777);
        mknodat(CWD, to, special, mode, metadata.rdev())?;
        rustix::fs::chmod(to, mode)?;
    } else {
        fs::copy(from, to)?;
    }
    keep_attributes(from, to, metadata)?;
    let time = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps {
        last_access: time(metadata.atime(), metadata.atime_nsec()),
        last_modification: time(metadata.mtime(), metadata.mtime_nsec()),
    };
    Ok(utimensat(CWD, to, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Gives a copy the owner and the attributes of its original. The owner first: a change of it takes a program's
/// capabilities away.
fn keep_attributes(from: &Path, to: &Path, metadata: &fs::Metadata) -> io::Result<()> {
    lchown(to, Some(metadata.uid()), Some(metadata.gid()))?;
    if !metadata.is_symlink() {
        // A change of the owner also takes away the bits that give a program its owner's rights.
        rustix::fs::chmod(to, Mode::from_raw_mode(metadata.mode() & 0o7777))?;
    }
    let mut names = Vec::with_capacity(LONGEST);
    match llistxattr(from, spare_capacity(&mut names)) {
        Err(Errno::NOTSUP) => return Ok(()),
        listed => listed?,
    };
    let is_kept = |name: &&CStr| {
        let name = name.to_bytes();
        KEPT.iter().any(|kept| name.starts_with(kept)) && !OF_ONE_FILE_SYSTEM.contains(&name)
    };
    let names = names.split_inclusive(|byte| *byte == 0);
    let names = names.filter_map(|name| CStr::from_bytes_with_nul(name).ok()).filter(is_kept);
    for name in names {
        let mut value = Vec::with_capacity(LONGEST);
        lgetxattr(from, name, spare_capacity(&mut value))?;
        lsetxattr(to, name, &value, XattrFlags::empty())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn attribute(path: &Path, name: &str) -> Vec<u8> {
        let mut value = Vec::with_capacity(LONGEST);
        let _ = lgetxattr(path, name, spare_capacity(&mut value));
        value
    }

    /// A store with all that a layer may hold.
    fn store(dir: &Path) -> std::path::PathBuf {
        let store = dir.join("store");
        fs::create_dir_all(store.join("deep")).unwrap();
        fs::write(store.join("deep/layer"), "files").unwrap();
        fs::set_permissions(store.join("deep/layer"), fs::Permissions::from_mode(0o4751)).unwrap();
        fs::write(store.join("meta.db"), "index").unwrap();
        symlink("layer", store.join("deep/link")).unwrap();
        store
    }

    #[test]
    fn a_store_is_shared_but_for_its_databases() {
        let dir = tempfile::tempdir().unwrap();
        let (store, node) = (store(dir.path()), dir.path().join("node"));
        link(&store, &node).unwrap();
        let inode = |path: &Path| fs::symlink_metadata(path).unwrap().ino();
        assert_eq!(inode(&node.join("deep/layer")), inode(&store.join("deep/layer")));
        assert_ne!(inode(&node.join("meta.db")), inode(&store.join("meta.db")));
        assert_eq!(fs::read_link(node.join("deep/link")).unwrap(), Path::new("layer"));
    }

    #[test]
    fn a_copy_on_another_file_system_is_like_the_store_in_everything() {
        if !flotilla_testkit::is_root() {
            flotilla_testkit::skip("only root makes devices");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (store, node) = (store(dir.path()), dir.path().join("node"));
        mknodat(CWD, store.join("deep/gone"), FileType::CharacterDevice, Mode::empty(), 0).unwrap();
        mknodat(CWD, store.join("deep/pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let set = |name: &str, attribute: &str, value: &[u8]| {
            lsetxattr(store.join(name), attribute, value, XattrFlags::empty()).unwrap();
        };
        set("deep", "trusted.overlay.opaque", b"y");
        set("deep", "trusted.overlay.origin", b"a file handle");
        set("deep/layer", "trusted.overlay.redirect", b"/elsewhere");
        // CAP_NET_RAW, permitted and effective.
        let capability = [1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        set("deep/layer", "security.capability", &capability);
        let other_file_system = |_: &Path, _: &Path| Err(io::ErrorKind::CrossesDevices.into());
        link_by(&store, &node, &other_file_system).unwrap();
        let metadata = |name: &str| fs::symlink_metadata(node.join(name)).unwrap();
        assert!(metadata("deep/gone").file_type().is_char_device() && metadata("deep/gone").rdev() == 0);
        assert!(metadata("deep/pipe").file_type().is_fifo());
        assert_eq!(metadata("deep/layer").mode() & 0o7777, 0o4751);
        let before = fs::symlink_metadata(store.join("deep/layer")).unwrap();
        assert_eq!(metadata("deep/layer").mtime_nsec(), before.mtime_nsec());
        assert_eq!(fs::read_link(node.join("deep/link")).unwrap(), Path::new("layer"));
        assert_eq!(attribute(&node.join("deep"), "trusted.overlay.opaque"), b"y");
        assert_eq!(attribute(&node.join("deep"), "trusted.overlay.origin"), b"");
        assert_eq!(attribute(&node.join("deep/layer"), "trusted.overlay.redirect"), b"/elsewhere");
        assert_eq!(attribute(&node.join("deep/layer"), "security.capability"), capability);
    }
}
