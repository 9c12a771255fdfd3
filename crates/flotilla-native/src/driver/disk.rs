//! A node's own directory: its `/var` with the image store, its identity.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use flotilla_core::{BundleLayout, MachineRecord};
use flotilla_files::{is_unfinished, write_whole};
use flotilla_linux::enter::Files;
use flotilla_linux::tree;
use flotilla_spec::NodeName;

use super::store;
use crate::error::{At, NativeError};

/// A file with this in it says what the node's root is made from.
const BUNDLE: &str = "bundle";
/// The same for the bundle that has its images. Machines of earlier releases have none: their images are hard links.
const IMAGE_STORE: &str = "image-store";
const UUID: &str = "uuid";
/// How the directory of a node begins that is being removed.
const DOOMED: &str = ".removed-";

/// A node's directory on disk.
#[derive(Debug, Clone)]
pub(super) struct Disk {
    pub(super) folder: PathBuf,
}

impl Disk {
    pub(super) fn of(nodes: &Path, node: &NodeName) -> Self {
        Self { folder: nodes.join(node.as_ref()) }
    }

    pub(super) fn var(&self) -> PathBuf {
        self.folder.join("var")
    }

    pub(super) fn upper(&self) -> PathBuf {
        self.folder.join("upper")
    }

    /// Reads a small file of a node that is off, by its path in the node. Only what the node wrote itself is found, not
    /// what its bundle brought.
    pub(super) fn read(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(self.files(path)?.map(|files| files.read(Path::new(path))).transpose()?.flatten())
    }

    /// Whether such a file exists, however large it is.
    pub(super) fn has(&self, path: &str) -> io::Result<bool> {
        self.files(path)?.map_or(Ok(false), |files| files.exists(Path::new(path)))
    }

    /// The part of the disk that has a file of the node; none if there is none yet.
    fn files(&self, path: &str) -> io::Result<Option<Files>> {
        // Links inside the node's /var lead there by its absolute path.
        let root = if path.starts_with("/var/") { self.folder.clone() } else { self.upper() };
        match Files::below(&root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            files => files.map(Some),
        }
    }

    /// Makes what is missing: a node of the bundle of this digest, with the image store of another. A directory that was half
    /// made before is made again.
    pub(super) fn ensure(
        &self,
        digest: &str,
        image_store: &str,
        images: &BundleLayout,
    ) -> Result<(), NativeError> {
        make_folder(&self.folder, 0o700)?;
        self.remove_unfinished_files()?;
        // First: from here on the bundle is in use.
        self.write_once(BUNDLE, || format!("{digest}\n"))?;
        self.write_once(UUID, || uuid().unwrap_or_default())?;
        if self.exists()? {
            return self.ensure_record();
        }
        let path = self.folder.join(IMAGE_STORE);
        write_whole(&path, format!("{image_store}\n").as_bytes()).at("write", path)?;
        // Before the disk exists: no record of a lost one is taken for that of the new one.
        self.set_record(&MachineRecord::default())?;
        remove(&self.unfinished())?;
        make_var(&self.unfinished(), images)?;
        fs::rename(self.unfinished(), self.var()).at("make", self.var())
    }

    /// The machine's own number, the same for its whole life.
    pub(super) fn uuid(&self) -> Result<String, NativeError> {
        let path = self.folder.join(UUID);
        Ok(fs::read_to_string(&path).at("read", path)?.trim().to_owned())
    }

    /// The digest of the bundle that its root is made from.
    pub(super) fn bundle(&self) -> Option<String> {
        fs::read_to_string(self.folder.join(BUNDLE)).ok().map(|text| text.trim().to_owned())
    }

    /// The digest of the bundle that has its images, which it needs for its whole life.
    pub(super) fn image_store(&self) -> Result<Option<String>, NativeError> {
        let path = self.folder.join(IMAGE_STORE);
        match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            text => Ok(Some(text.at("read", path)?.trim().to_owned())),
        }
    }

    /// The digests of all bundles that it needs.
    pub(super) fn bundles(&self) -> Result<Vec<String>, NativeError> {
        Ok(self.bundle().into_iter().chain(self.image_store()?).collect())
    }

    /// Whether the disk exists, all of it.
    pub(super) fn exists(&self) -> Result<bool, NativeError> {
        self.var().try_exists().at("look for", self.var())
    }

    /// Removes all of it, and what a killed removal has left. Renamed first: half a disk must never look like a node's. Of a
    /// link that its owner has put there only the link goes.
    pub(super) fn remove(&self) -> Result<(), NativeError> {
        let doomed = self.doomed();
        remove(&doomed)?;
        match fs::rename(&self.folder, &doomed) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            renamed => renamed.at("remove", &self.folder)?,
        }
        remove(&doomed)
    }

    /// Where it is while it is removed. No node can have this name.
    pub(super) fn doomed(&self) -> PathBuf {
        let name = self.folder.file_name().unwrap_or_default().to_string_lossy();
        self.folder.with_file_name(format!("{DOOMED}{name}"))
    }

    /// A disk that is being made.
    fn unfinished(&self) -> PathBuf {
        self.folder.join("var.unfinished")
    }

    /// Removes what killed runs did not finish writing.
    fn remove_unfinished_files(&self) -> Result<(), NativeError> {
        for item in fs::read_dir(&self.folder).at("read", &self.folder)? {
            let path = item.at("read", &self.folder)?.path();
            if is_unfinished(&path) {
                fs::remove_file(&path).at("remove", path)?;
            }
        }
        Ok(())
    }

    fn write_once(&self, name: &str, text: impl FnOnce() -> String) -> Result<(), NativeError> {
        let path = self.folder.join(name);
        if fs::read_to_string(&path).is_ok_and(|text| !text.trim().is_empty()) {
            return Ok(());
        }
        write_whole(&path, text().as_bytes()).at("write", path)
    }
}

/// Removes what killed removals have left of the nodes in this directory.
pub(super) fn remove_doomed(nodes: &Path) -> Result<(), NativeError> {
    let items = match fs::read_dir(nodes) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        items => items.at("read", nodes)?,
    };
    for item in items {
        let item = item.at("read", nodes)?;
        if item.file_name().as_encoded_bytes().starts_with(DOOMED.as_bytes()) {
            remove(&item.path())?;
        }
    }
    Ok(())
}

/// The directories that programs expect in `/var`, and the image store.
fn make_var(var: &Path, images: &BundleLayout) -> Result<(), NativeError> {
    for (name, mode) in [
        ("", 0o755),
        ("cache", 0o755),
        ("lib", 0o755),
        ("lib/kubelet", 0o700),
        ("log", 0o755),
        ("tmp", 0o1777),
    ] {
        make_folder(&var.join(name), mode)?;
    }
    symlink("/run", var.join("run")).at("make", var.join("run"))?;
    store::make(images, &var.join("lib/containerd"))
}

pub(super) fn make_folder(path: &Path, mode: u32) -> Result<(), NativeError> {
    DirBuilder::new().recursive(true).mode(mode).create(path).at("make", path)?;
    // Whatever our umask is.
    fs::set_permissions(path, Permissions::from_mode(mode)).at("make", path)
}

/// Whatever a node has put there.
fn remove(path: &Path) -> Result<(), NativeError> {
    tree::remove(path).at("remove", path)
}

fn uuid() -> io::Result<String> {
    fs::read_to_string("/proc/sys/kernel/random/uuid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_node_that_is_off_are_read_and_its_links_do_not_lead_out() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk { folder: dir.path().join("node") };
        assert_eq!(disk.read("/etc/kubernetes/admin.conf").unwrap(), None);
        fs::create_dir_all(disk.upper().join("etc/kubernetes")).unwrap();
        fs::create_dir_all(disk.var().join("lib/kubelet")).unwrap();
        fs::write(disk.upper().join("etc/kubernetes/admin.conf"), "admin").unwrap();
        fs::write(disk.var().join("lib/kubelet/1.pem"), "certificate").unwrap();
        symlink("/var/lib/kubelet/1.pem", disk.var().join("lib/kubelet/current.pem")).unwrap();
        fs::write(dir.path().join("secret"), "host").unwrap();
        symlink("../../../../secret", disk.upper().join("etc/kubernetes/out.conf")).unwrap();
        let read = |path: &str| disk.read(path).unwrap().map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(read("/etc/kubernetes/admin.conf").as_deref(), Some("admin"));
        assert_eq!(read("/var/lib/kubelet/current.pem").as_deref(), Some("certificate"));
        assert_eq!(read("/etc/kubernetes/out.conf"), None);
        assert_eq!(read("/etc/kubernetes/none.conf"), None);
        assert!(disk.has("/var/lib/kubelet/1.pem").unwrap() && !disk.has("/var/lib/kubelet/2.pem").unwrap());
    }

    #[test]
    fn what_a_killed_run_left_is_made_anew_and_what_is_finished_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let images = BundleLayout::at(dir.path());
        fs::create_dir_all(images.store()).unwrap();
        let disk = Disk { folder: dir.path().join("node") };
        fs::create_dir_all(disk.folder.join("var.unfinished/half")).unwrap();
        fs::write(disk.folder.join(".unfinished-a1b2"), "half").unwrap();
        disk.ensure("abc", "def", &images).unwrap();
        assert!(!disk.var().join("half").exists() && !disk.folder.join(".unfinished-a1b2").exists());
        assert_eq!(disk.bundle().as_deref(), Some("abc"));
        assert_eq!(disk.image_store().unwrap().as_deref(), Some("def"));
        assert_eq!(disk.bundles().unwrap(), ["abc", "def"]);
        let uuid = disk.uuid().unwrap();
        assert_eq!(uuid.len(), 36);
        fs::write(disk.var().join("lib/data"), "kept").unwrap();
        disk.ensure("abc", "ghi", &images).unwrap();
        assert_eq!(disk.image_store().unwrap().as_deref(), Some("def"), "its images stay where they are");
        assert_eq!(fs::read_to_string(disk.var().join("lib/data")).unwrap(), "kept");
        assert_eq!(disk.uuid().unwrap(), uuid);
    }
}
