//! Bundles that need no build.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flotilla_core::{
    BundleFacts, BundleHold, Bundles, BundlesError, BundlesErrorKind, Code, Explain, Forecast, Origin,
    Prospect, Reporter,
};
use flotilla_spec::KubernetesVersion;

use super::{Calls, Fault};

/// The versions that this fake can build, newest first. The first is the default.
const BUILDABLE: [&str; 3] = ["v1.37.1", "v1.36.4", "v1.35.7"];

/// A store with the bundle of the default version in it. A digest is made from the version's text.
#[derive(Debug)]
pub struct FakeBundles {
    pub(super) calls: Calls,
    built: Mutex<BTreeMap<KubernetesVersion, Origin>>,
    pub(super) held: Arc<Mutex<BTreeMap<String, usize>>>,
    pub(super) is_root: AtomicBool,
    /// Bytes that builds have left.
    pub(super) left: AtomicU64,
}

/// The bundle does not exist, or this host cannot build it.
#[derive(Debug, thiserror::Error)]
#[error("no bundle for {0}")]
struct NoBundle(String);

impl Explain for NoBundle {
    fn code(&self) -> Code {
        Code { name: "BUNDLE_NOT_FOUND", exit_status: 15 }
    }
}

impl Explain for Fault {
    fn code(&self) -> Code {
        Code { name: "BUNDLE_FAKE", exit_status: 10 }
    }
}

impl From<Fault> for BundlesError {
    fn from(fault: Fault) -> Self {
        Self { kind: BundlesErrorKind::Failed, error: Box::new(fault) }
    }
}

impl FakeBundles {
    pub fn new(calls: &Calls) -> Self {
        let bundles = Self {
            calls: calls.clone(),
            built: Mutex::default(),
            held: Arc::default(),
            is_root: AtomicBool::new(true),
            left: AtomicU64::default(),
        };
        bundles.built().insert(bundles.default_version(), Origin::Own);
        bundles
    }

    /// Takes all bundles away.
    pub fn lose_all(&self) {
        self.built().clear();
    }

    /// The digests of bundles that somebody holds.
    pub fn held(&self) -> BTreeSet<String> {
        locked(&self.held).keys().cloned().collect()
    }

    pub(super) fn built(&self) -> MutexGuard<'_, BTreeMap<KubernetesVersion, Origin>> {
        locked(&self.built)
    }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn facts(version: &KubernetesVersion) -> BundleFacts {
    BundleFacts {
        digest: format!("sha256-of-{version}"),
        kubernetes: version.clone(),
        sandbox_image: format!("registry.example/pause:of-{version}"),
    }
}

pub(super) fn none(which: &(impl ToString + ?Sized)) -> BundlesError {
    let error = Box::new(NoBundle(which.to_string()));
    BundlesError { kind: BundlesErrorKind::Unavailable, error }
}

/// One of those who hold a bundle.
#[derive(Debug)]
struct Held {
    digest: String,
    all: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut all = locked(&self.all);
        if let Some(count) = all.get_mut(&self.digest) {
            *count -= 1;
        }
        all.retain(|_, count| *count > 0);
    }
}

impl Bundles for FakeBundles {
    fn default_version(&self) -> KubernetesVersion {
        BUILDABLE[0].parse().expect("it is a version")
    }

    fn find(&self, which: &str) -> Result<BundleFacts, BundlesError> {
        let built = self.built();
        let mut all = built.keys().map(facts);
        all.find(|it| it.kubernetes.to_string() == which || it.digest == which).ok_or_else(|| none(which))
    }

    fn check(&self, version: &KubernetesVersion) -> Result<(), BundlesError> {
        let is_known =
            BUILDABLE.contains(&version.to_string().as_str()) || self.built().contains_key(version);
        if is_known { Ok(()) } else { Err(none(version)) }
    }

    fn prospect(&self, version: &KubernetesVersion) -> Result<Prospect, BundlesError> {
        self.check(version)?;
        Ok(if self.built().contains_key(version) { Prospect::Found } else { Prospect::Buildable })
    }

    fn forecast(&self, version: &KubernetesVersion) -> Result<Option<Forecast>, BundlesError> {
        let (time, disk) = (Duration::from_mins(15), 10_600_000_000);
        let forecast = Forecast { kubernetes: version.to_string(), time, disk };
        Ok((self.prospect(version)? == Prospect::Buildable).then_some(forecast))
    }

    fn ensure(
        &self,
        version: &KubernetesVersion,
        _more_follow: bool,
        _reporter: &dyn Reporter,
    ) -> Result<(BundleFacts, Origin), BundlesError> {
        self.check(version)?;
        let call = self.calls.begin_now(format!("ensure-bundle {version}"))?;
        let origin = *self.built().entry(version.clone()).or_insert(Origin::Own);
        call.end()?;
        Ok((facts(version), origin))
    }

    fn facts(&self, digest: &str) -> Result<BundleFacts, BundlesError> {
        let built = self.built();
        built.keys().map(facts).find(|bundle| bundle.digest == digest).ok_or_else(|| none(digest))
    }

    fn kubectl(&self, digest: &str) -> PathBuf {
        format!("/home/.flotilla/bundles/{digest}/bin/kubectl").into()
    }

    fn hold(&self, digest: &str) -> Result<BundleHold, BundlesError> {
        if !self.built().keys().any(|version| facts(version).digest == digest) {
            return Err(none(digest));
        }
        *locked(&self.held).entry(digest.to_owned()).or_default() += 1;
        Ok(BundleHold::new(Held { digest: digest.to_owned(), all: self.held.clone() }))
    }
}
