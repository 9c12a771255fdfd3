//! What is removed, and what is not.

use std::collections::BTreeMap;
use std::fs;

use super::*;
use crate::fixture::{self, Events};
use crate::manifest::{self, ComponentRecord};
use crate::source::Provenance;

/// A home with caches, a bundle, and parts: of the bundle, replaced ones, and those of another release.
struct Lab {
    dir: tempfile::TempDir,
    bundle_store: BundleStore,
}

impl Lab {
    fn new() -> Self {
        let dir = fixture::directory();
        let bundle_store = fixture::bundle_store(dir.path());
        let lab = Self { dir, bundle_store };
        for file in [
            "go/build/00/object",
            "go/mod/example.com/tool@v1.0.0/main.go",
            "go/mod/cache/download/example.com/tool/@v/v1.0.0.zip",
            "go/config/go/telemetry/mode",
            "apt/lists/list",
        ] {
            let file = lab.bundle_store.cache().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, vec![1; 10_000]).unwrap();
        }
        for component in lab.components(lab.bundle_store.default_version()) {
            lab.put_part(&component, "old");
            lab.put_part(&component, "new");
        }
        for component in lab.components("v1.36.4").iter().filter(|component| component.name == "kubernetes") {
            lab.put_part(component, "new");
        }
        let dropped = Component { version: "v1.2.3".into(), ..lab.components("v1.36.4").remove(2) };
        lab.put_part(&dropped, "new");
        lab
    }

    fn components(&self, version: &str) -> Vec<Component> {
        Component::of_release(&self.bundle_store.lock, version).unwrap()
    }

    fn put_part(&self, component: &Component, compiler: &str) {
        let directory = format!("parts/{}-{}-{compiler}", component.name, component.version);
        let tools = BTreeMap::from([("compiler".to_owned(), compiler.to_owned())]);
        fixture::put_part(&self.bundle_store.cache().join(directory), component, tools);
    }

    /// Adds a bundle that was made of the new parts to the bundle store.
    fn put_bundle(&self) {
        let bundle = fixture::put_bundle(&self.bundle_store, self.bundle_store.default_version(), "kubelet");
        let record = |component: Component| ComponentRecord {
            name: component.name,
            version: component.version,
            provenance: Provenance::OwnProgram { recipe: String::new() },
            built_with: BTreeMap::from([("compiler".to_owned(), "new".to_owned())]),
            bytes: 0,
        };
        let components =
            self.components(self.bundle_store.default_version()).into_iter().map(record).collect();
        let manifest = Manifest { components, ..bundle.manifest };
        fs::write(bundle.path.join(manifest::FILE), serde_json::to_vec(&manifest).unwrap()).unwrap();
    }

    fn parts(&self) -> Vec<String> {
        fixture::names_in(&self.bundle_store.cache().join("parts"))
    }

    fn has(&self, path: &str) -> bool {
        self.dir.path().join("cache").join(path).exists()
    }
}

#[test]
fn after_a_build_compiled_sources_and_replaced_parts_are_gone_and_downloads_stay() {
    let lab = Lab::new();
    lab.put_bundle();
    let components = lab.components(lab.bundle_store.default_version());
    lab.bundle_store.clean_after(&components).unwrap();
    for gone in ["go/build", "go/mod/example.com", "go/config"] {
        assert!(!lab.has(gone), "{gone}");
    }
    assert!(lab.has("go/mod/cache/download/example.com/tool/@v/v1.0.0.zip"));
    let parts = lab.parts();
    assert!(parts.iter().all(|name| name.ends_with("-new")), "{parts:?}");
    // An interrupted build of another release goes on from its own.
    assert!(parts.contains(&"kubernetes-v1.36.4-new".to_owned()), "{parts:?}");
    assert!(!parts.contains(&"kubernetes-v1.2.3-new".to_owned()), "{parts:?}");
    assert_eq!(parts.len(), components.len() + 1);
}

#[test]
fn cleaning_leaves_bundles_and_their_parts() {
    if !fixture::is_root() {
        return;
    }
    let lab = Lab::new();
    lab.put_bundle();
    let freed = lab.bundle_store.clean(&Events::default()).unwrap();
    assert!(freed >= 50_000, "{freed}");
    assert_eq!(fixture::names_in(&lab.bundle_store.cache()), ["parts"]);
    assert_eq!(lab.parts().len(), lab.components(lab.bundle_store.default_version()).len());
    assert_eq!(lab.bundle_store.list().unwrap().bundles.len(), 1);
    assert_eq!(lab.bundle_store.clean(&Events::default()).unwrap(), 0);
}

#[test]
fn cleaning_where_nothing_was_ever_built_is_no_error() {
    if !fixture::is_root() {
        return;
    }
    let dir = fixture::directory();
    assert_eq!(fixture::bundle_store(dir.path()).clean(&Events::default()).unwrap(), 0);
}
