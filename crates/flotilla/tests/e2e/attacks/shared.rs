//! What all nodes have in common: the bundle, and our own program.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::field::{Field, identity, reached};
use super::{Attack, Stopped, Tried};
use crate::lab;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "change the bundle's kubectl, by a remount",
        none: Stopped,
        user: Stopped,
        why: "it comes from a file system that is read-only itself",
        run: |field| remount(field, "/usr/local/bin/kubectl", &lab::bundle().join("bin/kubectl")),
    },
    Attack {
        name: "change `flotilla` itself, by a remount",
        none: Stopped,
        user: Stopped,
        why: "the same",
        run: |field| {
            let of_host = lab::flotilla(Path::new("/"), &[]);
            remount(field, &field.init(), Path::new(of_host.get_program()))
        },
    },
    Attack {
        name: "change files of the image store",
        none: Stopped,
        user: Stopped,
        why: "the same",
        run: |field| {
            field.in_node(
                "file=$(find -L /var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots -type f -size +1000k | head -n 1)
                echo $file; test -n \"$file\" || exit 3; attack write $file || exit 1; test $(stat -L -c %h $file) -gt 1",
            )
        },
    },
    Attack {
        name: "change the root file system of other nodes",
        none: Stopped,
        user: Stopped,
        why: "changes go to the node's own layer",
        run: |field| {
            field.ssh("echo attack > /usr/share/attack; rm -f /etc/os-release");
            let root = lab::bundle().join("rootfs");
            let is_changed = root.join("usr/share/attack").exists() || !root.join("etc/os-release").exists();
            reached(is_changed, "files of the bundle")
        },
    },
];

/// Opens a file for writing whose mount was made writable. One that is not the host's very file is no harm.
fn remount(field: &Field, path: &str, of_host: &Path) -> Tried {
    let (device, inode) = identity(of_host);
    field.in_node(&format!(
        "mount -o remount,bind,rw {path}; attack write {path}; r=$?; mount -o remount,bind,ro {path}
        test $r = 0 && test $(stat -L -c %d:%i {path}) = {device}:{inode}"
    ))
}

/// All files of the bundle, by what changes when they do.
#[derive(PartialEq, Eq)]
pub(super) struct Bundle(BTreeMap<PathBuf, (u64, i64, i64)>);

impl Bundle {
    pub(super) fn look() -> Self {
        let mut files = BTreeMap::new();
        let mut directories = vec![lab::bundle().to_owned()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(&directory).unwrap() {
                let path = entry.unwrap().path();
                let metadata = fs::symlink_metadata(&path).unwrap();
                if metadata.is_dir() {
                    directories.push(path);
                } else {
                    files.insert(path, (metadata.size(), metadata.mtime(), metadata.mtime_nsec()));
                }
            }
        }
        Self(files)
    }

    pub(super) fn assert_unchanged(&self) {
        let now = Self::look();
        let changed: Vec<_> = now.0.iter().filter(|(path, file)| self.0.get(*path) != Some(file)).collect();
        assert!(self.0.len() == now.0.len() && changed.is_empty(), "the bundle has changed: {changed:?}");
    }
}
