//! Archives that are small and want to become large.

use flotilla_core::{Event, Explain};
use tar::EntryType;

use super::forgery::{Content, Forgery, Item, packed_zeros};
use super::{Place, assert_refused};
use crate::fixture::{self, Events};
use crate::inventory::Kind;
use crate::manifest;

const BILLION: u64 = 1_000_000_000;

fn zeros(path: &str) -> Item {
    Item::new(path, EntryType::Regular).with(Content::Zeros(BILLION))
}

fn listed_with(size: u64) -> Kind {
    Kind::File { mode: 0o644, size, sha256: "0".repeat(64) }
}

#[test]
fn a_listed_billion_of_zeros_is_refused_before_anything_is_written() {
    if !fixture::is_root() {
        return;
    }
    let forgery = Forgery::new().add(listed_with(BILLION), zeros("rootfs/bomb"));
    let place = Place::new(&forgery.pack());
    let events = Events::default();
    let error = place.bundle_store.import(&place.archive(), None, &events).unwrap_err();
    assert_eq!(error.code().exit_status, 18);
    assert!(error.to_string().contains(" kB would expand to 1.0 GB"), "{error}");
    let events = events.into_inner().unwrap();
    assert!(!events.iter().any(|event| matches!(event, Event::StepProgress { .. })), "{events:?}");
    place.assert_untouched();
}

#[test]
fn a_file_larger_than_listed_is_refused() {
    if !fixture::is_root() {
        return;
    }
    let forgery = Forgery::new().replacing("bin/kubectl", zeros("bin/kubectl"));
    assert_refused(&forgery.pack(), "bin/kubectl does not match the manifest");
}

#[test]
fn a_manifest_of_a_billion_bytes_is_refused() {
    if !fixture::is_root() {
        return;
    }
    let forgery = Forgery { manifest_item: Some(zeros(manifest::FILE)), ..Forgery::new() };
    assert_refused(&forgery.pack(), "the manifest is too large: 1.0 GB");
}

#[test]
fn directories_and_links_that_carry_bytes_are_refused_without_reading_them() {
    if !fixture::is_root() {
        return;
    }
    for (path, kind, link) in
        [("rootfs/etc", EntryType::Directory, ""), ("rootfs/bin", EntryType::Symlink, "usr/bin")]
    {
        // Nothing follows: reading would say that it was cut off.
        let item = Item { size: Some(1 << 40), ..Item::link(path, kind, link) };
        let forgery = Forgery::new().replacing(path, item);
        assert_refused(&forgery.pack(), &format!("{path} does not match the manifest"));
    }
}

#[test]
fn bytes_after_the_end_are_refused_without_reading_them_all() {
    if !fixture::is_root() {
        return;
    }
    let mut archive = Forgery::new().pack();
    archive.extend(packed_zeros(BILLION));
    assert_refused(&archive, "data follows the end");
}

#[test]
fn sizes_beyond_all_numbers_are_refused() {
    if !fixture::is_root() {
        return;
    }
    let forgery = Forgery::new()
        .add(listed_with(u64::MAX), zeros("rootfs/one").with(Content::Zeros(0)))
        .add(listed_with(u64::MAX), zeros("rootfs/two").with(Content::Zeros(0)));
    assert_refused(&forgery.pack(), "would expand to 18446744073 GB");
    for size in [u64::MAX, u64::MAX - 1024] {
        let manifest = Item { size: Some(size), ..Item::file(manifest::FILE, "{}") };
        let forgery = Forgery { manifest_item: Some(manifest), ..Forgery::new() };
        super::refusal(&forgery.pack());
    }
}
