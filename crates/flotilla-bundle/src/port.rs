//! The bundle store as the use cases know it.

mod admin;

use std::path::PathBuf;

use flotilla_core::{
    BuildRequest, BundleFacts, BundleHold, Bundles, BundlesError, BundlesErrorKind, Explain, Forecast,
    Origin, Prospect, Reporter,
};
use flotilla_spec::KubernetesVersion;

use crate::bundle_store::{Bundle, BundleStore};
use crate::error::BundleError;
use crate::image;
use crate::make::Made;

impl Bundles for BundleStore {
    fn default_version(&self) -> KubernetesVersion {
        self.lock.default.parse().expect("the lock file that is compiled in names a Kubernetes version")
    }

    fn find(&self, which: &str) -> Result<BundleFacts, BundlesError> {
        facts(self.find(which).map_err(port_error)?)
    }

    fn check(&self, version: &KubernetesVersion) -> Result<(), BundlesError> {
        self.check(&of_version(version)).map_err(port_error)
    }

    fn prospect(&self, version: &KubernetesVersion) -> Result<Prospect, BundlesError> {
        self.prospect(&of_version(version)).map_err(port_error)
    }

    fn forecast(&self, version: &KubernetesVersion) -> Result<Option<Forecast>, BundlesError> {
        self.forecast(&of_version(version)).map_err(port_error)
    }

    fn ensure(
        &self,
        version: &KubernetesVersion,
        more_follow: bool,
        reporter: &dyn Reporter,
    ) -> Result<(BundleFacts, Origin), BundlesError> {
        let request = BuildRequest { keep_cache: more_follow, ..of_version(version) };
        let Made { bundle, origin, .. } = self.ensure(&request, reporter).map_err(port_error)?;
        Ok((facts(bundle)?, origin))
    }

    fn facts(&self, digest: &str) -> Result<BundleFacts, BundlesError> {
        facts(self.get(digest).map_err(port_error)?)
    }

    fn kubectl(&self, digest: &str) -> PathBuf {
        self.layout(digest).kubectl()
    }

    fn hold(&self, digest: &str) -> Result<BundleHold, BundlesError> {
        self.hold(digest).map(BundleHold::new).map_err(port_error)
    }
}

/// The bundle of a version, whatever else could be asked for.
fn of_version(version: &KubernetesVersion) -> BuildRequest {
    BuildRequest { kubernetes: Some(version.to_string()), ..BuildRequest::default() }
}

fn facts(bundle: Bundle) -> Result<BundleFacts, BundlesError> {
    let kubernetes = bundle.manifest.kubernetes.parse().map_err(failed)?;
    let sandbox_image = image::pause_name(&bundle.manifest.images).to_owned();
    Ok(BundleFacts { digest: bundle.manifest.digest, kubernetes, sandbox_image })
}

fn port_error(error: BundleError) -> BundlesError {
    match error {
        BundleError::NotFound { .. } | BundleError::Ambiguous { .. } | BundleError::Lock(_) => {
            BundlesError { kind: BundlesErrorKind::Unavailable, error: Box::new(error) }
        }
        other => failed(other),
    }
}

fn failed(error: impl Explain + Send + Sync + 'static) -> BundlesError {
    BundlesError { kind: BundlesErrorKind::Failed, error: Box::new(error) }
}
