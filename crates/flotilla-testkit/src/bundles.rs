//! Bundles that are made up.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use flotilla_bundle::hash;
use flotilla_bundle::inventory::{Entry, Kind};
use flotilla_bundle::manifest::{ComponentRecord, Manifest, Sizes, Varies};
use flotilla_bundle::source::{DebianPackage, Provenance};
use sha2::{Digest, Sha256};

/// The Kubernetes version of [`tiny`]: none that can be built.
pub const TINY_VERSION: &str = "v1.30.0";

/// What is in the tiny bundle.
enum Thing {
    Folder(u32),
    File(u32, &'static str),
    /// The same file as this one.
    Again(u32, &'static str),
    Link(&'static str),
}

const KUBECTL: &str = "#!/bin/sh\necho made up\n";
const DATABASE: &str = "store/io.containerd.metadata.v1.bolt/meta.db";
const THINGS: [(&str, Thing); 10] = [
    ("bin", Thing::Folder(0o755)),
    ("bin/kubectl", Thing::File(0o755, KUBECTL)),
    ("rootfs", Thing::Folder(0o755)),
    ("rootfs/bin", Thing::Link("usr/bin")),
    ("rootfs/usr", Thing::Folder(0o755)),
    ("rootfs/usr/bin", Thing::Folder(0o755)),
    ("rootfs/usr/bin/kubectl", Thing::Again(0o755, "bin/kubectl")),
    ("store", Thing::Folder(0o700)),
    ("store/io.containerd.metadata.v1.bolt", Thing::Folder(0o711)),
    (DATABASE, Thing::File(0o644, "not a database")),
];

/// Puts a small but whole bundle into a state directory. Gives its digest, which is always the same.
pub fn tiny(state: &Path) -> String {
    let bundle_store = state.join("bundles");
    let work = bundle_store.join("tiny");
    fs::create_dir_all(&work).expect("the directory of a bundle");
    let files: Vec<Entry> = THINGS.iter().map(|(path, thing)| make(&work, path, thing)).collect();
    let within = |folder: &str| files.iter().filter(|file| file.path.starts_with(folder)).map(size_of).sum();
    let mut manifest = Manifest {
        format: 1,
        digest: String::new(),
        kubernetes: TINY_VERSION.into(),
        architecture: flotilla_bundle::architecture().into(),
        source: "build".into(),
        recipe: "made up".into(),
        created: "2026-11-05T10:00:00Z".into(),
        imported: false,
        components: components(),
        images: vec!["registry.k8s.io/kube-apiserver:v1.30.0".into(), "registry.k8s.io/pause:3.9".into()],
        // More than there is, but every size should be seen.
        sizes: Sizes { bin: within("bin/"), rootfs: 431_000_000, store: 507_000_000, on_disk: 900_000_000 },
        varies: vec![Varies { path: DATABASE.into(), why: "it notes when it was made".into() }],
        files,
    };
    manifest.digest = manifest.computed_digest();
    let text = serde_json::to_vec(&manifest).expect("a manifest is plain data");
    fs::write(work.join("manifest.json"), text).expect("the manifest");
    fs::rename(&work, bundle_store.join(&manifest.digest)).expect("a bundle that was not there before");
    manifest.digest
}

/// Says in a state directory that a node is made from a bundle.
pub fn use_in_node(state: &Path, cluster: &str, node: &str, digest: &str) {
    let folder = state.join("clusters").join(cluster).join("nodes").join(node);
    fs::create_dir_all(&folder).expect("the directory of a node");
    fs::write(folder.join("bundle"), format!("{digest}\n")).expect("the bundle of a node");
}

fn make(root: &Path, path: &str, thing: &Thing) -> Entry {
    let at = root.join(path);
    let file = |mode, content: &str| Kind::File {
        mode,
        size: content.len() as u64,
        sha256: hash::hex(&Sha256::digest(content)),
    };
    let (made, kind) = match thing {
        Thing::Folder(mode) => (fs::create_dir(&at), Kind::Dir { mode: *mode }),
        Thing::File(mode, content) => (fs::write(&at, content), file(*mode, content)),
        Thing::Again(mode, first) => (fs::hard_link(root.join(first), &at), file(*mode, KUBECTL)),
        Thing::Link(target) => (symlink(target, &at), Kind::Link { target: (*target).into() }),
    };
    made.expect("a file of a bundle");
    if let Kind::Dir { mode } | Kind::File { mode, .. } = kind {
        fs::set_permissions(&at, fs::Permissions::from_mode(mode)).expect("the mode of a file");
    }
    Entry { path: path.into(), kind }
}

fn size_of(entry: &Entry) -> u64 {
    if let Kind::File { size, .. } = entry.kind { size } else { 0 }
}

/// One from each place where a component can come from.
fn components() -> Vec<ComponentRecord> {
    let package = |name: &str, pinned| DebianPackage {
        name: name.into(),
        version: "1.0-1".into(),
        sha256: hash::hex(&Sha256::digest(name)),
        pinned,
    };
    let kubernetes =
        Provenance::GoModule { module: "k8s.io/kubernetes@v1.30.0".into(), sum: "h1:made-up=".into() };
    let pause = Provenance::OwnProgram { recipe: "made up".into() };
    let userland = Provenance::Debian { packages: vec![package("bash", true), package("mount", false)] };
    let record = |name: &str, version: &str, provenance, bytes| ComponentRecord {
        name: name.into(),
        version: version.into(),
        provenance,
        built_with: BTreeMap::from([("arch".to_owned(), std::env::consts::ARCH.to_owned())]),
        bytes,
    };
    vec![
        record("kubernetes", TINY_VERSION, kubernetes, 613_311_346),
        record("pause", "3.9", pause, 686_704),
        record("userland", "debian", userland, 48_000_000),
    ]
}
