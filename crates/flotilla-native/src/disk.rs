//! A node's own directory: its `/var` with the image store, its identity.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use flotilla_linux::enter::Files;
use flotilla_spec::NodeName;

use super::error::{At, NativeError};
use super::store;

/// A file with this in it says what the node's root is made from; `bundle remove` respects it.
const BUNDLE: &str = "bundle";
const UUID: &str = "uuid";

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

    /// Removes such a file, if it exists. Not through a symbolic link.
    pub(super) fn remove_file(&self, path: &str) -> io::Result<()> {
        self.files(path)?.map_or(Ok(()), |files| files.remove(Path::new(path)))
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

    /// Makes what is missing: a node of the bundle of this digest, with this image store. A directory that was half made
    /// before is made again.
    pub(super) fn ensure(&self, digest: &str, store: &Path) -> Result<(), NativeError> {
        make_folder(&self.folder, 0o700)?;
        // First: from here on the bundle is in use.
        self.write_once(BUNDLE, || format!("{digest}\n"))?;
        self.write_once(UUID, || uuid().unwrap_or_default())?;
        if !self.var().exists() {
            let unfinished = self.folder.join("var.unfinished");
            remove(&unfinished)?;
            make_var(&unfinished, store)?;
            fs::rename(&unfinished, self.var()).at("make", self.var())?;
        }
        Ok(())
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

    pub(super) fn remove(&self) -> Result<(), NativeError> {
        remove(&self.folder)
    }

    fn write_once(&self, name: &str, text: impl FnOnce() -> String) -> Result<(), NativeError> {
        let path = self.folder.join(name);
        if fs::read_to_string(&path).is_ok_and(|text| !text.trim().is_empty()) {
            return Ok(());
        }
        fs::write(&path, text()).at("write", path)
    }
}

/// The directories that programs expect in `/var`, and the image store.
fn make_var(var: &Path, store: &Path) -> Result<(), NativeError> {
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
    store::link(store, &var.join("lib/containerd"))
}

pub(super) fn make_folder(path: &Path, mode: u32) -> Result<(), NativeError> {
    DirBuilder::new().recursive(true).mode(mode).create(path).at("make", path)?;
    // Whatever our umask is.
    fs::set_permissions(path, Permissions::from_mode(mode)).at("make", path)
}

fn remove(path: &Path) -> Result<(), NativeError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done.at("remove", path),
    }
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
        disk.remove_file("/var/lib/kubelet/1.pem").unwrap();
        disk.remove_file("/var/lib/kubelet/1.pem").unwrap();
        disk.remove_file("/var/lib/none/1.pem").unwrap();
        assert!(!disk.var().join("lib/kubelet/1.pem").exists());
        // A node that links its directory elsewhere does not have a file there removed.
        fs::write(disk.var().join("lib/joined"), "").unwrap();
        symlink("/var/lib", disk.var().join("lib/flotilla")).unwrap();
        assert!(disk.remove_file("/var/lib/flotilla/joined").is_err());
        assert!(disk.var().join("lib/joined").exists());
    }

    #[test]
    fn what_a_killed_run_left_is_made_anew_and_what_is_finished_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        fs::create_dir_all(&store).unwrap();
        let disk = Disk { folder: dir.path().join("node") };
        fs::create_dir_all(disk.folder.join("var.unfinished/half")).unwrap();
        disk.ensure("abc", &store).unwrap();
        assert!(!disk.var().join("half").exists());
        assert_eq!(disk.bundle().as_deref(), Some("abc"));
        let uuid = disk.uuid().unwrap();
        assert_eq!(uuid.len(), 36);
        fs::write(disk.var().join("lib/data"), "kept").unwrap();
        disk.ensure("abc", &store).unwrap();
        assert_eq!(fs::read_to_string(disk.var().join("lib/data")).unwrap(), "kept");
        assert_eq!(disk.uuid().unwrap(), uuid);
    }
}
