//! An image with a shell, made on the spot: there is no registry to get one from.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// What pods call the image; with `imagePullPolicy: Never`.
pub const BUSYBOX: &str = "flotilla.test/busybox:1";

/// The applets that tests use.
const APPLETS: [&str; 16] = [
    "cat", "dd", "echo", "grep", "head", "httpd", "id", "ls", "nc", "nslookup", "seq", "sh", "sleep", "tail",
    "tr", "wget",
];

/// The OCI archive of [`BUSYBOX`]: one layer with this static busybox and links to it. `ctr images import` takes it.
pub fn busybox(program: &Path) -> Vec<u8> {
    let layer = layer(&fs::read(program).expect("busybox can be read"));
    let config = bytes(&json!({
        "architecture": if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" },
        "os": "linux",
        "config": {"Env": ["PATH=/bin"], "Cmd": ["sh"]},
        "rootfs": {"type": "layers", "diff_ids": [digest(&layer)]},
    }));
    let manifest = bytes(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("config.v1+json", &config),
        "layers": [descriptor("layer.v1.tar", &layer)],
    }));
    let mut entry = descriptor("manifest.v1+json", &manifest);
    entry["annotations"] = json!({"io.containerd.image.name": BUSYBOX});
    let index = bytes(&json!({"schemaVersion": 2, "manifests": [entry]}));

    let mut archive = Archive::new();
    archive.file("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#);
    archive.file("index.json", 0o644, &index);
    for blob in [&config, &manifest, &layer] {
        archive.file(&digest(blob).replacen("sha256:", "blobs/sha256/", 1), 0o644, blob);
    }
    archive.finish()
}

fn layer(busybox: &[u8]) -> Vec<u8> {
    let mut layer = Archive::new();
    for (folder, mode) in [("bin", 0o755), ("etc", 0o755), ("tmp", 0o1777)] {
        layer.folder(folder, mode);
    }
    layer.file("bin/busybox", 0o755, busybox);
    for applet in APPLETS {
        layer.link(&format!("bin/{applet}"), "busybox");
    }
    layer.finish()
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
