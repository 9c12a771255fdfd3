//! The image store: a containerd root with every image imported and unpacked, made by containerd itself.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flotilla_core::Cancel;
use flotilla_core::Unit;
use flotilla_core::event::Step;
use flotilla_linux::host::Command;
use flotilla_linux::poll;
use flotilla_linux::sandbox::{self, Bind, Spec};

use crate::error::{At, BundleError, Result};
use crate::image::Image;
use crate::inventory::Kind;
use crate::part::Parts;
use crate::{hash, tree};

/// Where containerd keeps what it knows of images and snapshots, with the times at which it learnt it.
pub(crate) const DATABASES: [&str; 2] =
    ["io.containerd.metadata.v1.bolt/meta.db", "io.containerd.snapshotter.v1.overlayfs/metadata.db"];
/// What only a running containerd needs and makes for itself.
const RUNTIME_ONLY: [&str; 4] =
    ["io.containerd.grpc.v1.introspection", "io.containerd.content.v1.content/ingest", "tmpmounts", "opt"];
/// containerd ends when its standard input does: whoever holds the other end is gone, or done. The modes of its directories
/// are part of the digest, so they must not depend on the user's umask.
const SERVE: &str = "umask 022; containerd --log-level=warn & c=$!; read -r _; kill $c; wait $c";
const READY_WITHIN: Duration = Duration::from_secs(30);

/// The directories that a store is made with.
#[derive(Debug)]
pub(crate) struct Folders<'a> {
    /// Whose containerd it is.
    pub(crate) rootfs: &'a Path,
    /// Empty; becomes the store.
    pub(crate) store: &'a Path,
    /// For the socket, and for one image at a time, packed.
    pub(crate) work: &'a Path,
}

/// Makes the store.
pub(crate) fn make(
    images: &[Image],
    parts: &Parts,
    directories: &Folders<'_>,
    cancel: &Cancel,
    step: &Step<'_>,
) -> Result<()> {
    let &Folders { rootfs, store, work } = directories;
    let run = work.join("run");
    let scratch = work.join("scratch");
    for directory in [&run, &scratch] {
        fs::create_dir(directory).at("make", directory)?;
    }
    let bind =
        |source: &Path, target: &str| Bind { source: source.into(), target: target.into(), read_only: false };
    let spec = Spec {
        root: rootfs.to_owned(),
        scratch,
        binds: vec![bind(store, "/var/lib/containerd"), bind(&run, "/run/containerd")],
        hostname: "bundle".into(),
        cgroup: None,
        argv: ["/bin/sh", "-c", SERVE].map(str::to_owned).into(),
        env: Vec::new(),
    };
    let (stdin, stays_open) = io::pipe().at("open", Path::new("a pipe"))?;
    std::thread::scope(|scope| {
        let server =
            scope.spawn(|| sandbox::command(&spec).stdin(OwnedFd::from(stdin).into()).cancel(cancel).run());
        let client = Client { ctr: parts.get("containerd").path("ctr"), run: &run, cancel };
        let imported = client
            .wait_until_ready(|| server.is_finished())
            .and_then(|()| client.import_all(images, work, step));
        drop(stays_open);
        let ended = server.join().expect("the thread that runs containerd does not panic");
        // containerd's own end explains more than the failure to talk to it.
        ended?;
        imported
    })?;
    for path in RUNTIME_ONLY.map(|path| store.join(path)) {
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error).at("remove", &path),
            _ => {}
        }
    }
    share_files(store, parts)
}

/// containerd's own client, from outside its namespaces.
struct Client<'a> {
    ctr: PathBuf,
    /// The directory with the socket.
    run: &'a Path,
    cancel: &'a Cancel,
}

impl Client<'_> {
    fn ctr(&self) -> Command {
        Command::new(&self.ctr)
            // A socket's path has 107 bytes at the most, and a state directory may be anywhere.
            .current_dir(self.run)
            .args(["--address", "/proc/self/cwd/containerd.sock"])
            // What the kubelet's runtime interface looks into.
            .args(["--namespace", "k8s.io"])
            .cancel(self.cancel)
    }

    /// containerd needs a moment to open its socket.
    fn wait_until_ready(&self, ended: impl Fn() -> bool) -> Result<()> {
        poll::until(READY_WITHIN, || self.ctr().arg("version").run(), |_| ended())?;
        Ok(())
    }

    /// One image after the other, so that snapshots are numbered the same way each time.
    fn import_all(&self, images: &[Image], work: &Path, step: &Step<'_>) -> Result<()> {
        for (done, image) in (0..).zip(images) {
            step.progress(done, Some(images.len() as u64), Unit::Images, &image.name);
            let archive = work.join("image.tar");
            image.write_archive(&archive)?;
            self.ctr()
                .args(["images", "import", "--local", "--discard-unpacked-layers"])
                .arg(&archive)
                .run()?;
            fs::remove_file(&archive).at("remove", &archive)?;
        }
        self.wait_until_known(images)?;
        // Layers are unpacked: without this they would stay until the first node's garbage collection.
        self.ctr().args(["content", "prune", "references"]).run()?;
        Ok(())
    }

    /// Waits until containerd's runtime interface has taken note of every image.
    fn wait_until_known(&self, images: &[Image]) -> Result<()> {
        let all_known = || {
            let list = self.ctr().args(["images", "list"]).run()?.text();
            let known: Vec<&str> = list
                .lines()
                .filter(|line| line.contains("io.cri-containerd.image=managed"))
                .filter_map(|line| line.split_whitespace().next())
                .collect();
            match images.iter().find(|image| !known.contains(&image.name.as_str())) {
                None => Ok(()),
                Some(image) => Err(BundleError::NotImported { image: image.name.clone() }),
            }
        };
        poll::until(READY_WITHIN, all_known, |error| !matches!(error, BundleError::NotImported { .. }))
    }
}

/// Replaces unpacked files by hard links to the parts they came from, so that no byte exists twice.
fn share_files(store: &Path, parts: &Parts) -> Result<()> {
    let mut known = HashMap::new();
    for part in parts.iter() {
        for entry in &part.record.files {
            if let Kind::File { mode, size, sha256 } = &entry.kind {
                known.entry((*size, *mode, sha256.clone())).or_insert_with(|| part.path(&entry.path));
            }
        }
    }
    for item in walkdir::WalkDir::new(store) {
        let item = item.map_err(io::Error::from).at("read", store)?;
        if !item.file_type().is_file() {
            continue;
        }
        let path = item.path();
        let metadata = item.metadata().map_err(io::Error::from).at("read", path)?;
        let mode = metadata.mode() & 0o7777;
        if !known.keys().any(|(size, known_mode, _)| *size == metadata.len() && *known_mode == mode) {
            continue;
        }
        let sha256 = hash::of_file(path).at("read", path)?;
        if let Some(original) = known.get(&(metadata.len(), mode, sha256)) {
            fs::remove_file(path).at("replace", path)?;
            tree::link_or_copy(original, path).at("replace", path)?;
        }
    }
    Ok(())
}
