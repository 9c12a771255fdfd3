//! What is checked before any work.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use flotilla_core::Explain;

use super::*;
use crate::error::Missing;
use crate::fixture::{self, Events};
use crate::lock::Pause;
use crate::manifest::Manifest;
use crate::source::{Provenance, Workplace};

/// A source that lacks what the test says.
#[derive(Default)]
struct Lacking(Vec<Missing>);

impl Source for Lacking {
    fn name(&self) -> &'static str {
        "build"
    }

    fn missing(&self, _: &[Component]) -> Vec<Missing> {
        self.0.clone()
    }

    fn tools(&self, _: &Component) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    fn provide(&self, _: &Component, _: &Parts, _: &Workplace<'_>, _: &Step<'_>) -> Result<Provenance> {
        unreachable!("nothing is built in these tests")
    }
}

fn pause() -> Component {
    let kind = Kind::Pause(Pause { recipe: String::new(), seconds: 1 });
    Component { name: "pause".into(), version: "3.10.2".into(), kind }
}

#[test]
fn versions_are_taken_with_and_without_their_letter() {
    assert_eq!(with_v("1.37.1"), "v1.37.1");
    assert_eq!(with_v("v1.37.1"), "v1.37.1");
}

#[test]
fn an_unknown_version_is_reported_before_anything_is_made() {
    let dir = fixture::directory();
    let home = dir.path().join("home");
    let bundle_store = fixture::bundle_store(&home);
    for version in ["1.2.3", "v1.2.3", "latest", ""] {
        let request = BuildRequest { kubernetes: Some(version.into()), ..BuildRequest::default() };
        let error = bundle_store.ensure(&request, &Events::default()).unwrap_err();
        assert_eq!(error.code().exit_status, 14, "{error}");
        assert_eq!(error.code().name, "BUNDLE_UNKNOWN_VERSION");
        assert!(error.to_string().contains(bundle_store.default_version()), "{error}");
    }
    assert!(!home.exists());
}

#[test]
fn a_directory_without_kubernetes_is_reported_before_anything_is_made() {
    let dir = fixture::directory();
    let home = dir.path().join("home");
    let request = BuildRequest { kubernetes_source: Some(dir.path().to_owned()), ..BuildRequest::default() };
    let error = fixture::bundle_store(&home).ensure(&request, &Events::default()).unwrap_err();
    assert_eq!(error.code().exit_status, 14, "{error}");
    assert!(!home.exists());
}

#[test]
fn a_bundle_made_from_the_same_is_kept_and_nothing_is_changed() {
    let dir = fixture::directory();
    let bundle_store = fixture::bundle_store(dir.path());
    let there = fixture::put_bundle(&bundle_store, bundle_store.default_version(), "a");
    let components = bundle_store.components(&BuildRequest::default()).unwrap();
    let recipe = recipe_of(&components, &Lacking::default());
    let manifest = Manifest { recipe, ..there.manifest };
    fs::write(there.path.join(manifest::FILE), serde_json::to_vec(&manifest).unwrap()).unwrap();
    let before = fixture::names_below(dir.path());
    let made = bundle_store.ensure(&BuildRequest::default(), &Events::default()).unwrap();
    assert_eq!((made.outcome, made.bundle.manifest.digest), (Outcome::Kept, manifest.digest));
    assert_eq!(fixture::names_below(dir.path()), before);
}

#[test]
fn the_recipe_depends_on_every_component() {
    let bundle_store = fixture::bundle_store(Path::new("/nowhere"));
    let components = bundle_store.components(&BuildRequest::default()).unwrap();
    let recipe = |components: &[Component]| recipe_of(components, &Lacking::default());
    assert_eq!(recipe(&components), recipe(&components));
    for index in 0..components.len() {
        let mut changed = components.clone();
        match &mut changed[index].kind {
            Kind::Go { pin, .. } => pin.sum.push('x'),
            Kind::Pause(pause) => pause.recipe.push('x'),
            Kind::Userland(userland) => userland.pins[0].packages[0].sha256.push('x'),
            Kind::Checkout { .. } => unreachable!("a release has no checkout"),
        }
        assert_ne!(recipe(&changed), recipe(&components), "{}", components[index].name);
    }
}

#[test]
fn all_that_the_host_lacks_is_reported_at_once() {
    if !fixture::is_root() {
        return;
    }
    let dir = fixture::directory();
    let lacks = |what: &str| Missing { what: what.into(), cure: format!("install {what}") };
    let source = Lacking(vec![lacks("go"), lacks("gcc")]);
    let error = fixture::bundle_store(dir.path()).check_host(&source, &[pause()]).unwrap_err();
    assert_eq!(error.to_string(), "source 'build' cannot be used on this host: go; gcc");
    assert_eq!(error.code().exit_status, 39);
    assert_eq!(error.hints()[..2], ["install go", "install gcc"]);
    assert!(error.hints()[2].contains("flotilla bundle import"));
}

#[test]
fn a_disk_that_is_too_small_is_reported_with_both_numbers() {
    if !fixture::is_root() {
        return;
    }
    let dir = fixture::directory();
    let bundle_store = fixture::bundle_store(dir.path());
    let source = Lacking::default();
    // No disk has room for so many.
    let error = bundle_store.check_host(&source, &vec![pause(); 50_000]).unwrap_err();
    let BundleError::DiskSpace { needed, free, .. } = error else { panic!("{error}") };
    assert_eq!(needed, SPACE_FOR_BUNDLE + 50_000 * SPACE_FOR_COMPONENT);
    assert!(free > 0);
    assert_eq!(error.code().exit_status, 26);

    let error = BundleError::DiskSpace { path: "/home".into(), needed: 9_000_000_000, free: 1_250_000_000 };
    assert_eq!(error.to_string(), "too little space in /home: 9.0 GB needed, 1.2 GB free");
    assert!(error.hints()[0].contains("FLOTILLA_HOME"));
}

#[test]
fn a_kept_part_needs_no_room() {
    if !fixture::is_root() {
        return;
    }
    let dir = fixture::directory();
    let bundle_store = fixture::bundle_store(dir.path());
    let part = bundle_store.part_cache().directory_of(&pause(), &Lacking::default(), &Parts::default());
    fixture::put_part(&part, &pause(), BTreeMap::new());
    let checked = bundle_store.check_host(&Lacking::default(), &vec![pause(); 50_000]);
    // Whatever is free here: it is not the room for fifty thousand parts that is asked for.
    match checked {
        Ok(()) => {}
        Err(BundleError::DiskSpace { needed, .. }) => assert_eq!(needed, SPACE_FOR_BUNDLE),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn what_a_killed_run_left_counts_as_free() {
    if !fixture::is_root() {
        return;
    }
    let dir = fixture::directory();
    let bundle_store = fixture::bundle_store(dir.path());
    let free = disk::free_bytes(dir.path()).unwrap();
    // Others write and remove files meanwhile: it is short of at least the room for a component.
    let too_many = free.saturating_sub(SPACE_FOR_BUNDLE) / SPACE_FOR_COMPONENT + 2;
    let components = vec![pause(); usize::try_from(too_many).unwrap()];
    let short = SPACE_FOR_BUNDLE + too_many * SPACE_FOR_COMPONENT - free;
    let source = Lacking::default();
    assert!(matches!(bundle_store.check_space(&source, &components, 0), Err(BundleError::DiskSpace { .. })));
    bundle_store.check_space(&source, &components, short + SPACE_FOR_COMPONENT).unwrap();

    let leftovers = || bundle_store.part_cache().leftover_bytes() + bundle_store.leftover_bytes();
    assert_eq!(leftovers(), 0);
    for directory in ["cache/parts/.making-dead", "bundles/.unfinished-dead"] {
        fs::create_dir_all(dir.path().join(directory)).unwrap();
        fs::write(dir.path().join(directory).join("half"), vec![1; 100_000]).unwrap();
    }
    assert!(leftovers() >= 200_000);
}

#[test]
fn the_forecast_counts_what_is_not_there() {
    let dir = fixture::directory();
    let bundle_store = fixture::bundle_store(dir.path());
    let request = BuildRequest::default();
    let all = bundle_store.forecast(&request).unwrap().unwrap();
    assert_eq!(all.kubernetes, bundle_store.default_version());
    let components = bundle_store.components(&request).unwrap();
    let of_components: Duration = components.iter().map(Component::expected).sum();
    assert_eq!(all.time, of_components + Duration::from_secs(19));
    assert_eq!(all.disk, SPACE_FOR_BUNDLE + SPACE_FOR_KUBERNETES + 8 * SPACE_FOR_COMPONENT);

    let source = BuildSource::new(bundle_store.cache(), bundle_store.cancel.clone());
    let kubernetes = component(&components, "kubernetes");
    let part = bundle_store.part_cache().directory_of(kubernetes, &source, &Parts::default());
    fixture::put_part(&part, kubernetes, source.tools(kubernetes));
    let rest = bundle_store.forecast(&request).unwrap().unwrap();
    assert_eq!(rest.time + kubernetes.expected(), all.time);
    assert_eq!(rest.disk + SPACE_FOR_KUBERNETES, all.disk);

    fixture::put_bundle(&bundle_store, bundle_store.default_version(), "kubelet");
    assert_eq!(bundle_store.forecast(&request).unwrap(), None);
    let unknown = BuildRequest { kubernetes: Some("v9.9.9".into()), ..BuildRequest::default() };
    assert_eq!(bundle_store.forecast(&unknown).unwrap_err().code().exit_status, 14);
}

/// The bundle that is taken, of one that exists with the right recipe.
fn taken(imported: bool, source: SourceChoice) -> Option<Origin> {
    let dir = fixture::directory();
    let bundle_store = fixture::bundle_store(dir.path());
    let there = fixture::put_bundle(&bundle_store, bundle_store.default_version(), "kubelet");
    let components = bundle_store.components(&BuildRequest::default()).unwrap();
    let recipe = recipe_of(&components, &Lacking::default());
    let manifest = Manifest { recipe: recipe.clone(), imported, ..there.manifest };
    fs::write(there.path.join(manifest::FILE), serde_json::to_vec(&manifest).unwrap()).unwrap();
    let request = BuildRequest { source, ..BuildRequest::default() };
    bundle_store.kept(&request, &components, &recipe).unwrap().map(|made| made.origin)
}

#[test]
fn an_import_is_not_taken_for_a_build_whatever_it_says() {
    assert_eq!(taken(false, SourceChoice::Build), Some(Origin::Own));
    assert_eq!(taken(false, SourceChoice::Auto), Some(Origin::Own));
    assert_eq!(taken(true, SourceChoice::Build), None);
    assert_eq!(taken(true, SourceChoice::Auto), Some(Origin::Imported));
}

#[test]
fn a_bundle_of_a_version_that_cannot_be_built_here_is_reported_as_foreign() {
    let dir = fixture::directory();
    let bundle_store = fixture::bundle_store(dir.path());
    fixture::put_bundle(&bundle_store, "v1.30.0", "kubelet");
    let request = BuildRequest { kubernetes: Some("1.30.0".into()), ..BuildRequest::default() };
    let made = bundle_store.ensure(&request, &Events::default()).unwrap();
    assert_eq!((made.outcome, made.origin), (Outcome::Kept, Origin::OtherVersion));
}

#[test]
fn a_checkout_takes_the_place_of_kubernetes_and_is_built_each_time() {
    let dir = fixture::directory();
    let checkout = dir.path().join("kubernetes");
    fixture::commit_checkout(&checkout, "v1.36.3");
    let bundle_store = fixture::bundle_store(&dir.path().join("home"));
    let request = BuildRequest { kubernetes_source: Some(checkout), ..BuildRequest::default() };
    let components = bundle_store.components(&request).unwrap();
    let version = &component(&components, "kubernetes").version;
    assert!(version.starts_with("v1.36.3-1+"), "{version}");
    let names = |components: &[Component]| {
        let others = components.iter().filter(|component| component.name != "kubernetes");
        others.map(Component::title).collect::<Vec<_>>()
    };
    let pinned = BuildRequest { kubernetes: Some("v1.36.4".into()), ..BuildRequest::default() };
    assert_eq!(names(&components), names(&bundle_store.components(&pinned).unwrap()));
    // One of that name may be of another state of the directory.
    fixture::put_bundle(&bundle_store, version, "kubelet");
    assert!(bundle_store.kept(&request, &components, "recipe").unwrap().is_none());
}

#[test]
fn a_home_that_cannot_be_written_is_reported_before_what_is_missing() {
    if !fixture::is_root() {
        return;
    }
    let dir = fixture::directory();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let error =
        fixture::bundle_store(&file.join("home")).check_host(&Lacking::default(), &[pause()]).unwrap_err();
    assert_eq!(error.code().exit_status, 37, "{error}");
}
