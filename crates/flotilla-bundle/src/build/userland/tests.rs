//! The userland out of an archive made here.

use std::os::unix::fs::symlink;

use flotilla_core::event::Step;
use flotilla_core::{Event, Explain};

use super::*;
use crate::build::apt::tests::Archive;
use crate::fixture::{self, Events};
use crate::lock::{DebPin, DebPins};

/// An archive with all that the code asks for by name, in one package, and its documentation in another.
fn archive() -> Option<Archive> {
    let mut archive = Archive::new()?;
    archive.add_with("flotilla-root", "1.0", "Depends: flotilla-terms\n", |root| {
        let files = DEVEL.map(localised).into_iter().chain([
            PathBuf::from("usr/bin/tool"),
            PathBuf::from(CERTIFICATES).join("authority.crt"),
            PathBuf::from("usr/share/man/tool.1"),
        ]);
        for path in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "content").unwrap();
        }
        // As Debian has it from release 13 on; before, packages have files there.
        symlink("usr/bin", root.join("bin")).unwrap();
        fs::create_dir(root.join("sbin")).unwrap();
        fs::write(root.join("sbin/old"), "content").unwrap();
        // As Debian has it where several packages come from one source.
        fs::create_dir_all(root.join(DOCUMENTATION)).unwrap();
        symlink("flotilla-terms", root.join(DOCUMENTATION).join("flotilla-root")).unwrap();
    });
    archive.add_with("flotilla-terms", "1.0", "", |root| {
        let directory = root.join(DOCUMENTATION).join("flotilla-terms");
        fs::create_dir_all(&directory).unwrap();
        for name in [COPYRIGHT, "changelog.gz"] {
            fs::write(directory.join(name), "the terms").unwrap();
        }
    });
    archive.publish();
    Some(archive)
}

fn userland(pins: Vec<DebPins>) -> Userland {
    Userland {
        packages: vec!["flotilla-root".into()],
        programs: vec!["/usr/bin/tool".into(), "/usr/sbin/old".into()],
        data: Vec::new(),
        terminals: Vec::new(),
        seconds: 1,
        pins,
    }
}

/// Pins on a platform, whose checksums are those of other files.
fn wrong_pins(platform: Platform) -> DebPins {
    let pin = |name: &str| DebPin { name: name.into(), version: "1.0".into(), sha256: "0".repeat(64) };
    let Platform { vendor, release, architecture } = platform;
    let packages = vec![pin("flotilla-root"), pin("flotilla-terms")];
    DebPins { vendor, release, architecture, packages }
}

/// Makes the part. Gives its files, where they are from, and the warnings.
fn unpack(archive: &Archive, userland: &Userland) -> Result<(Vec<String>, Provenance, Vec<String>)> {
    let source = BuildSource::with_clients(archive.path("cache"), archive.clients());
    let (files, scratch) = (archive.path("files"), archive.path("scratch"));
    for directory in [&files, &scratch] {
        fs::create_dir(directory).unwrap();
    }
    let events = Events::default();
    let at = Workplace { files: &files, scratch: &scratch };
    let provenance = source.unpack_userland(userland, &at, &Step::start(&events, "userland", "", None))?;
    let warnings = events.into_inner().unwrap().into_iter().filter_map(|event| match event {
        Event::Warning { text } => Some(text),
        _ => None,
    });
    Ok((fixture::names_below(&files.join("root")), provenance, warnings.collect()))
}

#[test]
fn pins_of_another_architecture_or_vendor_do_not_apply() {
    let host = Platform::of_host();
    for platform in [
        Platform { architecture: "other".into(), ..host.clone() },
        Platform { vendor: "other".into(), ..host.clone() },
        Platform { release: "other".into(), ..host.clone() },
    ] {
        let Some(archive) = archive() else { return };
        let (_, provenance, warnings) = unpack(&archive, &userland(vec![wrong_pins(platform)])).unwrap();
        let Provenance::Debian { packages } = provenance else { panic!("{provenance:?}") };
        assert!(packages.iter().all(|package| !package.pinned), "{packages:?}");
        let [warning] = warnings.as_slice() else { panic!("one warning, not {warnings:?}") };
        assert!(warning.starts_with(&format!("the lock file has no pins for {host}")), "{warning}");
    }
}

#[test]
fn pins_of_this_platform_are_insisted_on() {
    let Some(archive) = archive() else { return };
    let error = unpack(&archive, &userland(vec![wrong_pins(Platform::of_host())])).unwrap_err();
    assert_eq!(error.code().exit_status, 40, "{error}");
}

#[test]
fn the_terms_of_every_package_come_along_and_nothing_else_of_its_documentation() {
    let Some(archive) = archive() else { return };
    let (files, ..) = unpack(&archive, &userland(Vec::new())).unwrap();
    let files: Vec<_> = files.iter().filter(|path| path.starts_with("usr/")).collect();
    let expected = [
        "usr/bin",
        "usr/bin/tool",
        "usr/sbin",
        "usr/sbin/old",
        "usr/share",
        "usr/share/doc",
        "usr/share/doc/flotilla-root",
        "usr/share/doc/flotilla-root/copyright",
    ];
    assert_eq!(files, expected);
    let terms = archive.path("files/root/usr/share/doc/flotilla-root/copyright");
    assert_eq!(fs::read_to_string(terms).unwrap(), "the terms");
}

#[test]
fn terms_outside_of_the_packages_are_no_terms() {
    let dir = fixture::directory();
    fs::create_dir_all(dir.path().join("root").join(DOCUMENTATION)).unwrap();
    fs::create_dir(dir.path().join("host")).unwrap();
    fs::write(dir.path().join("host").join(COPYRIGHT), "secret").unwrap();
    symlink(dir.path().join("host"), dir.path().join("root").join(DOCUMENTATION).join("tool")).unwrap();
    let error = copy_copyright(&dir.path().join("root"), "tool", &dir.path().join("into")).unwrap_err();
    assert_eq!(error.to_string(), "the packages of the userland have no /usr/share/doc/tool/copyright");
    assert!(!dir.path().join("into").exists());
}

#[test]
fn one_warning_names_the_first_packages_and_counts_the_others() {
    let package =
        |name: String| DebianPackage { name, version: "2".into(), sha256: String::new(), pinned: false };
    let packages: Vec<_> = (1..=7).map(|number| package(format!("p{number}"))).collect();
    let of = |count: usize| {
        let unpinned: Vec<_> = packages.iter().take(count).collect();
        unpinned_warning(&unpinned, true, &Platform::of_host())
    };
    assert_eq!(of(0), None);
    assert_eq!(of(1).unwrap(), "apt offers other versions than the lock file: p1 2");
    assert!(of(7).unwrap().ends_with(": p1 2, p2 2, p3 2, p4 2, p5 2, 2 more"), "{:?}", of(7));
}
