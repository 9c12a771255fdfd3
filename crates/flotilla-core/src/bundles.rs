//! What nodes are made from: one bundle for each Kubernetes version.

use std::any::Any;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use flotilla_spec::KubernetesVersion;

use crate::bundle_admin::{BundleAdmin, short_digest};
use crate::event::Reporter;
use crate::explain::{Code, Explain};

/// A bundle that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleFacts {
    pub digest: String,
    pub kubernetes: KubernetesVersion,
    /// The image of each pod's first container, which is among its images.
    pub sandbox_image: String,
}

impl BundleFacts {
    /// A digest as people see it and type it.
    pub fn short_digest(&self) -> &str {
        short_digest(&self.digest)
    }
}

/// Who vouches for a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Built here, from the lock file that is compiled in.
    Own,
    /// Built here, by a flotilla with another lock file.
    OtherVersion,
    /// Out of an archive, which may say anything about where it came from.
    Imported,
}

/// What building a bundle will take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forecast {
    pub kubernetes: String,
    /// On two cores.
    pub time: Duration,
    /// Bytes, while it is built.
    pub disk: u64,
}

/// How a bundle can be had, as far as that can be known beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prospect {
    Found,
    /// The host has what building it needs, apart from the right to do so.
    Buildable,
}

/// A bundle could not be found, built or kept.
#[derive(Debug)]
pub struct BundlesError {
    pub kind: BundlesErrorKind,
    pub error: Box<dyn Explain + Send + Sync>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BundlesErrorKind {
    /// What was asked for does not exist, or is not one bundle only: another request can succeed.
    Unavailable,
    /// It cannot be read or built, or the build was interrupted.
    Failed,
}

impl fmt::Display for BundlesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for BundlesError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl Explain for BundlesError {
    fn code(&self) -> Code {
        self.error.code()
    }

    fn hints(&self) -> Vec<String> {
        self.error.hints()
    }

    fn details(&self) -> Vec<String> {
        self.error.details()
    }
}

/// Keeps a bundle from being removed for as long as it lives: until a node is made, nothing else says that it is used.
#[must_use]
pub struct BundleHold(#[expect(dead_code, reason = "held for what its end does")] Box<dyn Any + Send + Sync>);

impl BundleHold {
    pub fn new(held: impl Any + Send + Sync) -> Self {
        Self(Box::new(held))
    }
}

impl fmt::Debug for BundleHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BundleHold")
    }
}

/// The bundles of a host as clusters need them: found, or built. Blocks, for minutes where it builds.
pub trait Bundles: BundleAdmin {
    /// The Kubernetes version of a cluster when none is asked for.
    fn default_version(&self) -> KubernetesVersion;

    /// The bundle of a Kubernetes version, or with a digest that begins so.
    fn find(&self, which: &str) -> Result<BundleFacts, BundlesError>;

    /// Refuses a version for which there is no bundle and none could be built anywhere. Looks at nothing else.
    fn check(&self, version: &KubernetesVersion) -> Result<(), BundlesError>;

    /// What [`Bundles::ensure`] will do, or what the host lacks for it. Changes nothing.
    fn prospect(&self, version: &KubernetesVersion) -> Result<Prospect, BundlesError>;

    /// What [`Bundles::ensure`] will take; none if the bundle exists.
    fn forecast(&self, version: &KubernetesVersion) -> Result<Option<Forecast>, BundlesError>;

    /// The bundle of a version: the one that exists, else a new one. `more_follow` keeps what compilers have cached for
    /// the next build.
    fn ensure(
        &self,
        version: &KubernetesVersion,
        more_follow: bool,
        reporter: &dyn Reporter,
    ) -> Result<(BundleFacts, Origin), BundlesError>;

    /// The bundle of exactly this digest.
    fn facts(&self, digest: &str) -> Result<BundleFacts, BundlesError>;

    /// The kubectl in a bundle, for the host.
    fn kubectl(&self, digest: &str) -> PathBuf;

    /// Keeps a bundle from being removed. It is an error if it does not exist any more.
    fn hold(&self, digest: &str) -> Result<BundleHold, BundlesError>;
}
