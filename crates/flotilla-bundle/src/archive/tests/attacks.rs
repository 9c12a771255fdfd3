//! Archives that want to write where they may not, or to pass for what they are not.

use tar::EntryType;

use super::forgery::{Content, Forgery, Item, listed, pack};
use super::{Place, assert_refused};
use crate::fixture::{self, DATABASE, Events, SHARED};
use crate::inventory::{Entry, Kind};
use crate::manifest::{self, Varies};

const NOT_LISTED: &str = "is not in the manifest, or a duplicate";
const DIFFERS: &str = "does not match the manifest";

fn link_to(target: &str) -> Kind {
    Kind::Link { target: target.into() }
}

#[test]
fn an_archive_made_by_hand_is_imported_as_long_as_it_is_a_good_one() {
    if !fixture::is_root() {
        return;
    }
    let forgery = Forgery::new();
    let place = Place::new(&forgery.pack());
    let bundle = place.import().unwrap();
    assert_eq!(bundle.manifest.digest, forgery.manifest.digest);
    place.bundle_store.verify(&bundle, &Events::default()).unwrap();
}

#[test]
fn entries_may_come_in_any_order_but_links_behind_their_file() {
    if !fixture::is_root() {
        return;
    }
    let forgery = Forgery::new().holding(|items| items.reverse());
    assert_refused(&forgery.pack(), &format!("{} {DIFFERS}", SHARED[1]));
    let forgery = forgery.holding(|items| items.sort_by_key(|item| item.kind == EntryType::Link));
    let place = Place::new(&forgery.pack());
    let bundle = place.import().unwrap();
    place.bundle_store.verify(&bundle, &Events::default()).unwrap();
}

#[test]
fn listed_paths_outside_of_the_bundles_directories_are_refused() {
    if !fixture::is_root() {
        return;
    }
    let paths = [
        "/etc/cron.d/evil",
        "../../outside/evil",
        "rootfs/../../../outside/evil",
        "rootfs/..",
        "..",
        "etc/passwd",
        "evil",
        "rootfs2/evil",
        "./rootfs/evil",
        "rootfs//evil",
        "rootfs/./evil",
        "rootfs/evil/",
        "rootfs/e\u{1b}[2Jvil",
        "",
    ];
    for path in paths {
        let forgery = Forgery::new().add(listed(b"evil"), Item::file(path, "evil"));
        assert_refused(&forgery.pack(), &format!("invalid path {path:?}"));
    }
}

#[test]
fn unlisted_paths_are_refused_wherever_they_lead() {
    if !fixture::is_root() {
        return;
    }
    let paths = [
        "/etc/cron.d/evil",
        "../../outside/evil",
        "rootfs/../../../outside/evil",
        "rootfs/extra",
        "manifest.json",
    ];
    for path in paths {
        let forgery = Forgery::new().holding(|items| items.push(Item::file(path, "evil")));
        assert_refused(&forgery.pack(), &format!("{path:?} {NOT_LISTED}"));
    }
}

#[test]
fn links_that_lead_outside_are_refused() {
    if !fixture::is_root() {
        return;
    }
    for target in ["/etc", "/", "../../outside", "../..", "usr/../../../outside", "bin/../..", ""] {
        let item = Item::link("rootfs/evil", EntryType::Symlink, target);
        let forgery = Forgery::new().add(link_to(target), item);
        assert_refused(&forgery.pack(), "the link rootfs/evil points outside the bundle");
    }
}

#[test]
fn a_link_that_leads_outside_through_another_link_is_refused() {
    if !fixture::is_root() {
        return;
    }
    let root = "../../.."; // the bundle itself
    let out = "usr/bin/root/../outside"; // inside, if `root` were a directory
    let forgery = Forgery::new()
        .add(link_to(root), Item::link("rootfs/usr/bin/root", EntryType::Symlink, root))
        .add(link_to(out), Item::link("rootfs/out", EntryType::Symlink, out));
    assert_refused(&forgery.pack(), "the link rootfs/out points outside the bundle");
}

#[test]
fn a_link_must_be_the_listed_one_to_the_letter() {
    if !fixture::is_root() {
        return;
    }
    for target in ["../../../outside", "usr/bin/", "usr//bin", "./usr/bin", ""] {
        let item = Item::link("rootfs/bin", EntryType::Symlink, target);
        assert_refused(
            &Forgery::new().replacing("rootfs/bin", item).pack(),
            &format!("rootfs/bin {DIFFERS}"),
        );
    }
}

#[test]
fn nothing_is_written_through_a_link_in_the_place_of_a_directory() {
    if !fixture::is_root() {
        return;
    }
    // The archive has a link where the manifest has a directory.
    let link = Item::link("rootfs/etc", EntryType::Symlink, "../../../../outside");
    assert_refused(
        &Forgery::new().replacing("rootfs/etc", link.clone()).pack(),
        &format!("rootfs/etc {DIFFERS}"),
    );
    // First the directory, then the link of the same name, then the file in it.
    let twice = Forgery::new().holding(|items| {
        let directory = items.iter().position(|item| item.path == "rootfs/etc").unwrap();
        items.insert(directory + 1, link);
    });
    assert_refused(&twice.pack(), &format!("\"rootfs/etc\" {NOT_LISTED}"));
    // The manifest itself has a link, and a file in what it leads to.
    let through = Forgery::new().add(listed(b"evil"), Item::file("rootfs/bin/evil", "evil"));
    assert_refused(&through.pack(), "rootfs/bin/evil is in no listed directory");
    // One of the bundle's own directories is a link.
    let top = Forgery::new().listing(|manifest| {
        let bin = manifest.files.iter_mut().find(|entry| entry.path == "bin").unwrap();
        bin.kind = link_to("rootfs");
    });
    assert_refused(&top.pack(), "the directory bin is missing");
}

#[test]
fn a_file_whose_directory_is_not_listed_is_refused() {
    if !fixture::is_root() {
        return;
    }
    let forgery = Forgery::new().add(listed(b"x"), Item::file("rootfs/new/deep/x", "x"));
    assert_refused(&forgery.pack(), "rootfs/new/deep/x is in no listed directory");
}

#[test]
fn a_hard_link_is_only_for_a_file_of_the_archive_with_the_same_content() {
    if !fixture::is_root() {
        return;
    }
    let targets = [
        "/etc/passwd",
        "../../outside/sentinel",
        "rootfs/unlisted",
        "bin/kubectl",
        "rootfs/etc",
        "rootfs/bin",
        "",
    ];
    for target in targets {
        let item = Item::link(SHARED[1], EntryType::Link, target);
        assert_refused(
            &Forgery::new().replacing(SHARED[1], item).pack(),
            &format!("{} {DIFFERS}", SHARED[1]),
        );
    }
}

#[test]
fn devices_and_pipes_are_refused() {
    if !fixture::is_root() {
        return;
    }
    for kind in
        [EntryType::Char, EntryType::Block, EntryType::Fifo, EntryType::Continuous, EntryType::new(b'Z')]
    {
        let listed = Forgery::new().replacing("bin/kubectl", Item::new("bin/kubectl", kind));
        assert_refused(&listed.pack(), &format!("bin/kubectl {DIFFERS}"));
        let unlisted = Forgery::new().holding(|items| items.insert(0, Item::new("rootfs/dev", kind)));
        assert_refused(&unlisted.pack(), NOT_LISTED);
    }
}

#[test]
fn extensions_of_tar_are_refused() {
    if !fixture::is_root() {
        return;
    }
    let path = "26 path=../../outside/evil\n";
    let extensions = [
        (EntryType::XHeader, "PaxHeaders.0/kubectl", path),
        (EntryType::XGlobalHeader, "pax_global_header", path),
        (EntryType::GNULongName, "././@LongLink", "../../outside/evil\0"),
        (EntryType::GNULongLink, "././@LongLink", "../../outside/sentinel\0"),
        (EntryType::GNUSparse, "rootfs/sparse", ""),
    ];
    for (kind, name, content) in extensions {
        let extension = |path: &str| Item::new(path, kind).with(Content::Bytes(content.into()));
        let before = |items: &mut Vec<Item>| {
            let file = items.iter().position(|item| item.path == "bin/kubectl").unwrap();
            items.insert(file, extension(name));
        };
        assert_refused(&Forgery::new().holding(before).pack(), NOT_LISTED);
        // With a name that is awaited.
        let disguised = Forgery::new().replacing("bin/kubectl", extension("bin/kubectl"));
        assert_refused(&disguised.pack(), &format!("bin/kubectl {DIFFERS}"));
        let first = Forgery { manifest_item: Some(extension(manifest::FILE)), ..Forgery::new() };
        assert_refused(&first.pack(), "the first entry is not manifest.json");
    }
}

#[test]
fn what_is_there_twice_missing_or_not_listed_is_refused() {
    if !fixture::is_root() {
        return;
    }
    let twice = Forgery::new().holding(|items| items.push(Item::file("bin/kubectl", "kubectl")));
    assert_refused(&twice.pack(), &format!("\"bin/kubectl\" {NOT_LISTED}"));
    let listed_twice = Forgery::new().listing(|manifest| {
        let again = manifest.files.iter().find(|entry| entry.path == "bin/kubectl").unwrap().clone();
        manifest.files.push(again);
    });
    assert_refused(&listed_twice.pack(), "invalid path \"bin/kubectl\"");
    let missing = Forgery::new().holding(|items| items.retain(|item| item.path != "bin/kubectl"));
    assert_refused(&missing.pack(), "bin/kubectl is missing");
    let unlisted =
        Forgery::new().listing(|manifest| manifest.files.retain(|entry| entry.path != "bin/kubectl"));
    assert_refused(&unlisted.pack(), &format!("\"bin/kubectl\" {NOT_LISTED}"));
    let nothing = Forgery::new().listing(|manifest| manifest.files.clear()).holding(Vec::clear);
    assert_refused(&nothing.pack(), "the directory bin is missing");
}

#[test]
fn another_content_is_refused_also_in_files_that_vary() {
    if !fixture::is_root() {
        return;
    }
    for path in ["bin/kubectl", DATABASE] {
        for content in ["KUBECTL!", "kubectl!", "longer than it was", ""] {
            let forgery = Forgery::new().replacing(path, Item::file(path, content));
            assert_refused(&forgery.pack(), &format!("{path} {DIFFERS}"));
        }
    }
    let directory = Forgery::new().replacing("bin/kubectl", Item::new("bin/kubectl", EntryType::Directory));
    assert_refused(&directory.pack(), &format!("bin/kubectl {DIFFERS}"));
}

#[test]
fn the_manifest_comes_first_and_is_a_file() {
    if !fixture::is_root() {
        return;
    }
    let good = Forgery::new();
    let manifest = Item::file(manifest::FILE, serde_json::to_vec(&good.manifest).unwrap());
    let late = pack(good.items.iter().chain([&manifest]));
    assert_refused(&late, "the first entry is not manifest.json");
    let link = Item::link(manifest::FILE, EntryType::Symlink, "/etc/passwd");
    let link = Forgery { manifest_item: Some(link), ..Forgery::new() };
    assert_refused(&link.pack(), "the first entry is not manifest.json");
    for text in ["", "{}", "[1, 2", "\u{0}"] {
        let text = Forgery { manifest_item: Some(Item::file(manifest::FILE, text)), ..Forgery::new() };
        assert_refused(&text.pack(), "cannot read the manifest");
    }
}

#[test]
fn a_digest_that_is_not_that_of_the_files_is_refused() {
    if !fixture::is_root() {
        return;
    }
    let why = "the digest does not match the listed files";
    for digest in ["0".repeat(64), String::new(), "../../outside/evil".into()] {
        assert_refused(&Forgery::new().listing_unsigned(|manifest| manifest.digest = digest).pack(), why);
    }
    let swapped = Forgery::new()
        .listing_unsigned(|manifest| {
            let file = manifest.files.iter_mut().find(|entry| entry.path == "bin/kubectl").unwrap();
            file.kind = listed(b"evil");
        })
        .replacing("bin/kubectl", Item::file("bin/kubectl", "evil"));
    assert_refused(&swapped.pack(), why);
}

#[test]
fn a_program_cannot_be_exempted_from_the_digest() {
    if !fixture::is_root() {
        return;
    }
    let forgery = Forgery::new()
        .listing(|manifest| manifest.varies.push(Varies { path: "bin/kubectl".into(), why: "evil".into() }));
    assert_refused(&forgery.pack(), "the digest does not cover bin/kubectl");
}

#[test]
fn special_modes_are_refused() {
    if !fixture::is_root() {
        return;
    }
    for mode in [0o4755, 0o2755, 0o6711, 0o100_644, u32::MAX] {
        let special = |path: &str, kind: fn(u32) -> Kind| {
            Forgery::new().listing(|manifest| {
                let entry: &mut Entry = manifest.files.iter_mut().find(|entry| entry.path == path).unwrap();
                entry.kind = kind(mode);
            })
        };
        let why = format!(" has the invalid mode {mode:o}");
        let file = special("bin/kubectl", |mode| Kind::File { mode, size: 0, sha256: String::new() });
        assert_refused(&file.pack(), &format!("bin/kubectl{why}"));
        let directory = special("rootfs/etc", |mode| Kind::Dir { mode });
        assert_refused(&directory.pack(), &format!("rootfs/etc{why}"));
    }
}

#[test]
fn another_architecture_or_format_is_refused() {
    if !fixture::is_root() {
        return;
    }
    let foreign = Forgery::new().listing(|manifest| manifest.architecture = "s390x".into());
    assert_refused(&foreign.pack(), "it is for s390x, this machine is ");
    let newer = Forgery::new().listing(|manifest| manifest.format = manifest::FORMAT + 1);
    assert_refused(&newer.pack(), "format 2 is not supported, expected 1");
}

#[test]
fn a_version_that_would_garble_a_terminal_is_refused() {
    if !fixture::is_root() {
        return;
    }
    let forgery = Forgery::new().listing(|manifest| manifest.kubernetes = "v1\u{1b}[2J".into());
    assert_refused(&forgery.pack(), r#"invalid version "v1\u{1b}[2J""#);
}

#[test]
fn what_follows_the_end_is_refused() {
    if !fixture::is_root() {
        return;
    }
    let mut archive = Forgery::new().pack();
    archive.extend(b"more");
    assert_refused(&archive, "cannot read it");
    let mut archive = Forgery::new().pack();
    archive.extend(zstd::encode_all(&b"more"[..], 1).unwrap());
    assert_refused(&archive, "data follows the end");
}
