//! The same bundles as people manage them. An exported one is a file with its version.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use flotilla_core::{
    BuildRequest, BuiltBundle, BundleAdmin, BundleComponent, BundleDetails, BundleList, BundleRemoval,
    BundleSizes, BundleSummary, Bundles, BundlesError, BundlesErrorKind, Code, ComponentOrigin, Explain,
    Origin, Outcome, Reporter, VerifiedBundle,
};
use flotilla_spec::KubernetesVersion;

use super::FakeBundles;
use super::bundles::{facts, locked, none};

/// What a build leaves for [`BundleAdmin::clean`].
const LEFT: u64 = 1_000_000;

#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("changing bundles needs root")]
    NotRoot,
    #[error("cannot use {0}")]
    File(String),
}

impl Explain for Refused {
    fn code(&self) -> Code {
        match self {
            Self::NotRoot => Code { name: "HOST_PERMISSION", exit_status: 37 },
            Self::File(_) => Code { name: "HOST_IO", exit_status: 30 },
        }
    }
}

impl From<Refused> for BundlesError {
    fn from(refused: Refused) -> Self {
        Self { kind: BundlesErrorKind::Failed, error: Box::new(refused) }
    }
}

impl FakeBundles {
    /// Lets whoever asks be root, or not.
    pub fn set_root(&self, is_root: bool) {
        self.is_root.store(is_root, Ordering::Relaxed);
    }

    fn require_root(&self) -> Result<(), BundlesError> {
        if self.is_root.load(Ordering::Relaxed) { Ok(()) } else { Err(Refused::NotRoot.into()) }
    }

    fn summary(&self, version: &KubernetesVersion) -> BundleSummary {
        let digest = facts(version).digest;
        BundleSummary {
            kubernetes: version.to_string(),
            architecture: "amd64".to_owned(),
            source: "build".to_owned(),
            imported: self.built().get(version) == Some(&Origin::Imported),
            created: "2026-11-05T10:00:00Z".to_owned(),
            sizes: BundleSizes { bin: 60, rootfs: 400, store: 500, on_disk: 900 },
            path: format!("/home/.flotilla/bundles/{digest}").into(),
            digest,
        }
    }

    fn call(&self, line: String) -> Result<(), BundlesError> {
        Ok(self.calls.begin_now(line)?.end()?)
    }
}

impl BundleAdmin for FakeBundles {
    fn list(&self) -> Result<BundleList, BundlesError> {
        self.call("list-bundles".to_owned())?;
        let versions: Vec<_> = self.built().keys().rev().cloned().collect();
        let bundles = versions.iter().map(|version| self.summary(version)).collect();
        Ok(BundleList { bundles, unreadable: Vec::new() })
    }

    fn show(&self, which: &str) -> Result<BundleDetails, BundlesError> {
        let summary = self.summary(&self.find(which)?.kubernetes);
        self.call(format!("show-bundle {}", summary.kubernetes))?;
        let from = ComponentOrigin::GoModule("k8s.io/kubernetes".to_owned());
        let (name, version) = ("kubernetes".to_owned(), summary.kubernetes.clone());
        Ok(BundleDetails {
            record: format!("{{\"digest\": \"{}\"}}", summary.digest),
            summary,
            image_bytes: 0,
            components: vec![BundleComponent { name, version, bytes: 600, from }],
            images: vec!["registry.k8s.io/pause:3.10".to_owned()],
            varies: Vec::new(),
        })
    }

    fn verify(&self, which: &str, _: &dyn Reporter) -> Result<VerifiedBundle, BundlesError> {
        let bundle = self.summary(&self.find(which)?.kubernetes);
        self.call(format!("verify-bundle {}", bundle.kubernetes))?;
        Ok(VerifiedBundle { bundle, files: 418 })
    }

    fn build(&self, request: &BuildRequest, _: &dyn Reporter) -> Result<BuiltBundle, BundlesError> {
        let version = match &request.kubernetes {
            Some(named) => named.parse().map_err(|_| none(named))?,
            None => self.default_version(),
        };
        self.check(&version)?;
        self.require_root()?;
        let call = self.calls.begin_now(format!("build-bundle {version}"))?;
        let existed = self.built().contains_key(&version);
        if !existed {
            self.built().insert(version.clone(), Origin::Own);
            self.left.store(LEFT, Ordering::Relaxed);
        }
        call.end()?;
        let outcome = if existed { Outcome::Kept } else { Outcome::Done };
        Ok(BuiltBundle { bundle: self.summary(&version), outcome, origin: Origin::Own })
    }

    fn clean(&self, _: &dyn Reporter) -> Result<u64, BundlesError> {
        self.require_root()?;
        let call = self.calls.begin_now("clean-bundles".to_owned())?;
        let freed = self.left.swap(0, Ordering::Relaxed);
        call.end()?;
        Ok(freed)
    }

    fn export(&self, which: &str, file: &Path, _: &dyn Reporter) -> Result<BundleSummary, BundlesError> {
        let bundle = self.summary(&self.find(which)?.kubernetes);
        let call = self.calls.begin_now(format!("export-bundle {}", bundle.kubernetes))?;
        fs::write(file, &bundle.kubernetes).map_err(|_| Refused::File(file.display().to_string()))?;
        call.end()?;
        Ok(bundle)
    }

    fn import(
        &self,
        file: &Path,
        digest: Option<&str>,
        _: &dyn Reporter,
    ) -> Result<BundleSummary, BundlesError> {
        let refused = || Refused::File(file.display().to_string());
        let text = fs::read_to_string(file).map_err(|_| refused())?;
        let version = text.parse().map_err(|_| refused())?;
        if digest.is_some_and(|digest| digest != facts(&version).digest) {
            return Err(refused().into());
        }
        self.require_root()?;
        let call = self.calls.begin_now(format!("import-bundle {version}"))?;
        self.built().insert(version.clone(), Origin::Imported);
        call.end()?;
        Ok(self.summary(&version))
    }

    fn begin_removal(
        &self,
        which: &str,
        _: &dyn Reporter,
    ) -> Result<Box<dyn BundleRemoval + '_>, BundlesError> {
        let version = self.find(which)?.kubernetes;
        self.require_root()?;
        Ok(Box::new(Removal { bundles: self, digest: facts(&version).digest, version }))
    }
}

struct Removal<'a> {
    bundles: &'a FakeBundles,
    version: KubernetesVersion,
    digest: String,
}

impl BundleRemoval for Removal<'_> {
    fn digest(&self) -> &str {
        &self.digest
    }

    fn is_held(&self) -> bool {
        locked(&self.bundles.held).contains_key(&self.digest)
    }

    fn finish(self: Box<Self>) -> Result<(), BundlesError> {
        let call = self.bundles.calls.begin_now(format!("remove-bundle {}", self.version))?;
        self.bundles.built().remove(&self.version);
        Ok(call.end()?)
    }
}
