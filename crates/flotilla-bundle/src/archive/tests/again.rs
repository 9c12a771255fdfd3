//! Importing and building what exists already, and exporting to a file that another command is writing.

use std::sync::Once;

use super::forgery::Forgery;
use super::*;
use crate::fixture::DATABASE;
use crate::manifest::Manifest;

/// A home that has the sample, built there.
fn built() -> (Place, Bundle) {
    let place = Place::new(&exported("kubelet").0);
    let bundle = fixture::put_bundle(&place.bundle_store, "v1.37.1", "kubelet");
    (place, bundle)
}

#[test]
fn importing_over_a_damaged_bundle_repairs_it() {
    if !fixture::is_root() {
        return;
    }
    let damage: [fn(&Path); 8] = [
        |bundle| fs::write(bundle.join(SHARED[0]), "kubeleT").unwrap(),
        |bundle| fs::remove_file(bundle.join("bin/kubectl")).unwrap(),
        |bundle| fs::remove_dir_all(bundle.join("rootfs")).unwrap(),
        |bundle| fs::write(bundle.join("rootfs/virus"), "virus").unwrap(),
        |bundle| fixture::set_mode(&bundle.join("rootfs/tmp"), 0o700),
        |bundle| fs::write(bundle.join(DATABASE), "torn").unwrap(),
        |bundle| fs::write(bundle.join("manifest.json"), "{").unwrap(),
        |bundle| {
            fs::remove_file(bundle.join("rootfs/bin")).unwrap();
            fs::create_dir(bundle.join("rootfs/bin")).unwrap();
            fs::write(bundle.join("rootfs/bin/sh"), "virus").unwrap();
        },
    ];
    for (number, damage) in damage.iter().enumerate() {
        let (place, bundle) = built();
        let untouched = inode(&bundle.path.join("rootfs/etc"));
        damage(&bundle.path);
        let imported = place.import().unwrap();
        place
            .bundle_store
            .verify(&imported, &Events::default())
            .unwrap_or_else(|error| panic!("{number}: {error}"));
        assert_eq!(imported.path, bundle.path);
        let is_gone = number == 2;
        // Nodes may be running from what is whole.
        assert!(is_gone || inode(&bundle.path.join("rootfs/etc")) == untouched, "{number}");
    }
}

#[test]
fn an_import_changes_nothing_of_a_bundle_that_was_built_here() {
    if !fixture::is_root() {
        return;
    }
    let (place, bundle) = built();
    let forged = Forgery::new().listing_unsigned(|manifest| manifest.recipe = "forged".into());
    place.bring(&forged.pack());
    let kept = place.import().unwrap();
    assert_eq!((kept.manifest.recipe.as_str(), kept.manifest.imported), ("recipe", false));
    assert_eq!(Manifest::load(&bundle.path).unwrap().recipe, "recipe");
}

#[test]
fn a_build_takes_the_place_of_an_import_with_its_databases() {
    if !fixture::is_root() {
        return;
    }
    let place = Place::new(&exported("kubelet").0);
    let imported = place.import().unwrap();
    assert!(imported.manifest.imported);
    // The digest says nothing about it: an archive may bring any.
    let database = imported.path.join(DATABASE);
    fs::write(&database, "forgery!").unwrap();
    let bundle = fixture::put_bundle(&place.bundle_store, "v1.37.1", "kubelet");
    assert_eq!(bundle.path, imported.path);
    assert_eq!(fs::read_to_string(&database).unwrap(), "database");
    assert!(!Manifest::load(&bundle.path).unwrap().imported);
    place.bundle_store.verify(&bundle, &Events::default()).unwrap();
}

#[test]
fn an_archive_cannot_say_that_it_was_built_here() {
    if !fixture::is_root() {
        return;
    }
    let (archive, _) = exported("kubelet");
    let place = Place::new(&archive);
    let imported = place.import().unwrap();
    assert!(imported.manifest.imported && Manifest::load(&imported.path).unwrap().imported);
    // Nor does it carry on what this machine noted.
    let again = place.dir.path().join("again.tar.zst");
    place.bundle_store.export(&imported, &again, &Events::default()).unwrap();
    assert_eq!(fs::read(again).unwrap(), archive);
}

/// Exports to the same file while the export that it listens to is under way.
struct ExportAtProgress<'a> {
    bundle_store: &'a BundleStore,
    bundle: &'a Bundle,
    file: &'a Path,
    once: Once,
}

impl Reporter for ExportAtProgress<'_> {
    fn report(&self, event: Event) {
        if matches!(event, Event::StepProgress { .. }) {
            self.once
                .call_once(|| self.bundle_store.export(self.bundle, self.file, &Events::default()).unwrap());
        }
    }
}

#[test]
fn two_exports_to_one_file_do_not_write_into_each_other() {
    let home = fixture::directory();
    let bundle_store = fixture::bundle_store(&home.path().join("home"));
    let bundle = fixture::put_bundle(&bundle_store, "v1.37.1", "kubelet");
    let file = home.path().join("out.tar.zst");
    let reporter =
        ExportAtProgress { bundle_store: &bundle_store, bundle: &bundle, file: &file, once: Once::new() };
    bundle_store.export(&bundle, &file, &reporter).unwrap();
    assert!(reporter.once.is_completed());
    assert_eq!(fs::read(&file).unwrap(), exported("kubelet").0);
    assert_eq!(fixture::names_in(home.path()), ["home", "out.tar.zst"]);
}

#[test]
fn what_a_killed_export_left_is_removed_and_nothing_else() {
    let home = fixture::directory();
    let bundle_store = fixture::bundle_store(&home.path().join("home"));
    let bundle = fixture::put_bundle(&bundle_store, "v1.37.1", "kubelet");
    let ours = |name: &str| format!(".flotilla-export-{name}");
    // One of the user's may look like any other name.
    let kept = [&ours("other.Ab12Cd.part"), &ours("out.mine.part"), "out.Ab12Cd.part", "out.backup.part"];
    for name in [&ours("out.Ab12Cd.part")].into_iter().map(String::as_str).chain(kept) {
        fs::write(home.path().join(name), "").unwrap();
    }
    let link = ours("out.xxxxxx.part");
    std::os::unix::fs::symlink("/etc/passwd", home.path().join(&link)).unwrap();
    bundle_store.export(&bundle, &home.path().join("out"), &Events::default()).unwrap();
    let mut left = [&kept[..], &["home", "out", &link]].concat();
    left.sort_unstable();
    assert_eq!(fixture::names_in(home.path()), left);
}

const EVIL: &str = "\u{1b}[2Jevil";

#[test]
fn no_text_of_an_archive_is_a_command_for_a_terminal() {
    if !fixture::is_root() {
        return;
    }
    let changes: [fn(&mut Manifest); 8] = [
        |manifest| manifest.source = EVIL.into(),
        |manifest| manifest.created = "2026\u{9b}2J".into(),
        |manifest| manifest.recipe = "\u{202e}".into(),
        |manifest| manifest.images.push(EVIL.into()),
        |manifest| manifest.varies[0].why = EVIL.into(),
        |manifest| manifest.varies[0].path = EVIL.into(),
        |manifest| manifest.architecture = EVIL.into(),
        |manifest| {
            manifest.components.push(crate::manifest::ComponentRecord {
                name: "kubernetes".into(),
                version: "v1".into(),
                provenance: crate::source::Provenance::GoModule { module: EVIL.into(), sum: String::new() },
                built_with: std::collections::BTreeMap::new(),
                bytes: 0,
            });
        },
    ];
    for change in changes {
        let reason = refusal(&Forgery::new().listing(change).pack());
        assert!(!reason.contains(char::is_control) && !reason.contains('\u{202e}'), "{reason:?}");
    }
    // What the parsers of others quote is text of the archive as well.
    let item = super::forgery::Item::file("manifest.json", format!("{{\"\\u001b[2J\": {EVIL:?}"));
    let reason = refusal(&Forgery { manifest_item: Some(item), ..Forgery::new() }.pack());
    assert!(!reason.contains(char::is_control), "{reason:?}");
}
