//! Images made on the spot: there is no registry to get one from.

use std::fmt::{self, Write};
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// What pods call the image with a shell; with `imagePullPolicy: Never`.
pub const BUSYBOX: &str = "flotilla.test/busybox:1";

/// The applets that tests use.
const APPLETS: [&str; 17] = [
    "cat", "cp", "dd", "echo", "grep", "head", "httpd", "id", "ls", "nc", "nslookup", "seq", "sh", "sleep",
    "tail", "tr", "wget",
];

/// The OCI archive of [`BUSYBOX`]. `ctr images import` takes it.
pub fn busybox(program: &Path) -> Vec<u8> {
    Image::with_shell(program).archive(BUSYBOX)
}

/// An image of one layer in the making.
///
/// ```no_run
/// # use std::path::Path;
/// let mut image = flotilla_testkit::image::Image::with_shell(Path::new("/bin/busybox"));
/// image.program("opt/bin/flanneld", Path::new("/tmp/flanneld"));
/// let archive = image.archive("example.test/flannel:1");
/// ```
pub struct Image(Archive);

impl Image {
    /// One that has this static busybox, with links to it in `/bin`.
    pub fn with_shell(busybox: &Path) -> Self {
        let mut image = Self(Archive::new());
        for (folder, mode) in [("bin", 0o755), ("etc", 0o755), ("tmp", 0o1777)] {
            image.0.folder(folder, mode);
        }
        image.program("bin/busybox", busybox);
        for applet in APPLETS {
            image.0.link(&format!("bin/{applet}"), "busybox");
        }
        image
    }

    /// A program of the host's.
    pub fn program(&mut self, path: &str, program: &Path) {
        self.0.file(path, 0o755, &fs::read(program).expect("a program can be read"));
    }

    /// A directory of the host's with all that is in it, links as links.
    pub fn folder(&mut self, path: &str, folder: &Path) {
        self.0.0.follow_symlinks(false);
        self.0.0.append_dir_all(path, folder).expect("a directory can be read");
    }

    pub fn link(&mut self, path: &str, target: &str) {
        self.0.link(path, target);
    }

    /// The OCI archive under a name.
    pub fn archive(self, name: &str) -> Vec<u8> {
        let layer = self.0.finish();
        let config = bytes(&json!({
            "architecture": if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" },
            "os": "linux",
            "config": {"Env": ["PATH=/usr/sbin:/bin"], "Cmd": ["sh"]},
            "rootfs": {"type": "layers", "diff_ids": [digest(&layer)]},
        }));
        let manifest = bytes(&json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor("config.v1+json", &config),
            "layers": [descriptor("layer.v1.tar", &layer)],
        }));
        let mut entry = descriptor("manifest.v1+json", &manifest);
        entry["annotations"] = json!({"io.containerd.image.name": name});
        let index = bytes(&json!({"schemaVersion": 2, "manifests": [entry]}));

        let mut archive = Archive::new();
        archive.file("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#);
        archive.file("index.json", 0o644, &index);
        for blob in [&config, &manifest, &layer] {
            archive.file(&digest(blob).replacen("sha256:", "blobs/sha256/", 1), 0o644, blob);
        }
        archive.finish()
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image").finish_non_exhaustive()
    }
}

/// A tar in memory, everything in it root's.
struct Archive(tar::Builder<Vec<u8>>);

impl Archive {
    fn new() -> Self {
        Self(tar::Builder::new(Vec::new()))
    }

    fn file(&mut self, path: &str, mode: u32, content: &[u8]) {
        let mut header = header(tar::EntryType::Regular, mode);
        header.set_size(content.len() as u64);
        self.0.append_data(&mut header, path, content).expect("memory takes it");
    }

    fn folder(&mut self, path: &str, mode: u32) {
        let mut header = header(tar::EntryType::Directory, mode);
        self.0.append_data(&mut header, path, std::io::empty()).expect("memory takes it");
    }

    fn link(&mut self, path: &str, target: &str) {
        let mut header = header(tar::EntryType::Symlink, 0o777);
        self.0.append_link(&mut header, path, target).expect("memory takes it");
    }

    fn finish(self) -> Vec<u8> {
        self.0.into_inner().expect("memory takes it")
    }
}

fn header(kind: tar::EntryType, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(0);
    header
}

fn descriptor(kind: &str, content: &[u8]) -> Value {
    let media_type = format!("application/vnd.oci.image.{kind}");
    json!({"mediaType": media_type, "digest": digest(content), "size": content.len()})
}

fn digest(content: &[u8]) -> String {
    let mut text = "sha256:".to_owned();
    for byte in Sha256::digest(content) {
        write!(text, "{byte:02x}").expect("a string takes it");
    }
    text
}

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}
