//! Debian packages through the host's apt, without touching what the host has installed.
//!
//! Apt gets a state of its own: an empty package database, so that it names everything that is needed, and its own
//! lists and archives. The host's settings for package sources and trusted keys stay in force.

use std::fs;
use std::path::{Path, PathBuf};

use flotilla_core::Unit;
use flotilla_core::event::Step;
use flotilla_linux::host::Command;

use super::Clients;
use crate::error::{At, BundleError, Result};
use crate::hash;
use crate::lock::DebPin;

/// The host's hooks would change the host: refresh its caches, remove its packages' files. Read after its settings.
const NO_HOOKS: &str = "#clear APT::Update::Pre-Invoke;\n#clear APT::Update::Post-Invoke;\n\
    #clear APT::Update::Post-Invoke-Success;\n#clear DPkg::Pre-Invoke;\n#clear DPkg::Post-Invoke;\n";

/// An apt of its own in a directory.
#[derive(Debug)]
pub struct Apt {
    directory: PathBuf,
    clients: Clients,
}

/// A package file, checked.
#[derive(Debug, Clone)]
pub struct Deb {
    pub file: PathBuf,
    pub name: String,
    pub version: String,
    pub sha256: String,
    /// The lock file names this version, so this content.
    pub pinned: bool,
}

impl Apt {
    pub fn new(directory: PathBuf, clients: Clients) -> Result<Self> {
        for part in ["lists/partial", "archives/partial", "log"] {
            let path = directory.join(part);
            fs::create_dir_all(&path).at("make", &path)?;
        }
        for (name, text) in [("status", ""), ("preferences", ""), ("apt.conf", NO_HOOKS)] {
            let path = directory.join(name);
            fs::write(&path, text).at("write", &path)?;
        }
        Ok(Self { directory, clients })
    }

    /// Downloads the packages and all they depend on, in the pinned versions where apt still offers those.
    pub fn download(&self, packages: &[String], pins: &[DebPin], step: &Step<'_>) -> Result<Vec<Deb>> {
        let preferences = self.directory.join("preferences");
        fs::write(&preferences, render_preferences(pins)).at("write", &preferences)?;
        self.forget_unpinned(pins)?;
        step.progress(0, None, Unit::Packages, "reading the package lists");
        // Without `--error-on`, an update that reaches no server is a success.
        let updated = self.apt_get(["update", "--error-on=any"]).run();
        let (mut done, mut total) = (0, None);
        let installed = self
            .apt_get(["install", "--download-only", "--yes", "--no-install-recommends"])
            .args(packages)
            .stream(|line| {
                total = total.or_else(|| newly_installed(&line.text));
                if let Some(package) = line.text.strip_prefix("Get:").and_then(|rest| rest.split(' ').nth(4))
                {
                    done += 1;
                    step.progress(done, total, Unit::Packages, package);
                }
            });
        match (updated, installed) {
            // Lists that cannot be read explain why something is not in them.
            (Err(error), Err(_)) | (Ok(_), Err(error)) => return Err(error.into()),
            // One of the host's sources may be stale and none of ours: it is enough that all packages were found.
            (Err(error), Ok(_)) => step.warn(format!("apt-get update: {}", error.tail().join("; "))),
            (Ok(_), Ok(_)) => {}
        }
        self.archives()?.into_iter().map(|file| self.check(file, pins)).collect()
    }

    /// The package files that exist, sorted.
    fn archives(&self) -> Result<Vec<PathBuf>> {
        let archives = self.directory.join("archives");
        let mut files: Vec<PathBuf> = fs::read_dir(&archives)
            .at("read", &archives)?
            .filter_map(|item| item.ok().map(|item| item.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "deb"))
            .collect();
        files.sort();
        Ok(files)
    }

    /// Of what a run left that did not come to its end, keeps the pinned packages. Others may be ones that apt would
    /// not choose now, and then there would be two of a kind.
    fn forget_unpinned(&self, pins: &[DebPin]) -> Result<()> {
        for file in self.archives()? {
            let pinned = self.check(file.clone(), pins).is_ok_and(|deb| deb.pinned);
            if !pinned && file.exists() {
                fs::remove_file(&file).at("remove", &file)?;
            }
        }
        Ok(())
    }

    /// Reads the package's name and compares it with its pin. A file with the wrong checksum is removed.
    fn check(&self, file: PathBuf, pins: &[DebPin]) -> Result<Deb> {
        let show = "--showformat=${Package}\n${Version}\n";
        let output = self.clients.command("dpkg-deb").arg(show).arg("--show").arg(&file).run()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut lines = text.lines().map(str::to_owned);
        let (name, version) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        let sha256 = hash::of_file(&file).at("read", &file)?;
        let pin = pins.iter().find(|pin| pin.name == name && pin.version == version);
        if let Some(pin) = pin.filter(|pin| pin.sha256 != sha256) {
            fs::remove_file(&file).at("remove", &file)?;
            return Err(BundleError::Checksum {
                component: "userland".into(),
                what: format!("the package {name} {version}"),
                expected: pin.sha256.clone(),
                actual: sha256,
            });
        }
        Ok(Deb { file, name, version, sha256, pinned: pin.is_some() })
    }

    fn apt_get<const N: usize>(&self, args: [&str; N]) -> Command {
        let at = |name: &str| self.directory.join(name).display().to_string();
        let options = [
            ("Dir::State::status", at("status")),
            ("Dir::State::extended_states", at("extended_states")),
            ("Dir::State::Lists", at("lists")),
            ("Dir::Cache::archives", at("archives")),
            ("Dir::Cache::pkgcache", String::new()),
            ("Dir::Cache::srcpkgcache", String::new()),
            ("Dir::Etc::preferences", at("preferences")),
            ("Dir::Log", at("log")),
            // Our directory is locked by us, and may be one that apt's own user cannot enter.
            ("Debug::NoLocking", "true".into()),
            ("APT::Sandbox::User", "root".into()),
        ];
        options
            .iter()
            .fold(
                self.clients.command("apt-get").arg("-c").arg(self.directory.join("apt.conf")),
                |apt, (name, value)| apt.arg("-o").arg(format!("{name}={value}")),
            )
            .args(args)
            .env("DEBIAN_FRONTEND", "noninteractive")
    }

    /// Removes lists and archives.
    pub fn clear(self) -> Result<()> {
        fs::remove_dir_all(&self.directory).at("remove", &self.directory)
    }
}

/// Makes apt take the pinned version of each package if there is one, over newer ones too.
fn render_preferences(pins: &[DebPin]) -> String {
    let pin =
        |pin: &DebPin| format!("Package: {}\nPin: version {}\nPin-Priority: 1001\n\n", pin.name, pin.version);
    pins.iter().map(pin).collect()
}

/// The number in `0 upgraded, 110 newly installed, 0 to remove …`.
fn newly_installed(line: &str) -> Option<u64> {
    line.split(", ").find_map(|part| part.strip_suffix(" newly installed"))?.parse().ok()
}

/// The tar stream in a package file.
pub(super) fn read_files<T>(
    deb: &Path,
    read: impl FnOnce(&mut dyn std::io::Read) -> std::io::Result<T>,
) -> Result<T> {
    Ok(Command::new("dpkg-deb").arg("--fsys-tarfile").arg(deb).pipe_stdout(read)?)
}

#[cfg(test)]
pub(super) mod tests;
