//! A node's image store: databases of its own, and links to the images of its bundle.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use flotilla_core::BundleLayout;
use flotilla_linux::erofs;
use flotilla_linux::machine::Shared;
use walkdir::WalkDir;

use super::disk::make_folder;
use crate::error::{At, NativeError};

/// Where a node sees the images of its bundle.
const SHARED: &str = "/opt/flotilla/snapshots";

/// Makes a store from that of a bundle. Its images are links, which lead somewhere in a node that has them at [`SHARED`]; all
/// else is small, and a copy, since containerd writes to it.
pub(super) fn make(images: &BundleLayout, to: &Path) -> Result<(), NativeError> {
    let (from, snapshots) = (images.store(), images.snapshots());
    let mut walk = WalkDir::new(&from).into_iter();
    while let Some(entry) = walk.next() {
        let entry = entry.map_err(|error| NativeError::Io {
            action: "read",
            path: from.clone(),
            source: error.into(),
        })?;
        let target = to.join(entry.path().strip_prefix(&from).expect("it is below"));
        let metadata = entry.metadata().map_err(io::Error::from).at("read", entry.path())?;
        if entry.path().parent() == Some(&snapshots) {
            symlink(Path::new(SHARED).join(entry.file_name()), &target).at("link", &target)?;
            if metadata.is_dir() {
                walk.skip_current_dir();
            }
        } else if metadata.is_dir() {
            make_folder(&target, metadata.mode() & 0o7777)?;
        } else {
            fs::copy(entry.path(), &target).at("copy", &target)?;
        }
    }
    Ok(())
}

/// The images of a bundle, as nodes have them inside.
pub(super) fn shared(bundle: &BundleLayout, digest: &str) -> Result<Shared, NativeError> {
    let (directory, image) = (bundle.snapshots(), bundle.snapshots_image());
    let image = if erofs::is_supported() {
        // Bundles of earlier releases have none yet.
        erofs::ensure(&directory, &image, digest).at("make", &image)?;
        Some(image)
    } else {
        None
    };
    Ok(Shared { directory, image, target: SHARED.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_links_and_all_else_is_a_copy() {
        let dir = tempfile::tempdir().unwrap();
        let bundle = BundleLayout::at(dir.path());
        let (store, node, snapshots) = (bundle.store(), dir.path().join("node"), bundle.snapshots());
        for path in ["1/fs/usr", "2/fs"] {
            fs::create_dir_all(snapshots.join(path)).unwrap();
        }
        fs::write(snapshots.join("1/fs/usr/program"), "program").unwrap();
        fs::write(store.join("meta.db"), "index").unwrap();
        fs::create_dir(store.join("blobs")).unwrap();
        fs::write(store.join("blobs/config"), "config").unwrap();
        make(&bundle, &node).unwrap();
        let inside = node.join(snapshots.strip_prefix(&store).unwrap());
        for id in ["1", "2"] {
            assert_eq!(fs::read_link(inside.join(id)).unwrap(), Path::new(SHARED).join(id));
        }
        for path in ["meta.db", "blobs/config"] {
            assert_eq!(fs::read(node.join(path)).unwrap(), fs::read(store.join(path)).unwrap());
            let inode = |root: &Path| fs::symlink_metadata(root.join(path)).unwrap().ino();
            assert_ne!(inode(&node), inode(&store), "{path} is its own");
        }
    }
}
