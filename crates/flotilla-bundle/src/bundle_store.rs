//! The bundles on this machine: finding, checking and removing them, and making the ones that are missing.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use flotilla_core::Cancel;
use flotilla_core::Unit;
use flotilla_core::event::{Outcome, Reporter, Step};
use flotilla_core::layout::{BundleLayout, SNAPSHOTS_IMAGE};
use flotilla_files::{FileLock, Holder};
use flotilla_linux::{disk, erofs};
use serde::Serialize;

use crate::durable;
use crate::error::{At, BundleError, Result};
use crate::inventory;
use crate::lock::Lock;
use crate::manifest::{self, Manifest};
use crate::recipe;

mod hold;
mod put;
mod snapshots;

pub use hold::Hold;

/// Where bundles and what they are made from are kept, below the state directory.
#[derive(Debug)]
pub struct BundleStore {
    home: PathBuf,
    pub(crate) lock: Lock,
    pub(crate) cancel: Cancel,
}

/// A whole bundle.
#[derive(Debug, Clone, Serialize)]
pub struct Bundle {
    pub path: PathBuf,
    #[serde(flatten)]
    pub manifest: Manifest,
}

impl Bundle {
    /// Bytes on disk: its files, and what is made from them on this host.
    pub fn on_disk(&self) -> u64 {
        self.manifest.sizes.on_disk + self.image_bytes()
    }

    /// Of the image of its snapshots.
    pub fn image_bytes(&self) -> u64 {
        disk::allocated_bytes(&BundleLayout::at(&self.path).snapshots_image()).unwrap_or_default()
    }
}

/// The bundles in the bundle store.
#[derive(Debug, Default)]
pub struct Listing {
    pub bundles: Vec<Bundle>,
    /// Digests of bundles whose manifest cannot be read, and why.
    pub unreadable: Vec<(String, BundleError)>,
}

/// A bundle that is to be removed.
#[derive(Debug)]
pub struct Removal<'a> {
    bundle_store: &'a BundleStore,
    digest: String,
    /// None: somebody holds it.
    alone: Option<Hold>,
    _lock: FileLock,
}

impl Removal<'_> {
    pub fn digest(&self) -> &str {
        &self.digest
    }

    pub fn is_held(&self) -> bool {
        self.alone.is_none()
    }

    /// Removes the bundle, whoever uses it.
    pub fn finish(self) -> Result<()> {
        self.bundle_store.discard(&self.bundle_store.bundles().join(&self.digest))
    }
}

/// Names of directories that are not bundles: in the making, or on their way out.
pub(crate) const UNFINISHED: &str = ".unfinished-";
/// Fewer digits stand for no bundle.
const SHORTEST_DIGEST: usize = 4;

impl BundleStore {
    /// Opens the bundle store of a state directory. Creates nothing until a bundle is added.
    pub fn open(home: PathBuf, cancel: Cancel) -> Result<Self> {
        Ok(Self { home, lock: Lock::parse(&recipe::lock_text())?, cancel })
    }

    /// The Kubernetes version of a bundle when none is asked for.
    pub fn default_version(&self) -> &str {
        &self.lock.default
    }

    /// All bundles, newest Kubernetes first. One that cannot be read does not hide the others.
    pub fn list(&self) -> Result<Listing> {
        let mut listing = Listing::default();
        for path in directories(&self.bundles())? {
            let name = file_name(&path);
            if name.starts_with('.') {
                continue;
            }
            match Manifest::load(&path) {
                Ok(manifest) => listing.bundles.push(Bundle { path, manifest }),
                Err(error) => listing.unreadable.push((name, error)),
            }
        }
        listing.bundles.sort_by(|a, b| {
            let key =
                |bundle: &Bundle| (numbers(&bundle.manifest.kubernetes), bundle.manifest.created.clone());
            key(b).cmp(&key(a))
        });
        Ok(listing)
    }

    /// The bundle of a Kubernetes version (the newest one, if there are several) or with a digest that begins so.
    pub fn find(&self, which: &str) -> Result<Bundle> {
        let digest = which.strip_prefix("sha256:").unwrap_or(which);
        let is_version = |bundle: &Bundle| {
            bundle.manifest.kubernetes == which || bundle.manifest.kubernetes.strip_prefix('v') == Some(which)
        };
        let mut bundles = self.list()?.bundles;
        if let Some(found) = bundles.iter().position(is_version) {
            return Ok(bundles.swap_remove(found));
        }
        bundles
            .retain(|bundle| digest.len() >= SHORTEST_DIGEST && bundle.manifest.digest.starts_with(digest));
        match bundles.len() {
            0 => Err(BundleError::NotFound { which: which.to_owned() }),
            1 => Ok(bundles.swap_remove(0)),
            _ => Err(BundleError::Ambiguous {
                which: which.to_owned(),
                digests: bundles.iter().map(|bundle| bundle.manifest.short_digest().to_owned()).collect(),
            }),
        }
    }

    /// The bundle of exactly this digest. Reads no other.
    pub fn get(&self, digest: &str) -> Result<Bundle> {
        let path = self.bundles().join(digest);
        if !path.is_dir() {
            return Err(BundleError::NotFound { which: digest.to_owned() });
        }
        Ok(Bundle { manifest: Manifest::load(&path)?, path })
    }

    /// Reads every byte and says what is not as it was made.
    pub fn verify(&self, bundle: &Bundle, reporter: &dyn Reporter) -> Result<()> {
        let title = format!("checking {}", bundle.manifest.kubernetes);
        let step = Step::start(reporter, "verify", title, None);
        let total = inventory::bytes(&bundle.manifest.files);
        let mut done = 0;
        let findings = findings(&bundle.path, &bundle.manifest, |bytes| {
            done += bytes;
            step.progress(done, Some(total), Unit::Bytes, "");
        })?;
        if findings.is_empty() {
            step.done(Outcome::Done);
            return Ok(());
        }
        Err(BundleError::Damaged { bundle: bundle.manifest.short_digest().to_owned(), findings })
    }

    /// Prepares to remove a bundle; one whose manifest cannot be read, too. While the removal lives, nobody else changes the
    /// bundle store.
    pub fn begin_removal(&self, which: &str, reporter: &dyn Reporter) -> Result<Removal<'_>> {
        // A wrong name is reported before anything is made or waited for.
        let digest = self.name_of(which)?;
        self.check_writable()?;
        let lock = self.acquire("remove a bundle", reporter)?;
        let alone = hold::alone(&self.bundles().join(&digest))?;
        Ok(Removal { bundle_store: self, digest, alone, _lock: lock })
    }

    /// Removes a bundle's directory. Renamed first: half a bundle must never look like one.
    pub(crate) fn discard(&self, path: &Path) -> Result<()> {
        let doomed = self.bundles().join(format!("{UNFINISHED}{}", file_name(path)));
        fs::rename(path, &doomed).at("remove", path)?;
        fs::remove_dir_all(&doomed).at("remove", &doomed)
    }

    /// The name of the directory of a bundle, which may be one that cannot be read.
    fn name_of(&self, which: &str) -> Result<String> {
        let digest = which.strip_prefix("sha256:").unwrap_or(which);
        let mut names: Vec<String> = self.list()?.unreadable.into_iter().map(|(name, _)| name).collect();
        names.retain(|name| digest.len() >= SHORTEST_DIGEST && name.starts_with(digest));
        match self.find(which) {
            Ok(bundle) => names.push(file_name(&bundle.path)),
            Err(BundleError::NotFound { .. }) if !names.is_empty() => {}
            Err(error) => return Err(error),
        }
        match names.len() {
            1 => Ok(names.swap_remove(0)),
            _ => Err(BundleError::Ambiguous { which: which.to_owned(), digests: names }),
        }
    }

    /// Told before any work: a bundle's files belong to root.
    pub(crate) fn check_permission(&self) -> Result<()> {
        if !rustix::process::geteuid().is_root() {
            return Err(BundleError::NotRoot);
        }
        self.check_writable()
    }

    fn check_writable(&self) -> Result<()> {
        // Asked for what is in it: a file in its place can be written to as well.
        if disk::is_writable(&self.bundles()) {
            return Ok(());
        }
        // What root has made is root's to change. In another directory everything would be built once more.
        if rustix::process::geteuid().is_root() {
            Err(BundleError::NotWritable { path: self.home.clone() })
        } else {
            Err(BundleError::NotRoot)
        }
    }

    /// Waits until no other flotilla changes the bundle store, and reports which process it waits for.
    pub(crate) fn acquire(&self, what: &str, reporter: &dyn Reporter) -> Result<FileLock> {
        let directory = self.bundles();
        DirBuilder::new().recursive(true).mode(0o700).create(&directory).at("make", &directory)?;
        let path = self.home.join("bundles.lock");
        let since = jiff::Timestamp::now().strftime("%H:%M:%S UTC").to_string();
        let holder = Holder { pid: std::process::id(), what: what.to_owned(), since };
        let lock = FileLock::acquire_unless(
            &path,
            &holder,
            || self.cancel.is_cancelled(),
            |holder| {
                let text = match holder {
                    Some(holder) => {
                        format!(
                            "waiting for process {} to {} (since {})",
                            holder.pid, holder.what, holder.since
                        )
                    }
                    None => "waiting for another flotilla".to_owned(),
                };
                reporter.report(flotilla_core::Event::Note { text });
            },
        )?;
        durable::remove_leftovers(&directory, UNFINISHED)?;
        self.let_people_look()?;
        Ok(lock)
    }

    /// Root makes bundles, and whoever may enter the state directory may list them without being root.
    pub(crate) fn let_people_look(&self) -> Result<()> {
        let mut readable = vec![(self.bundles(), 0o755)];
        for bundle in directories(&self.bundles())? {
            readable.extend([(bundle.join(manifest::FILE), 0o644), (bundle, 0o755)]);
        }
        for (path, mode) in readable.into_iter().filter(|(path, _)| path.exists()) {
            fs::set_permissions(&path, PermissionsExt::from_mode(mode)).at("set the mode of", &path)?;
        }
        Ok(())
    }

    /// The bytes of what a killed run left.
    pub(crate) fn leftover_bytes(&self) -> u64 {
        durable::leftover_bytes(&self.bundles(), UNFINISHED)
    }

    pub(crate) fn bundles(&self) -> PathBuf {
        BundleLayout::bundles(&self.home)
    }

    pub(crate) fn layout(&self, digest: &str) -> BundleLayout {
        BundleLayout::of(&self.home, digest)
    }

    pub(crate) fn cache(&self) -> PathBuf {
        self.home.join("cache")
    }

    pub(crate) fn home(&self) -> &Path {
        &self.home
    }
}

/// What is wrong with a bundle: its files, and the manifest that lists them.
pub(crate) fn findings(bundle: &Path, manifest: &Manifest, seen: impl FnMut(u64)) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    if manifest.computed_digest() != manifest.digest {
        findings.push(format!("{}: the digest does not match the listed files", manifest::FILE));
    }
    let mut files = inventory::compare(bundle, &manifest.files, seen)?;
    let own = [
        manifest::FILE.to_owned(),
        SNAPSHOTS_IMAGE.to_owned(),
        format!("{SNAPSHOTS_IMAGE}{}", erofs::UNFINISHED),
    ];
    files.retain(|finding| !own.iter().any(|own| finding.starts_with(&format!("{own}: not part"))));
    findings.extend(files);
    // Made from damaged files it would be like them.
    if findings.is_empty() {
        findings.extend(snapshots::finding(bundle, &manifest.digest)?);
    }
    Ok(findings)
}

/// What is in a directory. Nothing is in one that does not exist, nor in a file.
pub(crate) fn directories(path: &Path) -> Result<Vec<PathBuf>> {
    match fs::read_dir(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        items => Ok(items.at("read", path)?.filter_map(|item| item.ok().map(|item| item.path())).collect()),
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// `v1.37.1` as numbers, for sorting.
fn numbers(version: &str) -> Vec<u32> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests;
