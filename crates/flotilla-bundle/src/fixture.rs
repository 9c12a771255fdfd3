//! What the tests of this crate share: directories that go away with the test, and a small bundle.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use flotilla_core::Cancel;
use flotilla_core::Event;
use flotilla_core::layout::SNAPSHOTS;
use flotilla_linux::host::Command;
pub(crate) use flotilla_testkit::directory;

use crate::bundle_store::{Bundle, BundleStore, UNFINISHED};
use crate::manifest::{self, Manifest, Sizes};
use crate::part::Record;
use crate::source::{Component, Provenance};
use crate::{image, inventory};

/// A reporter that keeps all events.
pub(crate) type Events = Mutex<Vec<Event>>;

/// A file of the sample that is in it twice, as one inode.
pub(crate) const SHARED: [&str; 2] = ["rootfs/usr/bin/kubelet", "store/snapshots/1/fs/kubelet"];
/// A file of the sample that varies from build to build.
pub(crate) const DATABASE: &str = "store/io.containerd.metadata.v1.bolt/meta.db";

/// Whether we are root. Says that the test is skipped if not.
pub(crate) fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        flotilla_testkit::skip("it needs root");
    }
    root
}

pub(crate) fn bundle_store(home: &Path) -> BundleStore {
    BundleStore::open(home.to_owned(), Cancel::new()).unwrap()
}

/// Adds a small bundle to the bundle store. Another `content` makes another digest.
pub(crate) fn put_bundle(bundle_store: &BundleStore, kubernetes: &str, content: &str) -> Bundle {
    let _lock = bundle_store.acquire("test", &Events::default()).unwrap();
    let work = bundle_store.bundles().join(format!("{UNFINISHED}sample"));
    write_sample(&work, content);
    bundle_store.add(&work, manifest_of(&work, kubernetes)).unwrap()
}

/// The same, with a container image already unpacked in containerd's directory.
pub(crate) fn put_bundle_with_images(bundle_store: &BundleStore, kubernetes: &str) -> Bundle {
    let _lock = bundle_store.acquire("test", &Events::default()).unwrap();
    let work = bundle_store.bundles().join(format!("{UNFINISHED}sample"));
    write_sample(&work, "kubelet");
    fs::create_dir_all(work.join(SNAPSHOTS).join("1/fs")).unwrap();
    fs::write(work.join(SNAPSHOTS).join("1/fs/pause"), "pause").unwrap();
    bundle_store.add(&work, manifest_of(&work, kubernetes)).unwrap()
}

fn write_sample(root: &Path, content: &str) {
    let files = [
        ("bin/kubectl", 0o755, "kubectl"),
        ("rootfs/etc/hosts", 0o644, "127.0.0.1 localhost\n"),
        ("rootfs/usr/bin/kubelet", 0o755, content),
        ("store/blobs/empty", 0o444, ""),
        (DATABASE, 0o600, "database"),
    ];
    for directory in ["rootfs/tmp", "rootfs/proc", "store/snapshots/1/fs"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    for (path, mode, content) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        set_mode(&path, mode);
    }
    for (path, mode) in [("rootfs/tmp", 0o1777), ("rootfs/proc", 0o555), ("store", 0o700)] {
        set_mode(&root.join(path), mode);
    }
    symlink("usr/bin", root.join("rootfs/bin")).unwrap();
    symlink("../proc/self/mounts", root.join("rootfs/etc/mtab")).unwrap();
    let [first, second] = SHARED.map(|path| root.join(path));
    fs::hard_link(first, second).unwrap();
}

pub(crate) fn manifest_of(root: &Path, kubernetes: &str) -> Manifest {
    let mut manifest = Manifest {
        format: manifest::FORMAT,
        digest: String::new(),
        kubernetes: kubernetes.to_owned(),
        architecture: image::architecture().to_owned(),
        source: "test".into(),
        recipe: "recipe".into(),
        created: "2026-11-05T10:00:00Z".into(),
        imported: false,
        components: Vec::new(),
        images: vec!["registry.k8s.io/pause:3.10.2".into()],
        sizes: Sizes::default(),
        varies: manifest::varying_files(),
        files: inventory::scan(root, |_| ()).unwrap(),
    };
    manifest.digest = manifest.computed_digest();
    manifest
}

/// A finished part without files.
pub(crate) fn put_part(directory: &Path, component: &Component, tools: BTreeMap<String, String>) {
    let record = Record {
        name: component.name.clone(),
        version: component.version.clone(),
        provenance: Provenance::OwnProgram { recipe: String::new() },
        tools,
        files: Vec::new(),
    };
    fs::create_dir_all(directory.join("files")).unwrap();
    fs::write(directory.join("part.json"), serde_json::to_vec(&record).unwrap()).unwrap();
}

/// As small as a checkout of Kubernetes can be: the directories that are looked for, one program, one tag and a commit
/// after it.
pub(crate) fn commit_checkout(directory: &Path, tag: &str) {
    let program = "package main\n\nvar version, gitTreeState = \"none\", \"none\"\n\n\
                   func main() { println(version, gitTreeState) }\n";
    for (path, text) in [
        ("go.mod", "module k8s.io/kubernetes\n\ngo 1.21\n"),
        ("cmd/kubeadm/kubeadm.go", program),
        ("staging/src/k8s.io/component-base/README.md", ""),
    ] {
        let path = directory.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let git = |args: &[&str]| {
        let who = ["-c", "user.name=test", "-c", "user.email=test@example.com"];
        Command::new("git").args(who).args(args).current_dir(directory).run().unwrap();
    };
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "--message", "upstream's"]);
    git(&["tag", tag]);
    git(&["commit", "--quiet", "--allow-empty", "--message", "my own"]);
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Everything below a directory, by path.
pub(crate) fn names_below(root: &Path) -> Vec<String> {
    inventory::scan(root, |_| ()).unwrap().into_iter().map(|entry| entry.path).collect()
}

/// What is directly in a directory, sorted.
pub(crate) fn names_in(directory: &Path) -> Vec<String> {
    let items = fs::read_dir(directory).unwrap().map(|item| item.unwrap().path());
    let mut names: Vec<String> =
        items.map(|path: PathBuf| path.file_name().unwrap().display().to_string()).collect();
    names.sort();
    names
}
