//! Finding, checking and removing bundles.

use std::fs;
use std::path::Path;

use flotilla_core::{Event, Explain};
use tempfile::TempDir;

use super::*;
use crate::fixture::{self, Events, put_bundle};

fn home() -> (TempDir, BundleStore) {
    let dir = fixture::directory();
    let bundle_store = fixture::bundle_store(dir.path());
    (dir, bundle_store)
}

/// A bundle whose manifest is this text.
fn put_unreadable(bundle_store: &BundleStore, name: &str, manifest: &str) {
    let path = bundle_store.bundles().join(name);
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join(manifest::FILE), manifest).unwrap();
}

/// Two bundles, and the shortest prefix of the first that is not one of the second; at least the shortest allowed.
fn two_bundles(bundle_store: &BundleStore) -> (Bundle, Bundle, String) {
    let (a, b) = (put_bundle(bundle_store, "v1.37.1", "a"), put_bundle(bundle_store, "v1.36.4", "b"));
    let alike = a.manifest.digest.chars().zip(b.manifest.digest.chars()).take_while(|(a, b)| a == b).count();
    let prefix = a.manifest.digest[..(alike + 1).max(SHORTEST_DIGEST)].to_owned();
    (a, b, prefix)
}

/// Removes a bundle that nobody uses. Gives its digest.
fn remove(bundle_store: &BundleStore, which: &str) -> Result<String> {
    let removal = bundle_store.begin_removal(which, &Events::default())?;
    let digest = removal.digest().to_owned();
    removal.finish()?;
    Ok(digest)
}

#[test]
fn a_bundle_is_got_by_its_whole_digest_alone() {
    let (_home, bundle_store) = home();
    let bundle = put_bundle(&bundle_store, "v1.37.1", "a");
    let digest = &bundle.manifest.digest;
    assert_eq!(bundle_store.get(digest).unwrap().path, bundle.path);
    for other in [&digest[..12], "v1.37.1"] {
        let error = bundle_store.get(other).unwrap_err();
        assert!(matches!(error, BundleError::NotFound { .. }), "{error:?}");
    }
    let facts = flotilla_core::Bundles::facts(&bundle_store, digest).unwrap();
    assert_eq!([facts.sandbox_image], bundle.manifest.images[..]);
}

#[test]
fn an_empty_home_has_no_bundles_and_stays_empty() {
    let (dir, bundle_store) = home();
    let listing = bundle_store.list().unwrap();
    assert!(listing.bundles.is_empty() && listing.unreadable.is_empty());
    assert!(matches!(bundle_store.find("v1.37.1"), Err(BundleError::NotFound { .. })));
    assert!(fixture::names_in(dir.path()).is_empty());
}

#[test]
fn the_list_has_the_newest_first_and_skips_what_is_unfinished() {
    let (_dir, bundle_store) = home();
    for (version, content) in [("v1.9.11", "a"), ("v1.37.1", "b"), ("v1.36.4", "c"), ("v1.37.0", "d")] {
        put_bundle(&bundle_store, version, content);
    }
    fs::create_dir(bundle_store.bundles().join(format!("{UNFINISHED}x"))).unwrap();
    let listing = bundle_store.list().unwrap();
    let versions: Vec<&str> =
        listing.bundles.iter().map(|bundle| bundle.manifest.kubernetes.as_str()).collect();
    assert_eq!(versions, ["v1.37.1", "v1.37.0", "v1.36.4", "v1.9.11"]);
    assert!(listing.unreadable.is_empty());
}

#[test]
fn an_unreadable_manifest_is_reported_and_hides_no_other() {
    let (_dir, bundle_store) = home();
    let good = put_bundle(&bundle_store, "v1.37.1", "a");
    put_unreadable(&bundle_store, "aaaa1", "{ not json");
    put_unreadable(&bundle_store, "aaaa2", "{}");
    let newer = Manifest { format: manifest::FORMAT + 1, ..good.manifest.clone() };
    put_unreadable(&bundle_store, "aaaa3", &serde_json::to_string(&newer).unwrap());
    fs::create_dir(bundle_store.bundles().join("aaaa4")).unwrap();
    fs::write(bundle_store.bundles().join("aaaa5"), "a file").unwrap();

    let mut listing = bundle_store.list().unwrap();
    assert_eq!(listing.bundles.len(), 1);
    listing.unreadable.sort_by(|a, b| a.0.cmp(&b.0));
    let names: Vec<&str> = listing.unreadable.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["aaaa1", "aaaa2", "aaaa3", "aaaa4", "aaaa5"]);
    let error = &listing.unreadable[2].1;
    assert_eq!(error.code().name, "BUNDLE_DAMAGED");
    let source = std::error::Error::source(error).unwrap().to_string();
    assert_eq!(source, "format 2 is not supported, expected 1");
    assert_eq!(bundle_store.find("v1.37.1").unwrap().manifest.digest, good.manifest.digest);
}

#[test]
fn a_bundle_is_found_by_version_and_by_digest() {
    let (_dir, bundle_store) = home();
    let (wanted, _, prefix) = two_bundles(&bundle_store);
    let digest = wanted.manifest.digest;
    let full = format!("sha256:{digest}");
    for which in ["v1.37.1", "1.37.1", &digest, &full, &prefix, &format!("sha256:{prefix}"), &digest[..12]] {
        assert_eq!(bundle_store.find(which).unwrap().manifest.digest, digest, "{which}");
    }
}

#[test]
fn the_newer_of_two_bundles_of_a_version_is_found() {
    let (_dir, bundle_store) = home();
    let (older, newer) =
        (put_bundle(&bundle_store, "v1.37.1", "a"), put_bundle(&bundle_store, "v1.37.1", "b"));
    let later = Manifest { created: "2026-11-06T10:00:00Z".into(), ..newer.manifest.clone() };
    fs::write(newer.path.join(manifest::FILE), serde_json::to_vec(&later).unwrap()).unwrap();
    assert_eq!(bundle_store.find("1.37.1").unwrap().manifest.digest, newer.manifest.digest);
    assert_ne!(older.manifest.digest, newer.manifest.digest);
}

#[test]
fn what_stands_for_no_bundle_is_not_found() {
    let (_dir, bundle_store) = home();
    let (bundle, _, _) = two_bundles(&bundle_store);
    let too_short = &bundle.manifest.digest[..SHORTEST_DIGEST - 1];
    let too_long = format!("{}0", bundle.manifest.digest);
    for which in ["v1.35.8", "1.37", "v1.37", "", "sha256:", "zzzz", too_short, &too_long] {
        let error = bundle_store.find(which).unwrap_err();
        assert!(matches!(error, BundleError::NotFound { .. }), "{which}: {error}");
        assert_eq!(error.code().exit_status, 15);
    }
}

#[test]
fn a_prefix_of_several_digests_is_ambiguous() {
    let (_dir, bundle_store) = home();
    let bundle = put_bundle(&bundle_store, "v1.37.1", "a");
    for digest in ["abcd0001", "abcd0002"] {
        let other =
            Manifest { digest: digest.into(), kubernetes: "v1.36.4".into(), ..bundle.manifest.clone() };
        put_unreadable(&bundle_store, digest, &serde_json::to_string(&other).unwrap());
    }
    let error = bundle_store.find("abcd").unwrap_err();
    assert_eq!(error.code().exit_status, 14);
    let text = error.to_string();
    assert!(text.contains("abcd0001") && text.contains("abcd0002"), "{text}");
    assert_eq!(bundle_store.find("abcd0001").unwrap().manifest.digest, "abcd0001");
}

#[test]
fn a_removed_bundle_is_gone() {
    let (_dir, bundle_store) = home();
    let (gone, stays, _) = two_bundles(&bundle_store);
    assert_eq!(remove(&bundle_store, "1.37.1").unwrap(), gone.manifest.digest);
    assert_eq!(fixture::names_in(&bundle_store.bundles()), [stays.manifest.digest]);
    assert!(matches!(remove(&bundle_store, "1.37.1"), Err(BundleError::NotFound { .. })));
}

#[test]
fn the_image_of_the_snapshots_is_made_checked_repaired_and_removed() {
    if !fixture::is_root() || !flotilla_linux::erofs::is_supported() {
        return;
    }
    let (dir, bundle_store) = home();
    let bundle = fixture::put_bundle_with_images(&bundle_store, "v1.37.1");
    let image = bundle.path.join(SNAPSHOTS_IMAGE);
    let events = Events::default();
    bundle_store.verify(&bundle, &events).unwrap();
    assert!(bundle.image_bytes() > 0 && bundle.on_disk() > bundle.manifest.sizes.on_disk);
    // What a killed run left is no part of the bundle either.
    fs::write(bundle.path.join(format!("{SNAPSHOTS_IMAGE}{}", erofs::UNFINISHED)), "half").unwrap();
    bundle_store.verify(&bundle, &events).unwrap();

    let mut bytes = fs::read(&image).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&image, bytes).unwrap();
    let Err(BundleError::Damaged { findings, .. }) = bundle_store.verify(&bundle, &events) else { panic!() };
    assert_eq!(findings, ["snapshots.erofs: content differs"]);
    fixture::put_bundle_with_images(&bundle_store, "v1.37.1");
    bundle_store.verify(&bundle, &events).unwrap();
    assert!(image.exists());

    let archive = dir.path().join("archive");
    bundle_store.export(&bundle, &archive, &events).unwrap();
    remove(&bundle_store, "v1.37.1").unwrap();
    assert!(fixture::names_in(&bundle_store.bundles()).is_empty());
    let imported = bundle_store.import(&archive, Some(&bundle.manifest.digest), &events).unwrap();
    bundle_store.verify(&imported, &events).unwrap();
    assert!(image.exists(), "made here, from the files of the archive");
}

#[test]
fn an_unreadable_bundle_can_be_removed() {
    let (_dir, bundle_store) = home();
    put_unreadable(&bundle_store, "abcdef01", "{ not json");
    assert!(matches!(remove(&bundle_store, "abc"), Err(BundleError::NotFound { .. })));
    assert_eq!(remove(&bundle_store, "sha256:abcd").unwrap(), "abcdef01");
    assert!(fixture::names_in(&bundle_store.bundles()).is_empty());
}

#[test]
fn an_ambiguous_prefix_removes_nothing_also_when_one_cannot_be_read() {
    let (_dir, bundle_store) = home();
    let good = put_bundle(&bundle_store, "v1.37.1", "a");
    let prefix = &good.manifest.digest[..8];
    put_unreadable(&bundle_store, &format!("{prefix}-bad"), "");
    let error = remove(&bundle_store, prefix).unwrap_err();
    assert!(matches!(error, BundleError::Ambiguous { .. }), "{error}");
    assert_eq!(fixture::names_in(&bundle_store.bundles()).len(), 2);
    remove(&bundle_store, "v1.37.1").unwrap();
    assert_eq!(fixture::names_in(&bundle_store.bundles()), [format!("{prefix}-bad")]);
}

#[test]
fn a_bundle_whose_manifest_has_another_digest_than_its_directory_can_be_removed() {
    let (_dir, bundle_store) = home();
    let bundle = put_bundle(&bundle_store, "v1.37.1", "a");
    let changed = Manifest { digest: "0123456789".into(), ..bundle.manifest.clone() };
    fs::write(bundle.path.join(manifest::FILE), serde_json::to_vec(&changed).unwrap()).unwrap();
    assert_eq!(remove(&bundle_store, "0123456789").unwrap(), bundle.manifest.digest);
    assert!(fixture::names_in(&bundle_store.bundles()).is_empty());
}

#[test]
fn what_an_interrupted_removal_left_goes_with_the_next_change() {
    let (_dir, bundle_store) = home();
    let bundle = put_bundle(&bundle_store, "v1.37.1", "a");
    let left = bundle_store.bundles().join(format!("{UNFINISHED}{}", bundle.manifest.digest));
    fs::rename(&bundle.path, &left).unwrap();
    assert!(bundle_store.list().unwrap().bundles.is_empty());
    put_bundle(&bundle_store, "v1.36.4", "b");
    assert!(!left.exists());
}

#[test]
fn an_untouched_bundle_passes_and_its_bytes_are_counted() {
    let (_dir, bundle_store) = home();
    let bundle = put_bundle(&bundle_store, "v1.37.1", "a");
    let events = Events::default();
    bundle_store.verify(&bundle, &events).unwrap();
    let total = inventory::bytes(&bundle.manifest.files);
    let last = events.into_inner().unwrap().into_iter().rev().find_map(|event| match event {
        Event::StepProgress { done, total, .. } => Some((done, total)),
        _ => None,
    });
    assert_eq!(last, Some((total, Some(total))));
}

#[test]
fn a_bundle_is_not_removed_while_nodes_are_made_from_it() {
    let (_dir, bundle_store) = home();
    let bundle = put_bundle(&bundle_store, "v1.37.1", "the kubelet");
    let digest = &bundle.manifest.digest;
    let held = [bundle_store.hold(digest).unwrap(), bundle_store.hold(digest).unwrap()];
    assert!(bundle_store.begin_removal("v1.37.1", &Events::default()).unwrap().is_held());
    drop(held);
    assert!(!bundle_store.begin_removal("v1.37.1", &Events::default()).unwrap().is_held());
    remove(&bundle_store, "v1.37.1").unwrap();
    assert_eq!(bundle_store.hold(digest).unwrap_err().to_string(), format!("no bundle for {digest}"));
}

#[test]
fn whoever_may_enter_the_state_directory_may_list_bundles() {
    let (_dir, bundle_store) = home();
    let bundle = put_bundle(&bundle_store, "v1.37.1", "the kubelet");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let file = bundle.path.join(manifest::FILE);
    let modes = || [mode(&bundle_store.bundles()), mode(&bundle.path), mode(&file)];
    assert_eq!(modes(), [0o755, 0o755, 0o644]);
    // Those of an older flotilla become readable with the next change, or when root takes one.
    let take_lock = || drop(bundle_store.acquire("test", &Events::default()).unwrap());
    let take_bundle =
        || drop(bundle_store.ensure(&flotilla_core::BuildRequest::default(), &Events::default()).unwrap());
    let changes: [&dyn Fn(); 2] = [&take_lock, &take_bundle];
    let changes = changes.iter().take(if fixture::is_root() { 2 } else { 1 });
    for change in changes {
        for (path, mode) in [(&bundle_store.bundles(), 0o700), (&bundle.path, 0o700), (&file, 0o600)] {
            fixture::set_mode(path, mode);
        }
        change();
        assert_eq!(modes(), [0o755, 0o755, 0o644]);
    }
}

/// What is found after a change of a bundle's directory.
fn findings_after(change: impl FnOnce(&Path)) -> Vec<String> {
    let (_dir, bundle_store) = home();
    let bundle = put_bundle(&bundle_store, "v1.37.1", "the kubelet");
    change(&bundle.path);
    let bundle = bundle_store.find("v1.37.1").unwrap();
    let error = bundle_store.verify(&bundle, &Events::default()).unwrap_err();
    assert_eq!((error.code().name, error.code().exit_status), ("BUNDLE_DAMAGED", 18));
    error.details()
}

#[test]
fn one_flipped_byte_is_found_under_all_names_of_the_file() {
    let findings = findings_after(|bundle| {
        let file = bundle.join(fixture::SHARED[0]);
        let mut bytes = fs::read(&file).unwrap();
        bytes[4] ^= 1;
        fs::write(&file, bytes).unwrap();
    });
    assert_eq!(findings, fixture::SHARED.map(|name| format!("{name}: content differs")));
}

#[test]
fn missing_added_and_changed_files_are_all_named() {
    let findings = findings_after(|bundle| {
        fs::remove_file(bundle.join("bin/kubectl")).unwrap();
        fs::write(bundle.join("rootfs/added"), "").unwrap();
        fs::write(bundle.join("beside"), "").unwrap();
        fixture::set_mode(&bundle.join("rootfs/etc/hosts"), 0o600);
        fs::write(bundle.join(fixture::DATABASE), "Database").unwrap();
    });
    let expected = [
        "bin/kubectl: missing".into(),
        "rootfs/etc/hosts: mode 600 instead of 644".into(),
        format!("{}: content differs", fixture::DATABASE),
        "beside: not part of the bundle".into(),
        "rootfs/added: not part of the bundle".into(),
    ];
    assert_eq!(findings, expected);
}

#[test]
fn a_changed_list_of_files_is_found() {
    let findings = findings_after(|bundle| {
        let mut manifest = Manifest::load(bundle).unwrap();
        manifest.files.retain(|entry| entry.path != "bin/kubectl");
        fs::remove_file(bundle.join("bin/kubectl")).unwrap();
        fs::write(bundle.join(manifest::FILE), serde_json::to_vec(&manifest).unwrap()).unwrap();
    });
    assert_eq!(findings, ["manifest.json: the digest does not match the listed files"]);
}

#[test]
fn a_home_that_cannot_be_is_reported() {
    if !fixture::is_root() {
        return;
    }
    let dir = fixture::directory();
    let file = dir.path().join("file");
    fs::write(&file, "in the way").unwrap();
    for home in [file.clone(), file.join("below")] {
        let error = fixture::bundle_store(&home).check_permission().unwrap_err();
        assert_eq!(error.to_string(), format!("cannot write to {}", home.display()));
        assert_eq!(error.code().exit_status, 37);
        assert!(error.hints()[0].contains("FLOTILLA_HOME"));
    }
    // Not even for root.
    let error = fixture::bundle_store(Path::new("/proc/sys/flotilla")).check_permission().unwrap_err();
    assert!(matches!(error, BundleError::NotWritable { .. }), "{error}");
}

#[test]
fn whoever_waits_for_the_shelf_knows_for_whom_and_can_be_cancelled() {
    let (dir, bundle_store) = home();
    fixture::put_bundle(&bundle_store, "v1.37.1", "kubelet");
    let held = bundle_store.acquire("build the bundle for v1.37.1", &Events::default()).unwrap();
    let cancel = Cancel::new();
    let waiting = BundleStore::open(dir.path().to_owned(), cancel.clone()).unwrap();
    let events = CancelAtNote { cancel, notes: Events::default() };
    let error = waiting.begin_removal("v1.37.1", &events).map(drop).unwrap_err();
    assert_eq!(error.code().exit_status, 130, "{error}");
    let Event::Note { text } = &events.notes.lock().unwrap()[0] else { panic!("a note") };
    let start = format!("waiting for process {} to build the bundle for v1.37.1 (since ", std::process::id());
    assert!(text.starts_with(&start), "{text}");
    drop(held);
}

/// Cancels whoever tells it that he waits.
struct CancelAtNote {
    cancel: Cancel,
    notes: Events,
}

impl Reporter for CancelAtNote {
    fn report(&self, event: Event) {
        self.notes.report(event);
        self.cancel.cancel();
    }
}
