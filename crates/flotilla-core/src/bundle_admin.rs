//! What people do with the bundles of a host: look at them, build, copy and remove them.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::bundles::{BundlesError, Origin};
use crate::event::{Outcome, Reporter};

/// A bundle in a few words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleSummary {
    pub kubernetes: String,
    pub digest: String,
    pub architecture: String,
    /// What provided its parts.
    pub source: String,
    /// It came out of an archive: what it was made from is not verified.
    pub imported: bool,
    pub created: String,
    pub sizes: BundleSizes,
    pub path: PathBuf,
}

impl BundleSummary {
    /// A digest as people see it and type it.
    pub fn short_digest(&self) -> &str {
        short_digest(&self.digest)
    }
}

/// The beginning of a digest: enough for people.
pub fn short_digest(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

/// In bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleSizes {
    pub bin: u64,
    pub rootfs: u64,
    pub store: u64,
    /// Of all of it: a file that is in several places counts once.
    pub on_disk: u64,
}

/// The bundles of a host, the newest Kubernetes first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleList {
    pub bundles: Vec<BundleSummary>,
    pub unreadable: Vec<UnreadableBundle>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadableBundle {
    pub digest: String,
    pub why: String,
}

/// All that people want to know of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleDetails {
    pub summary: BundleSummary,
    /// Of `on_disk`, what the image of its snapshots takes, which is made on each host.
    pub image_bytes: u64,
    pub components: Vec<BundleComponent>,
    /// Names as kubeadm prints them.
    pub images: Vec<String>,
    /// Files whose content differs between two builds from the same source, and why.
    pub varies: Vec<(String, String)>,
    /// Everything that is recorded of it, for programs: JSON.
    pub record: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleComponent {
    pub name: String,
    pub version: String,
    pub bytes: u64,
    pub from: ComponentOrigin,
}

/// Where a component of a bundle came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ComponentOrigin {
    GoModule(String),
    Checkout {
        path: String,
        commit: String,
        /// It was not as that commit has it.
        modified: bool,
    },
    OwnProgram,
    Debian {
        packages: usize,
        /// Those that the lock file does not have.
        unpinned: usize,
    },
}

/// Which bundle to build.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BuildRequest {
    /// A Kubernetes version of the lock file; the default one if none is named.
    pub kubernetes: Option<String>,
    pub source: SourceChoice,
    /// Build Kubernetes from this checkout instead of the pinned module.
    pub kubernetes_source: Option<PathBuf>,
    /// Keep what the compilers have cached, for another build that follows.
    pub keep_cache: bool,
}

/// Where a bundle may come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceChoice {
    /// A bundle that exists, else the first source that can be used.
    #[default]
    Auto,
    /// Built from the pinned source of this very lock file, with the host's package clients.
    Build,
}

/// A bundle that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltBundle {
    pub bundle: BundleSummary,
    /// Whether it was built, or existed before.
    pub outcome: Outcome,
    pub origin: Origin,
}

/// A bundle whose files are as they were made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedBundle {
    pub bundle: BundleSummary,
    pub files: usize,
}

/// A bundle that is to be removed. While this lives, nobody else changes the bundles, and nobody begins to use this one.
pub trait BundleRemoval {
    fn digest(&self) -> &str;

    /// A command that creates nodes holds it: see [`crate::Bundles::hold`].
    fn is_held(&self) -> bool;

    /// Removes it, whoever uses it.
    fn finish(self: Box<Self>) -> Result<(), BundlesError>;
}

/// The bundles of a host as people manage them. `which` is a Kubernetes version, or how a digest begins.
pub trait BundleAdmin: Send + Sync {
    /// One that cannot be read does not hide the others.
    fn list(&self) -> Result<BundleList, BundlesError>;

    fn show(&self, which: &str) -> Result<BundleDetails, BundlesError>;

    /// Reads every byte and says what is not as it was made.
    fn verify(&self, which: &str, reporter: &dyn Reporter) -> Result<VerifiedBundle, BundlesError>;

    /// The bundle that was asked for: the one that exists, else a new one.
    fn build(&self, request: &BuildRequest, reporter: &dyn Reporter) -> Result<BuiltBundle, BundlesError>;

    /// Removes everything that no bundle consists of. Gives the bytes that were freed.
    fn clean(&self, reporter: &dyn Reporter) -> Result<u64, BundlesError>;

    /// Writes the bundle to a file, which appears when it is whole.
    fn export(
        &self,
        which: &str,
        file: &Path,
        reporter: &dyn Reporter,
    ) -> Result<BundleSummary, BundlesError>;

    /// Takes in what [`BundleAdmin::export`] has written, if it has this digest.
    fn import(
        &self,
        file: &Path,
        digest: Option<&str>,
        reporter: &dyn Reporter,
    ) -> Result<BundleSummary, BundlesError>;

    /// The first half of removing a bundle, also of one that cannot be read. Changes nothing yet: who uses it is asked while
    /// the removal lives.
    fn begin_removal(
        &self,
        which: &str,
        reporter: &dyn Reporter,
    ) -> Result<Box<dyn BundleRemoval + '_>, BundlesError>;
}
