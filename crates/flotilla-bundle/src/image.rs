//! The images that kubeadm asks for, made from the parts.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use flotilla_core::Cancel;
use flotilla_linux::host::Command;
use serde_json::{Value, json};

use crate::elf;
use crate::error::{At, BundleError, Result};
use crate::hash;
use crate::part::Parts;
use crate::recipe;
use crate::rootfs::IPTABLES;
use crate::tree::Tree;

/// A file of `bundle/rootfs` that images have, too.
const PROTOCOLS: &str = "etc/protocols";

/// An image in the making: a name as kubeadm prints it, one layer, and how it is run.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) name: String,
    layer: Tree,
    entrypoint: Vec<String>,
    user: Option<&'static str>,
}

/// The names of all images that this kubeadm will ask for, sorted.
pub(crate) fn names_wanted(parts: &Parts, version: &str, cancel: &Cancel) -> Result<Vec<String>> {
    let kubeadm = parts.get("kubernetes").path("kubeadm");
    // With the version given it does not ask the internet for the newest one.
    let list = Command::new(kubeadm)
        .args(["config", "images", "list", "--kubernetes-version", version])
        .current_dir("/")
        .cancel(cancel)
        .run()?;
    let mut names: Vec<String> = list.text().lines().map(str::to_owned).collect();
    names.sort();
    Ok(names)
}

/// The name among them that stands for the sandbox of every pod.
pub(crate) fn pause_name(names: &[String]) -> &str {
    names.iter().find(|name| repository(name) == "pause").map_or("registry.k8s.io/pause", String::as_str)
}

impl Image {
    /// Puts together what the name stands for. The versions kubeadm wants must be those of the parts.
    pub(crate) fn compose(name: &str, parts: &Parts) -> Result<Self> {
        let version = &parts.get("kubernetes").record.version;
        let refuse =
            |reason: String| BundleError::Image { version: version.clone(), image: name.into(), reason };
        let mut layer = Tree::default();
        let (part, tag, entrypoint, user) = match repository(name) {
            program @ ("kube-apiserver" | "kube-controller-manager" | "kube-scheduler" | "kube-proxy") => {
                base(&mut layer, parts);
                if program == "kube-proxy" {
                    packet_filter(&mut layer, parts)?;
                }
                let path = format!("/usr/local/bin/{program}");
                layer.file(&path, parts.get("kubernetes").path(program));
                ("kubernetes", version.replace('+', "_"), path, None)
            }
            "etcd" => {
                base(&mut layer, parts);
                for program in ["etcd", "etcdctl", "etcdutl"] {
                    layer.file(format!("/usr/local/bin/{program}"), parts.get("etcd").path(program));
                }
                let built = parts.get("etcd").record.version.trim_start_matches('v').to_owned();
                ("etcd", format!("{built}-0"), "/usr/local/bin/etcd".into(), None)
            }
            "coredns" => {
                base(&mut layer, parts);
                layer.file("/coredns", parts.get("coredns").path("coredns"));
                ("coredns", parts.get("coredns").record.version.clone(), "/coredns".into(), None)
            }
            "pause" => {
                layer.file("/pause", parts.get("pause").path("pause"));
                ("pause", parts.get("pause").record.version.clone(), "/pause".into(), Some("65535:65535"))
            }
            _ => return Err(refuse("no component makes it".into())),
        };
        match name.rsplit_once(':') {
            Some((_, wanted)) if wanted == tag => {}
            _ => return Err(refuse(format!("the lock file has {part} {tag} for this release"))),
        }
        Ok(Self { name: name.to_owned(), layer, entrypoint: vec![entrypoint], user })
    }

    /// Writes the image as a tar in the OCI layout: the same bytes for the same content.
    pub(crate) fn write_archive(&self, path: &Path) -> Result<()> {
        let layer_file = path.with_extension("layer");
        let out = File::create(&layer_file).at("write", &layer_file)?;
        self.layer.write_layer(std::io::BufWriter::with_capacity(1 << 20, out))?;
        let layer_digest = hash::of_file(&layer_file).at("read", &layer_file)?;
        let layer_size = layer_file.metadata().at("read", &layer_file)?.len();

        let mut settings = json!({
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "Entrypoint": self.entrypoint,
        });
        if let Some(user) = self.user {
            settings["User"] = user.into();
        }
        let config = bytes(&json!({
            "architecture": architecture(),
            "os": "linux",
            "config": settings,
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer_digest}")]},
        }));
        let layer = descriptor("layer.v1.tar", &layer_digest, layer_size);
        let manifest = bytes(&json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor("config.v1+json", &hash::of_bytes(&config), config.len() as u64),
            "layers": [layer],
        }));
        let mut entry = descriptor("manifest.v1+json", &hash::of_bytes(&manifest), manifest.len() as u64);
        entry["annotations"] = json!({"io.containerd.image.name": self.name});
        let index = bytes(&json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [entry],
        }));

        let mut archive = Tree::default();
        archive.text("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#);
        archive.text("index.json", index);
        for blob in [config, manifest] {
            archive.text(blob_path(&hash::of_bytes(&blob)), blob);
        }
        archive.file(blob_path(&layer_digest), &layer_file);
        let mut out = File::create(path).at("write", path)?;
        archive.write_layer(&mut out)?;
        out.flush().at("write", path)?;
        std::fs::remove_file(&layer_file).at("remove", &layer_file)
    }
}

/// What programs expect of any root: a place for temporary files, and trusted certificates.
fn base(layer: &mut Tree, parts: &Parts) {
    layer.dir("/tmp", 0o1777);
    layer.dir("/var/run", 0o755);
    let certificates = "etc/ssl/certs/ca-certificates.crt";
    layer.file(certificates, parts.get("userland").path("root").join(certificates));
}

/// Everything that nft and iptables need: plugins are loaded by name, so all of them.
fn packet_filter(layer: &mut Tree, parts: &Parts) -> Result<()> {
    let userland = parts.get("userland");
    let root = userland.path("root");
    let plugins = format!("root/usr/lib/{}/xtables/", elf::multiarch());
    let mut files: Vec<PathBuf> = vec!["usr/sbin/nft".into(), "usr/sbin/xtables-nft-multi".into()];
    files.extend(userland.record.files.iter().filter(|entry| entry.path.starts_with(&plugins)).map(
        |entry| {
            let inside = entry.path.strip_prefix("root/").unwrap_or(&entry.path);
            PathBuf::from(inside)
        },
    ));
    let programs: Vec<PathBuf> = files.iter().filter(|file| !root.join(file).is_symlink()).cloned().collect();
    files.extend(elf::libraries(&root, programs)?);
    for file in files {
        let source = root.join(&file);
        if source.is_symlink() {
            layer.link(&file, std::fs::read_link(&source).at("read", &source)?);
        } else {
            layer.file(&file, source);
        }
    }
    for name in IPTABLES {
        layer.link(format!("/usr/sbin/{name}"), "xtables-nft-multi");
    }
    // Without the names of protocols nft prints their numbers. kube-proxy then does not recognize its own services in nft's
    // output, and removes them at every full sync: once an hour, and when a node's zone changes.
    let protocols = recipe::rootfs().into_iter().find(|file| file.name == PROTOCOLS);
    let protocols = protocols.expect("bundle/rootfs has etc/protocols");
    layer.text(protocols.name, protocols.bytes);
    for name in ["lib", "lib64", "sbin"] {
        layer.link(name, format!("usr/{name}"));
    }
    Ok(())
}

/// `registry.k8s.io/coredns/coredns:v1.14.6` is `coredns`.
fn repository(name: &str) -> &str {
    let last = name.rsplit('/').next().unwrap_or(name);
    last.split(':').next().unwrap_or(last)
}

fn blob_path(digest: &str) -> String {
    format!("blobs/sha256/{digest}")
}

fn descriptor(kind: &str, digest: &str, size: u64) -> Value {
    let media_type = format!("application/vnd.oci.image.{kind}");
    json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": size})
}

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// Go's name for this machine's processor.
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_protocols_are_there_for_the_packet_filter() {
        let protocols = recipe::rootfs().into_iter().find(|file| file.name == PROTOCOLS).unwrap();
        let text = String::from_utf8(protocols.bytes).unwrap();
        assert!(["tcp\t6\t", "udp\t17\t", "sctp\t132\t"].iter().all(|line| text.contains(line)), "{text}");
    }

    #[test]
    fn the_repository_is_the_last_part_of_the_name() {
        assert_eq!(repository("registry.k8s.io/coredns/coredns:v1.14.6"), "coredns");
        assert_eq!(repository("registry.k8s.io/pause:3.10.2"), "pause");
        assert_eq!(repository("localhost:5000/etcd"), "etcd");
    }
}
