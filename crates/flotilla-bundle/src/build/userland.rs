//! The node's userland: a few programs out of Debian packages, with the libraries they are linked to and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flotilla_core::Unit;
use flotilla_core::event::Step;
use tar::EntryType;

use super::BuildSource;
use super::apt::{self, Apt, Deb};
use crate::elf;
use crate::error::{At, BundleError, Result};
use crate::lock::Userland;
use crate::platform::Platform;
use crate::source::{DebianPackage, Provenance, Workplace};
use crate::unpack::{self, Unpack};

/// Directories of packages that no program reads.
const SKIPPED: [&str; 3] = ["usr/share/man/", "usr/share/locale/", "usr/share/perl/"];
/// Where each package has a directory, or a link to that of another one, with its copyright file.
const DOCUMENTATION: &str = "usr/share/doc";
const COPYRIGHT: &str = "copyright";
/// Directories of a root that is not merged; in the node they are links into `/usr`.
const UNMERGED: [&str; 4] = ["bin", "sbin", "lib", "lib64"];
/// How many packages a warning names.
const NAMED: usize = 5;
/// What building runc needs, and where in the part it goes.
const DEVEL: [&str; 3] =
    ["usr/include/seccomp.h", "usr/include/seccomp-syscalls.h", "usr/lib/{multiarch}/libseccomp.a"];
const CERTIFICATES: &str = "usr/share/ca-certificates/mozilla";

impl BuildSource {
    /// Makes `root/` (for the node) and `devel/` (for building runc) in the part.
    pub(super) fn unpack_userland(
        &self,
        userland: &Userland,
        at: &Workplace<'_>,
        step: &Step<'_>,
    ) -> Result<Provenance> {
        let apt = Apt::new(self.cache.join("apt"), self.clients.clone())?;
        let pins = userland.pins_for(&self.platform);
        let debs = apt.download(&userland.packages, pins.unwrap_or_default(), step)?;
        let &Workplace { files: into, scratch } = at;
        let owners = unpack_all(&debs, scratch, step)?;
        let chosen = choose(userland, scratch)?;
        for path in &chosen {
            copy(scratch, path, &into.join("root").join(path))?;
        }
        write_certificates(scratch, &into.join("root/etc/ssl/certs/ca-certificates.crt"))?;
        let devel: Vec<PathBuf> = DEVEL.iter().map(|path| localised(path)).collect();
        for path in &devel {
            copy(scratch, path, &into.join("devel").join(path.file_name().expect("a file's path")))?;
        }
        let certificates = owners.keys().filter(|path| path.starts_with(CERTIFICATES));
        let used: BTreeSet<&str> = chosen
            .iter()
            .chain(&devel)
            .chain(certificates)
            .filter_map(|path| owners.get(path))
            .map(String::as_str)
            .collect();
        let packages: Vec<DebianPackage> =
            debs.iter().filter(|deb| used.contains(deb.name.as_str())).map(describe).collect();
        for package in &packages {
            copy_copyright(scratch, &package.name, &into.join("root"))?;
        }
        let unpinned: Vec<_> = packages.iter().filter(|package| !package.pinned).collect();
        if let Some(warning) = unpinned_warning(&unpinned, pins.is_some(), &self.platform) {
            step.warn(warning);
        }
        apt.clear()?;
        Ok(Provenance::Debian { packages })
    }
}

fn describe(deb: &Deb) -> DebianPackage {
    DebianPackage {
        name: deb.name.clone(),
        version: deb.version.clone(),
        sha256: deb.sha256.clone(),
        pinned: deb.pinned,
    }
}

/// One warning for all packages that the lock file does not have.
fn unpinned_warning(unpinned: &[&DebianPackage], locked: bool, platform: &Platform) -> Option<String> {
    let count = unpinned.len();
    if count == 0 {
        return None;
    }
    if !locked {
        return Some(format!(
            "the lock file has no pins for {platform}: only apt's signed index vouches for the {count} packages of \
             the userland"
        ));
    }
    let mut names: Vec<String> =
        unpinned.iter().take(NAMED).map(|package| format!("{} {}", package.name, package.version)).collect();
    if count > NAMED {
        names.push(format!("{} more", count - NAMED));
    }
    Some(format!("apt offers other versions than the lock file: {}", names.join(", ")))
}

/// The terms of a package go where its programs go.
fn copy_copyright(root: &Path, package: &str, into: &Path) -> Result<()> {
    let path = Path::new(DOCUMENTATION).join(package).join(COPYRIGHT);
    let missing = || BundleError::NoSuchFile { path: format!("/{}", path.display()) };
    // The directory may be a link to that of another package, but not to one of the host.
    let source = root.join(&path).canonicalize().map_err(|_| missing())?;
    if !source.starts_with(root.canonicalize().at("read", root)?) {
        return Err(missing());
    }
    let target = into.join(&path);
    let parent = target.parent().expect("the target has a directory");
    fs::create_dir_all(parent).at("make", parent)?;
    fs::copy(&source, &target).map(drop).at("copy", &source)
}

/// Unpacks all packages into one root. Says which package each file is from.
fn unpack_all(debs: &[Deb], root: &Path, step: &Step<'_>) -> Result<BTreeMap<PathBuf, String>> {
    let mut owners = BTreeMap::new();
    let mut unpack = Unpack::into(root);
    for (done, deb) in (0..).zip(debs) {
        step.progress(done, Some(debs.len() as u64), Unit::Packages, format!("unpacking {}", deb.name));
        apt::read_files(&deb.file, |tar| {
            unpack_one(tar, &mut unpack, |path| {
                owners.insert(path, deb.name.clone());
            })
            .map_err(io::Error::other)
        })?;
    }
    unpack.finish()?;
    Ok(owners)
}

fn unpack_one(tar: &mut dyn Read, unpack: &mut Unpack<'_>, mut own: impl FnMut(PathBuf)) -> Result<()> {
    let name = Path::new("the package");
    for entry in tar::Archive::new(tar).entries().at("read", name)? {
        let mut entry = entry.at("read", name)?;
        let header = entry.header().clone();
        let Some(path) = unpack::inside(&entry.path().at("read", name)?) else { continue };
        if is_skipped(&path, header.entry_type()) {
            continue;
        }
        let path = merged(&path);
        let mode = header.mode().at("read", name)? & 0o777;
        let target = entry.link_name().at("read", name)?.map(std::borrow::Cow::into_owned);
        match (header.entry_type(), target) {
            (EntryType::Regular, _) => drop(unpack.file(&path, mode, u64::MAX, &mut entry)?),
            (EntryType::Symlink, Some(target)) => {
                let target = if target.is_absolute() {
                    Path::new("/").join(merged(target.strip_prefix("/").unwrap_or(&target)))
                } else {
                    target
                };
                unpack.link(path.clone(), unpack::relative_target(&path, &target));
            }
            (EntryType::Link, Some(target)) => {
                let Some(target) = unpack::inside(&target) else { continue };
                unpack.hard_link(&path, &merged(&target))?;
            }
            _ => continue,
        }
        own(path);
    }
    Ok(())
}

fn is_skipped(path: &Path, kind: EntryType) -> bool {
    // From Debian 13 on, a package has the links themselves.
    if kind == EntryType::Symlink && UNMERGED.iter().any(|directory| path == Path::new(directory)) {
        return true;
    }
    let Ok(documentation) = path.strip_prefix(DOCUMENTATION) else {
        return SKIPPED.iter().any(|skipped| path.starts_with(skipped));
    };
    let links_directory = kind == EntryType::Symlink && documentation.components().count() == 1;
    let is_copyright = documentation.components().count() == 2 && documentation.ends_with(COPYRIGHT);
    !links_directory && !is_copyright
}

/// Older packages still have their files in `/bin`, `/sbin` and `/lib`.
fn merged(path: &Path) -> PathBuf {
    let is_unmerged = UNMERGED.iter().any(|directory| path.starts_with(directory));
    if is_unmerged { Path::new("usr").join(path) } else { path.to_owned() }
}

/// The programs and data of the lock file with the libraries they need.
fn choose(userland: &Userland, root: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut chosen = BTreeSet::new();
    for wanted in userland.programs.iter().chain(&userland.data) {
        let path = localised(wanted.trim_start_matches('/'));
        let full = root.join(&path);
        if wanted.ends_with('/') {
            let items = fs::read_dir(&full).map_err(|_| BundleError::NoSuchFile { path: wanted.clone() })?;
            for item in items {
                chosen.insert(path.join(item.at("read", &full)?.file_name()));
            }
        } else if full.is_symlink() || full.exists() {
            chosen.insert(path);
        } else {
            return Err(BundleError::NoSuchFile { path: wanted.clone() });
        }
    }
    for terminal in &userland.terminals {
        // Debian moved them.
        let places =
            ["usr/lib", "usr/share"].map(|place| format!("{place}/terminfo/{}/{terminal}", &terminal[..1]));
        let found = places.iter().map(PathBuf::from).find(|path| root.join(path).exists());
        chosen.insert(found.ok_or_else(|| BundleError::NoSuchFile { path: places[1].clone() })?);
    }
    let files: Vec<PathBuf> = chosen.iter().filter(|path| root.join(path).is_file()).cloned().collect();
    chosen.extend(elf::libraries(root, files)?);
    Ok(chosen)
}

/// One file that holds every certificate authority, as the package's own script would make it.
fn write_certificates(root: &Path, target: &Path) -> Result<()> {
    let directory = root.join(CERTIFICATES);
    let mut files: Vec<PathBuf> = fs::read_dir(&directory)
        .at("read", &directory)?
        .filter_map(|item| item.ok().map(|item| item.path()))
        .collect();
    files.sort();
    let mut all = Vec::new();
    for file in files {
        all.extend(fs::read(&file).at("read", &file)?);
    }
    let parent = target.parent().expect("the target has a directory");
    fs::create_dir_all(parent).at("make", parent)?;
    fs::write(target, all).at("write", target)
}

fn copy(root: &Path, path: &Path, target: &Path) -> Result<()> {
    let source = root.join(path);
    let parent = target.parent().expect("the target has a directory");
    fs::create_dir_all(parent).at("make", parent)?;
    if source.is_symlink() {
        let leads_to = fs::read_link(&source).at("read", &source)?;
        std::os::unix::fs::symlink(leads_to, target).at("write", target)
    } else {
        fs::copy(&source, target).map(drop).at("copy", &source)
    }
}

fn localised(path: &str) -> PathBuf {
    path.replace("{multiarch}", &elf::multiarch()).into()
}

#[cfg(test)]
mod tests;
