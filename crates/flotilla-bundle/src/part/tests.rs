//! Parts are made once, and made again when they must be.

use std::sync::Mutex;

use flotilla_core::{Event, Explain};

use super::*;
use crate::error::Missing;
use crate::fixture::{self, Events};
use crate::lock::{GoComponent, GoPin, Pause};
use crate::source::Kind;

/// A source that writes a file and a link. Tests can change its compiler or let it fail.
#[derive(Default)]
struct Fake {
    compiler: Mutex<String>,
    /// Of C code, in every part it makes, if it has any.
    library: Mutex<String>,
    failing: Mutex<bool>,
    provided: Mutex<u32>,
}

impl Fake {
    fn provided(&self) -> u32 {
        *self.provided.lock().unwrap()
    }
}

impl Source for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn missing(&self, _: &[Component]) -> Vec<Missing> {
        Vec::new()
    }

    fn tools(&self, _: &Component) -> BTreeMap<String, String> {
        BTreeMap::from([("compiler".to_owned(), self.compiler.lock().unwrap().clone())])
    }

    fn provide(&self, _: &Component, _: &Parts, at: &Workplace<'_>, _: &Step<'_>) -> Result<Provenance> {
        *self.provided.lock().unwrap() += 1;
        fs::write(at.scratch.join("object"), "half").unwrap();
        fs::write(at.files.join("program"), "program").unwrap();
        std::os::unix::fs::symlink("program", at.files.join("link")).unwrap();
        let library = self.library.lock().unwrap();
        if !library.is_empty() {
            fs::create_dir(at.files.join("devel")).unwrap();
            fs::write(at.files.join("devel/library.a"), library.as_bytes()).unwrap();
        }
        if *self.failing.lock().unwrap() {
            return Err(BundleError::NotFound { which: "a compiler".into() });
        }
        Ok(Provenance::OwnProgram { recipe: "recipe".into() })
    }
}

fn component(recipe: &str) -> Component {
    let kind = Kind::Pause(Pause { recipe: recipe.into(), seconds: 1 });
    Component { name: "pause".into(), version: "1.0".into(), kind }
}

struct Lab {
    directory: TempDir,
    source: Fake,
    events: Events,
}

impl Lab {
    fn new() -> Self {
        Self { directory: fixture::directory(), source: Fake::default(), events: Events::default() }
    }

    fn cache(&self) -> PartCache {
        PartCache::new(self.directory.path().join("parts"))
    }

    fn ensure(&self, recipe: &str) -> Result<Parts> {
        let mut parts = Parts::default();
        self.cache().ensure(&component(recipe), &self.source, &mut parts, &self.events)?;
        Ok(parts)
    }

    fn warned(&self) -> bool {
        self.events.lock().unwrap().iter().any(|event| matches!(event, Event::Warning { .. }))
    }

    /// Names in the cache.
    fn names(&self) -> Vec<String> {
        let items = fs::read_dir(self.directory.path().join("parts")).unwrap().flatten();
        items.map(|item| item.file_name().to_string_lossy().into_owned()).collect()
    }
}

#[test]
fn a_part_is_made_once_and_kept() {
    let lab = Lab::new();
    let to_make = || lab.cache().to_make(&[component("a")], &lab.source).len();
    assert_eq!(to_make(), 1);
    lab.ensure("a").unwrap();
    let parts = lab.ensure("a").unwrap();
    assert_eq!(lab.source.provided(), 1);
    assert_eq!(to_make(), 0);
    assert_eq!(fs::read_to_string(parts.get("pause").path("link")).unwrap(), "program");
    let events = lab.events.lock().unwrap();
    let kept = |event: &Event| matches!(event, Event::StepDone { outcome: Outcome::Kept, .. });
    assert_eq!(events.iter().filter(|event| kept(event)).count(), 1);
}

#[test]
fn another_recipe_or_compiler_makes_another_part_beside_the_first() {
    let lab = Lab::new();
    lab.ensure("a").unwrap();
    lab.ensure("b").unwrap();
    assert_eq!(lab.source.provided(), 2);
    *lab.source.compiler.lock().unwrap() = "2.0".into();
    lab.ensure("a").unwrap();
    assert_eq!(lab.source.provided(), 3);
    assert_eq!(lab.names().len(), 3);
}

#[test]
fn a_part_of_another_compiler_or_library_is_one_that_has_to_be_made() {
    let lab = Lab::new();
    let components =
        [Component { name: "userland".into(), ..component("a") }, go("runc", true), go("etcd", false)];
    let to_make = || {
        let names =
            lab.cache().to_make(&components, &lab.source).into_iter().map(|component| component.name.clone());
        names.collect::<Vec<_>>()
    };
    assert_eq!(to_make(), ["userland", "runc", "etcd"]);
    let mut parts = Parts::default();
    for component in &components {
        lab.cache().ensure(component, &lab.source, &mut parts, &lab.events).unwrap();
    }
    assert_eq!(to_make(), [""; 0]);
    *lab.source.compiler.lock().unwrap() = "2.0".into();
    assert_eq!(to_make(), ["userland", "runc", "etcd"]);
}

#[test]
fn a_damaged_part_is_made_again_with_a_warning() {
    let lab = Lab::new();
    let parts = lab.ensure("a").unwrap();
    fs::write(parts.get("pause").path("program"), "virus").unwrap();
    let parts = lab.ensure("a").unwrap();
    assert_eq!(fs::read_to_string(parts.get("pause").path("program")).unwrap(), "program");
    assert!(lab.warned());
    assert_eq!(lab.source.provided(), 2);
}

#[test]
fn a_failed_part_leaves_nothing_and_the_next_try_makes_it() {
    let lab = Lab::new();
    *lab.source.failing.lock().unwrap() = true;
    let error = lab.ensure("a").unwrap_err();
    assert_eq!(error.to_string(), "cannot build pause 1.0");
    assert_eq!(lab.names(), Vec::<String>::new());
    *lab.source.failing.lock().unwrap() = false;
    lab.ensure("a").unwrap();
    assert!(!lab.warned());
}

#[test]
fn what_a_killed_run_left_is_swept_and_nothing_else() {
    let lab = Lab::new();
    lab.ensure("a").unwrap();
    fs::create_dir_all(lab.directory.path().join("parts/.making-dead/scratch")).unwrap();
    lab.cache().sweep().unwrap();
    assert_eq!(lab.names().len(), 1);
    assert!(lab.names()[0].starts_with("pause-1.0-"));
    PartCache::new(lab.directory.path().join("not there")).sweep().unwrap();
}

#[test]
fn a_part_depends_on_content_only_and_holds_nothing_of_its_making() {
    let lab = Lab::new();
    let part = lab.ensure("a").unwrap().get("pause").clone();
    let metadata = fs::metadata(part.path("program")).unwrap();
    assert_eq!(metadata.modified().unwrap(), std::time::SystemTime::UNIX_EPOCH);
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o644);
    let names: Vec<&str> = part.record.files.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(names, ["link", "program"]);
    assert!(!part.path("../scratch").exists());
}

#[test]
fn whatever_is_wrong_with_a_kept_part_it_is_made_again() {
    let damage: [fn(&Path); 4] = [
        |part| fs::remove_file(part.join("files/link")).unwrap(),
        |part| fs::write(part.join("files/extra"), "").unwrap(),
        |part| fs::write(part.join(RECORD), "{").unwrap(),
        |part| fs::remove_dir_all(part.join(FILES)).unwrap(),
    ];
    for damage in damage {
        let lab = Lab::new();
        lab.ensure("a").unwrap();
        damage(&lab.directory.path().join("parts").join(&lab.names()[0]));
        lab.ensure("a").unwrap();
        assert!(lab.warned());
        lab.ensure("a").unwrap();
        assert_eq!(lab.source.provided(), 2);
    }
}

fn go(name: &str, cgo: bool) -> Component {
    let how = GoComponent {
        module: format!("example.com/{name}"),
        programs: Vec::new(),
        rename: BTreeMap::new(),
        tags: Vec::new(),
        cgo,
        stamp: BTreeMap::new(),
        seconds: 1,
        versions: BTreeMap::new(),
    };
    let pin = GoPin { sum: "h1:x".into(), recipe: "r".into(), date: "2026-11-05T10:00:00Z".into() };
    Component { name: name.into(), version: "v1.0.0".into(), kind: Kind::Go { how, pin } }
}

#[test]
fn a_part_that_links_the_userlands_library_is_made_again_when_that_changes() {
    let lab = Lab::new();
    // How many parts are made, of three, with a userland of this name and this library in it.
    let made = |userland: &str, library: &str| {
        let before = lab.source.provided();
        *lab.source.library.lock().unwrap() = library.into();
        let mut parts = Parts::default();
        let userland = Component { name: "userland".into(), ..component(userland) };
        for component in [userland, go("runc", true), go("etcd", false)] {
            lab.cache().ensure(&component, &lab.source, &mut parts, &lab.events).unwrap();
        }
        lab.source.provided() - before
    };
    assert_eq!(made("one", "library"), 3);
    assert_eq!(made("two", "library"), 1, "only the userland");
    assert_eq!(made("three", "another"), 2, "the userland and runc");
}

#[test]
fn a_recipe_that_is_not_the_locks_is_refused() {
    let files = [recipe::RecipeFile { name: "pause.c".into(), bytes: b"int main;".into() }];
    let digest = recipe::digest(&files);
    check_recipe(&component("r"), &files, &digest).unwrap();
    let error = check_recipe(&component("r"), &files, "other").unwrap_err();
    assert_eq!(error.code().exit_status, 40);
    let BundleError::Checksum { component, expected, actual, .. } = error else { panic!("{error}") };
    assert_eq!((component.as_str(), expected.as_str(), actual), ("pause 1.0", "other", digest));
}
