//! The host's apt, on an archive made here.

use std::fmt::Write;

use flotilla_core::Explain;
use flotilla_testkit::write_program;
use tempfile::TempDir;

use super::*;
use crate::fixture::{self, Events};

#[test]
fn the_number_of_packages_is_read() {
    assert_eq!(
        newly_installed("0 upgraded, 110 newly installed, 0 to remove and 0 not upgraded."),
        Some(110)
    );
    assert_eq!(newly_installed("Need to get 44.1 MB of archives."), None);
}

#[test]
fn pins_become_preferences() {
    let pins = [DebPin { name: "bash".into(), version: "5.2-1".into(), sha256: String::new() }];
    assert_eq!(render_preferences(&pins), "Package: bash\nPin: version 5.2-1\nPin-Priority: 1001\n\n");
}

/// A Debian archive in a directory, and an apt that knows no other.
pub(in crate::build) struct Archive {
    dir: TempDir,
    index: String,
    cancel: flotilla_core::Cancel,
}

impl Archive {
    /// `flotilla-tool` 1.0 and 2.0, which depend on `flotilla-lib` 1.0. None if the host has no apt.
    pub(in crate::build) fn new() -> Option<Self> {
        for program in ["apt-get", "dpkg-deb"] {
            if Command::new(program).arg("--version").run().is_err() {
                flotilla_testkit::skip(&format!("there is no {program}"));
                return None;
            }
        }
        let cancel = flotilla_core::Cancel::new();
        let mut archive = Self { dir: fixture::directory(), index: String::new(), cancel };
        fs::create_dir(archive.path("repo")).unwrap();
        archive.add("flotilla-lib", "1.0", "");
        archive.add("flotilla-tool", "1.0", "Depends: flotilla-lib\n");
        archive.add("flotilla-tool", "2.0", "Depends: flotilla-lib\n");
        archive.publish();
        // Copied, not used in place, as from a mirror. The host's own settings are not read at all.
        let list = format!("deb [trusted=yes] copy:{} ./\n", archive.path("repo").display());
        fs::write(archive.path("sources.list"), list).unwrap();
        let config = format!(
            "Dir::Etc::sourcelist \"{}\";\nDir::Etc::sourceparts \"/dev/null\";\nDir::Etc::main \"/dev/null\";\n\
             Dir::Etc::parts \"/dev/null\";\nDir::Etc::preferencesparts \"/dev/null\";\nAcquire::Languages \"none\";\n",
            archive.path("sources.list").display()
        );
        fs::write(archive.path("apt.conf"), config).unwrap();
        Some(archive)
    }

    pub(in crate::build) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Builds a package that has one file and adds it to the index.
    fn add(&mut self, name: &str, version: &str, fields: &str) {
        let content = |root: &Path| {
            fs::create_dir_all(root.join("usr/share")).unwrap();
            fs::write(root.join("usr/share").join(name), version).unwrap();
        };
        self.add_with(name, version, fields, content);
    }

    /// Builds a package out of a directory that `fill` fills, and adds it to the index.
    pub(in crate::build) fn add_with(
        &mut self,
        name: &str,
        version: &str,
        fields: &str,
        fill: impl FnOnce(&Path),
    ) {
        let root = self.path("package");
        let control = format!(
            "Package: {name}\nVersion: {version}\nArchitecture: all\n{fields}\
             Maintainer: Nobody <nobody@example.com>\nDescription: for a test\n"
        );
        fs::create_dir_all(root.join("DEBIAN")).unwrap();
        // dpkg-deb refuses a control directory that others cannot read.
        fixture::set_mode(&root.join("DEBIAN"), 0o755);
        fs::write(root.join("DEBIAN/control"), &control).unwrap();
        fill(&root);
        let package = self.deb(name, version);
        let build = Command::new("dpkg-deb").args(["--root-owner-group", "--build"]);
        build.arg(&root).arg(&package).run().unwrap();
        fs::remove_dir_all(&root).unwrap();
        let size = fs::metadata(&package).unwrap().len();
        let sha256 = hash::of_file(&package).unwrap();
        let filename = format!("./{name}_{version}_all.deb");
        write!(self.index, "{control}Filename: {filename}\nSize: {size}\nSHA256: {sha256}\n\n").unwrap();
    }

    pub(in crate::build) fn publish(&self) {
        fs::write(self.path("repo/Packages"), &self.index).unwrap();
    }

    fn deb(&self, name: &str, version: &str) -> PathBuf {
        self.path("repo").join(format!("{name}_{version}_all.deb"))
    }

    /// A pin of what is in the archive.
    pub(in crate::build) fn pin(&self, name: &str, version: &str) -> DebPin {
        let sha256 = hash::of_file(&self.deb(name, version)).unwrap();
        DebPin { name: name.into(), version: version.into(), sha256 }
    }

    pub(in crate::build) fn clients(&self) -> Clients {
        let env = vec![("APT_CONFIG".to_owned(), self.path("apt.conf").display().to_string())];
        Clients { cancel: self.cancel.clone(), env }
    }

    fn download(&self, package: &str, pins: &[DebPin]) -> Result<Vec<Deb>> {
        self.download_with(self.clients(), package, pins, &Events::default())
    }

    fn download_with(
        &self,
        clients: Clients,
        package: &str,
        pins: &[DebPin],
        events: &Events,
    ) -> Result<Vec<Deb>> {
        let apt = Apt::new(self.path("apt"), clients)?;
        apt.download(&[package.to_owned()], pins, &Step::start(events, "apt", "", None))
    }

    /// One more source of packages, which does not exist.
    fn add_stale_source(&self) {
        let list = self.path("sources.list");
        let stale = format!("deb [trusted=yes] copy:{} ./\n", self.path("gone").display());
        fs::write(&list, fs::read_to_string(&list).unwrap() + &stale).unwrap();
    }

    /// The packages in apt's own directory.
    fn downloaded(&self) -> Vec<String> {
        let mut names = fixture::names_in(&self.path("apt/archives"));
        names.retain(|name| name != "partial");
        names
    }
}

fn versions(debs: &[Deb]) -> Vec<(&str, &str, bool)> {
    debs.iter().map(|deb| (deb.name.as_str(), deb.version.as_str(), deb.pinned)).collect()
}

#[test]
fn what_a_package_depends_on_comes_along() {
    let Some(archive) = Archive::new() else { return };
    let debs = archive.download("flotilla-tool", &[]).unwrap();
    assert_eq!(versions(&debs), [("flotilla-lib", "1.0", false), ("flotilla-tool", "2.0", false)]);
    for deb in &debs {
        assert_eq!(deb.sha256, archive.pin(&deb.name, &deb.version).sha256);
        assert_eq!(hash::of_file(&deb.file).unwrap(), deb.sha256);
    }
    let names = read_files(&debs[1].file, |tar| {
        let mut tar = tar::Archive::new(tar);
        let names = tar.entries()?.map(|entry| Ok(entry?.path()?.display().to_string()));
        names.collect::<std::io::Result<Vec<_>>>()
    });
    assert_eq!(names.unwrap().last().unwrap(), "./usr/share/flotilla-tool");
}

#[test]
fn the_pinned_version_is_taken_over_a_newer_one() {
    let Some(archive) = Archive::new() else { return };
    let pins = [archive.pin("flotilla-tool", "1.0"), archive.pin("flotilla-lib", "1.0")];
    let debs = archive.download("flotilla-tool", &pins).unwrap();
    assert_eq!(versions(&debs), [("flotilla-lib", "1.0", true), ("flotilla-tool", "1.0", true)]);
}

#[test]
fn when_the_pinned_version_is_offered_no_more_the_newer_one_is_taken() {
    let Some(archive) = Archive::new() else { return };
    let pins = [DebPin { name: "flotilla-tool".into(), version: "1.5".into(), sha256: "0".repeat(64) }];
    let debs = archive.download("flotilla-tool", &pins).unwrap();
    assert_eq!(versions(&debs), [("flotilla-lib", "1.0", false), ("flotilla-tool", "2.0", false)]);
}

#[test]
fn a_package_that_is_not_the_pinned_one_is_refused_and_removed() {
    let Some(archive) = Archive::new() else { return };
    let actual = archive.pin("flotilla-tool", "1.0").sha256;
    let pins = [DebPin { sha256: "0".repeat(64), ..archive.pin("flotilla-tool", "1.0") }];
    let error = archive.download("flotilla-tool", &pins).unwrap_err();
    assert_eq!(error.code().exit_status, 40);
    let expected = format!(
        "wrong checksum of the package flotilla-tool 1.0 (userland): expected {}, got {actual}",
        "0".repeat(64)
    );
    assert_eq!(error.to_string(), expected);
    assert_eq!(archive.downloaded(), ["flotilla-lib_1.0_all.deb"]);
}

#[test]
fn a_package_changed_behind_the_index_is_refused_by_apt() {
    let Some(archive) = Archive::new() else { return };
    let deb = archive.deb("flotilla-tool", "2.0");
    let mut bytes = fs::read(&deb).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&deb, bytes).unwrap();
    let error = archive.download("flotilla-tool", &[]).unwrap_err();
    assert!(error.details().iter().any(|line| line.contains("Hash Sum mismatch")), "{error:?}");
    assert_eq!(archive.downloaded(), ["flotilla-lib_1.0_all.deb"]);
}

#[test]
fn what_an_earlier_run_left_is_used_only_if_it_is_pinned() {
    let Some(archive) = Archive::new() else { return };
    let lib = archive.pin("flotilla-lib", "1.0");
    archive.download("flotilla-tool", std::slice::from_ref(&lib)).unwrap();
    assert_eq!(archive.downloaded(), ["flotilla-lib_1.0_all.deb", "flotilla-tool_2.0_all.deb"]);
    fs::write(archive.path("apt/archives/broken_1_all.deb"), "torn").unwrap();
    // The archive has the library no more: only what was left can be it.
    fs::remove_file(archive.deb("flotilla-lib", "1.0")).unwrap();

    let pins = [archive.pin("flotilla-tool", "1.0"), lib];
    let debs = archive.download("flotilla-tool", &pins).unwrap();
    assert_eq!(versions(&debs), [("flotilla-lib", "1.0", true), ("flotilla-tool", "1.0", true)]);
}

#[test]
fn a_package_that_does_not_exist_is_reported_in_apts_words() {
    let Some(archive) = Archive::new() else { return };
    let error = archive.download("flotilla-absent", &[]).unwrap_err();
    assert_eq!(error.details(), ["E: Unable to locate package flotilla-absent"]);
    assert!(error.to_string().contains("flotilla-absent"), "{error}");
}

#[test]
fn a_dependency_that_does_not_exist_is_reported_in_apts_words() {
    let Some(mut archive) = Archive::new() else { return };
    archive.add("flotilla-broken", "1.0", "Depends: flotilla-absent\n");
    archive.publish();
    let error = archive.download("flotilla-broken", &[]).unwrap_err();
    assert!(
        error
            .details()
            .iter()
            .any(|line| line.contains("unmet dependencies") || line.contains("held broken")),
        "{error:?}"
    );
}

#[test]
fn a_cancelled_download_is_an_interruption() {
    let Some(archive) = Archive::new() else { return };
    archive.cancel.cancel();
    let error = archive.download("flotilla-tool", &[]).unwrap_err();
    assert_eq!(error.code().exit_status, 130, "{error}");
}

#[test]
fn a_source_that_cannot_be_reached_is_reported_instead_of_the_packages_it_lacks() {
    let Some(archive) = Archive::new() else { return };
    fs::remove_file(archive.path("repo/Packages")).unwrap();
    let error = archive.download("flotilla-tool", &[]).unwrap_err();
    assert!(error.to_string().contains("update"), "{error}");
    assert!(!error.details().iter().any(|line| line.contains("Unable to locate")), "{error:?}");
}

#[test]
fn a_stale_source_of_others_is_a_warning_if_all_packages_are_found() {
    let Some(archive) = Archive::new() else { return };
    archive.add_stale_source();
    let events = Events::default();
    archive.download_with(archive.clients(), "flotilla-tool", &[], &events).unwrap();
    let warned = |event: &flotilla_core::Event| matches!(event, flotilla_core::Event::Warning { text } if text.starts_with("apt-get update: "));
    assert!(events.lock().unwrap().iter().any(warned), "{events:?}");
}

/// What apt changes of the host goes to a directory of the test's, whoever else works there at the same time: a layer over
/// each of the host's directories.
fn with_layers(archive: &Archive, directories: &[&str]) -> Clients {
    let mut script = "#!/bin/sh\nset -e\n".to_owned();
    for directory in directories {
        let layer = archive.path(&format!("layers{directory}"));
        let work = archive.path(&format!("work{directory}"));
        for path in [&layer, &work] {
            fs::create_dir_all(path).unwrap();
        }
        let (layer, work) = (layer.display(), work.display());
        let options = format!("lowerdir={directory},upperdir={layer},workdir={work}");
        writeln!(script, "mount -t overlay -o {options} overlay {directory}").unwrap();
    }
    script += "exec \"$@\"\n";
    let bin = archive.path("bin");
    fs::create_dir(&bin).unwrap();
    let layered = bin.join("layered");
    write_program(&layered, &script);
    let real = Command::new("which").arg("apt-get").run().unwrap().text();
    let apt_get = format!("#!/bin/sh\nexec unshare --mount {} {real} \"$@\"\n", layered.display());
    write_program(&bin.join("apt-get"), &apt_get);
    let mut clients = archive.clients();
    clients.env.push(("PATH".into(), format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", bin.display())));
    clients
}

#[test]
fn the_host_is_not_touched() {
    if !fixture::is_root() {
        return;
    }
    let Some(archive) = Archive::new() else { return };
    let directories = ["/var/lib/dpkg", "/var/lib/apt", "/var/cache/apt", "/var/log/apt", "/etc/apt"];
    let directories: Vec<&str> =
        directories.into_iter().filter(|directory| Path::new(directory).is_dir()).collect();
    let clients = with_layers(&archive, &directories);
    let download = |package: &str, pins: &[DebPin]| {
        archive.download_with(clients.clone(), package, pins, &Events::default())
    };
    download("flotilla-tool", &[archive.pin("flotilla-tool", "1.0")]).unwrap();
    download("flotilla-absent", &[]).unwrap_err();
    for directory in directories {
        assert_eq!(
            fixture::names_below(&archive.path(&format!("layers{directory}"))),
            [""; 0],
            "{directory}"
        );
    }
    assert!(!Path::new("/usr/share/flotilla-tool").exists());
}

#[test]
fn clearing_removes_lists_and_archives() {
    let Some(archive) = Archive::new() else { return };
    archive.download("flotilla-lib", &[]).unwrap();
    Apt::new(archive.path("apt"), Clients::default()).unwrap().clear().unwrap();
    assert!(!archive.path("apt").exists());
}
