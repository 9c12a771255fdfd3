//! Bundles as files: what goes in comes out, and nothing comes out of what was forged or damaged.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use flotilla_core::Cancel;
use flotilla_core::event::Reporter;
use flotilla_core::{Event, Explain};
use proptest::prelude::*;
use tempfile::TempDir;

use crate::bundle_store::{Bundle, BundleStore};
use crate::error::{BundleError, Result};
use crate::fixture::{self, Events, SHARED};
use crate::inventory;

mod again;
mod attacks;
mod bombs;
mod forgery;

/// A home to import into, with an archive and somebody else's directory beside it.
struct Place {
    dir: TempDir,
    bundle_store: BundleStore,
}

impl Place {
    fn new(archive: &[u8]) -> Self {
        let dir = fixture::directory();
        fs::create_dir(dir.path().join("outside")).unwrap();
        fs::write(dir.path().join("outside/sentinel"), "untouched").unwrap();
        let bundle_store = fixture::bundle_store(&dir.path().join("home"));
        let place = Self { dir, bundle_store };
        place.bring(archive);
        place
    }

    fn bring(&self, archive: &[u8]) {
        fs::write(self.archive(), archive).unwrap();
    }

    fn archive(&self) -> PathBuf {
        self.dir.path().join("bundle.tar.zst")
    }

    fn import(&self) -> Result<Bundle> {
        self.bundle_store.import(&self.archive(), None, &Events::default())
    }

    /// Why the archive is refused.
    fn refusal(&self) -> String {
        let error = self.import().expect_err("it must be refused");
        self.assert_untouched();
        assert_eq!(error.code().exit_status, 18, "{error}");
        match error {
            BundleError::Archive { reason, .. } => reason,
            other => panic!("refused for another reason: {other:?}"),
        }
    }

    /// No file of the archive is anywhere, not even one that was half written.
    fn assert_untouched(&self) {
        let expected =
            ["bundle.tar.zst", "home", "home/bundles", "home/bundles.lock", "outside", "outside/sentinel"];
        assert_eq!(fixture::names_below(self.dir.path()), expected);
        assert_eq!(fs::read_to_string(self.dir.path().join("outside/sentinel")).unwrap(), "untouched");
    }
}

/// Imports an archive that must be refused, and gives the reason. Nothing may stay of it.
fn refusal(archive: &[u8]) -> String {
    Place::new(archive).refusal()
}

#[track_caller]
fn assert_refused(archive: &[u8], why: &str) {
    let reason = refusal(archive);
    assert!(reason.contains(why), "refused because {reason:?} instead of {why:?}");
}

/// A bundle, exported: the archive's bytes and the bundle's digest.
fn exported(content: &str) -> (Vec<u8>, String) {
    let home = fixture::directory();
    let bundle_store = fixture::bundle_store(home.path());
    let bundle = fixture::put_bundle(&bundle_store, "v1.37.1", content);
    let file = home.path().join("out.tar.zst");
    bundle_store.export(&bundle, &file, &Events::default()).unwrap();
    (fs::read(file).unwrap(), bundle.manifest.digest)
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

#[test]
fn an_imported_bundle_is_the_one_that_was_exported() {
    if !fixture::is_root() {
        return;
    }
    let home = fixture::directory();
    let bundle_store = fixture::bundle_store(home.path());
    let bundle = fixture::put_bundle(&bundle_store, "v1.37.1", "kubelet");
    let file = home.path().join("out.tar.zst");
    bundle_store.export(&bundle, &file, &Events::default()).unwrap();

    let place = Place::new(&fs::read(&file).unwrap());
    let imported = place.import().unwrap();
    assert_eq!(imported.manifest.digest, bundle.manifest.digest);
    assert_eq!(imported.manifest.files, bundle.manifest.files);
    let findings = inventory::compare(&imported.path, &bundle.manifest.files, |_| ()).unwrap();
    assert_eq!(findings, ["manifest.json: not part of the bundle"]);
    place.bundle_store.verify(&imported, &Events::default()).unwrap();
    let [first, second] = SHARED.map(|path| inode(&imported.path.join(path)));
    assert_eq!(first, second, "a file with two names is there once");
    assert_eq!(place.bundle_store.find("1.37.1").unwrap().manifest.digest, bundle.manifest.digest);
    assert_eq!(fixture::names_in(&place.dir.path().join("home/bundles")), [bundle.manifest.digest]);
}

#[test]
fn exporting_twice_gives_the_same_bytes() {
    assert_eq!(exported("kubelet"), exported("kubelet"));
}

#[test]
fn importing_what_is_there_keeps_it() {
    if !fixture::is_root() {
        return;
    }
    let (archive, digest) = exported("kubelet");
    let place = Place::new(&archive);
    let kept = inode(&place.import().unwrap().path.join("bin/kubectl"));
    let again = place.import().unwrap();
    assert_eq!(again.manifest.digest, digest);
    assert_eq!(inode(&again.path.join("bin/kubectl")), kept);
    assert_eq!(fixture::names_in(&place.dir.path().join("home/bundles")), [digest]);
}

#[test]
fn the_expected_digest_is_insisted_on() {
    if !fixture::is_root() {
        return;
    }
    let (archive, digest) = exported("kubelet");
    let place = Place::new(&archive);
    let import =
        |expected: &str| place.bundle_store.import(&place.archive(), Some(expected), &Events::default());
    let other = "0".repeat(64);
    let error = import(&other).unwrap_err();
    assert!(error.to_string().ends_with(&format!("the digest is {digest}, expected {other}")), "{error}");
    assert_eq!(error.code().exit_status, 18);
    place.assert_untouched();
    import(&format!("sha256:{digest}")).unwrap();
    import(&digest).unwrap();
}

#[test]
fn a_damaged_bundle_is_not_exported() {
    let damage: [fn(&Path); 3] = [
        |file| fs::write(file, "kubeleT").unwrap(),
        |file| fs::write(file, "longer than before").unwrap(),
        |file| fs::write(file, "short").unwrap(),
    ];
    for damage in damage {
        let home = fixture::directory();
        let bundle_store = fixture::bundle_store(home.path());
        let bundle = fixture::put_bundle(&bundle_store, "v1.37.1", "kubelet");
        damage(&bundle.path.join(SHARED[0]));
        let error = bundle_store.export(&bundle, &home.path().join("out"), &Events::default()).unwrap_err();
        assert_eq!(error.details(), [format!("{}: content differs", SHARED[0])]);
        assert_eq!(fixture::names_in(home.path()), ["bundles", "bundles.lock"]);
    }
}

/// Cancels as soon as something is written.
struct CancelAtProgress(Cancel);

impl Reporter for CancelAtProgress {
    fn report(&self, event: Event) {
        if matches!(event, Event::StepProgress { .. }) {
            self.0.cancel();
        }
    }
}

#[test]
fn a_cancelled_import_leaves_nothing() {
    if !fixture::is_root() {
        return;
    }
    let place = Place::new(&exported("kubelet").0);
    let cancel = Cancel::new();
    let bundle_store = BundleStore::open(place.dir.path().join("home"), cancel.clone()).unwrap();
    let error = bundle_store.import(&place.archive(), None, &CancelAtProgress(cancel)).unwrap_err();
    assert_eq!(error.code().exit_status, 130, "{error}");
    place.assert_untouched();
}

#[test]
fn a_cancelled_export_leaves_nothing() {
    let home = fixture::directory();
    let cancel = Cancel::new();
    let bundle_store = BundleStore::open(home.path().to_owned(), cancel.clone()).unwrap();
    let bundle = fixture::put_bundle(&bundle_store, "v1.37.1", "kubelet");
    let error =
        bundle_store.export(&bundle, &home.path().join("out"), &CancelAtProgress(cancel)).unwrap_err();
    assert_eq!(error.code().exit_status, 130, "{error}");
    assert_eq!(fixture::names_in(home.path()), ["bundles", "bundles.lock"]);
}

#[test]
fn what_is_no_archive_is_refused() {
    if !fixture::is_root() {
        return;
    }
    assert_refused(b"", "it is empty");
    let mut noise =
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha);
    for length in [1, 3, 4, 512, 10_000] {
        let mut bytes = vec![0; length];
        noise.fill_bytes(&mut bytes);
        refusal(&bytes);
    }
    assert_refused(&zstd::encode_all(&b"neither tar nor anything"[..], 1).unwrap(), "cannot read it");
    assert_refused(&zstd::encode_all(&[0; 10_240][..], 1).unwrap(), "it is empty");
}

#[test]
fn a_missing_archive_is_reported() {
    if !fixture::is_root() {
        return;
    }
    let place = Place::new(b"");
    let error =
        place.bundle_store.import(&place.dir.path().join("absent"), None, &Events::default()).unwrap_err();
    assert!(error.to_string().ends_with("/absent"), "{error}");
}

#[test]
fn an_archive_cut_at_any_byte_is_refused() {
    if !fixture::is_root() {
        return;
    }
    let (archive, _) = exported("kubelet");
    let place = Place::new(b"");
    for end in 0..archive.len() {
        place.bring(&archive[..end]);
        place.refusal();
    }
}

#[test]
fn an_archive_with_any_flipped_byte_is_refused_or_gives_the_same_bundle() {
    if !fixture::is_root() {
        return;
    }
    let (archive, digest) = exported("kubelet");
    let mut place = Place::new(b"");
    for position in 0..archive.len() {
        for mask in [1 << (position % 8), 0xff] {
            if import_flipped(&place, &archive, &digest, position, mask) {
                place = Place::new(b"");
            }
        }
    }
}

/// Whether the bundle was imported in spite of the flipped bits. Then it must be the right one.
fn import_flipped(place: &Place, archive: &[u8], digest: &str, position: usize, mask: u8) -> bool {
    let mut archive = archive.to_vec();
    archive[position] ^= mask;
    place.bring(&archive);
    match place.import() {
        Ok(bundle) => {
            assert_eq!(bundle.manifest.digest, digest);
            assert_eq!(bundle.manifest.kubernetes, "v1.37.1");
            place.bundle_store.verify(&bundle, &Events::default()).unwrap();
            true
        }
        Err(error) => {
            assert_eq!(error.code().exit_status, 18, "byte {position} with {mask:x}: {error:?}");
            place.assert_untouched();
            false
        }
    }
}

/// More than one block of zstd's, of what it can and what it cannot make smaller.
static LARGE: LazyLock<(Vec<u8>, String)> = LazyLock::new(|| {
    let mut state = 1_u32;
    let noise = (0..300_000).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b' ' + (state >> 24) as u8 % 64)
    });
    exported(&(noise.collect::<String>() + &"the same again and again ".repeat(10_000)))
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_large_archive_cut_anywhere_is_refused(cut in any::<prop::sample::Index>()) {
        if fixture::is_root() {
            refusal(&LARGE.0[..cut.index(LARGE.0.len())]);
        }
    }

    #[test]
    fn a_large_archive_with_a_flipped_byte_is_refused_or_gives_the_same_bundle(
        position in any::<prop::sample::Index>(),
        mask in 1_u8..,
    ) {
        if fixture::is_root() {
            import_flipped(&Place::new(b""), &LARGE.0, &LARGE.1, position.index(LARGE.0.len()), mask);
        }
    }
}
