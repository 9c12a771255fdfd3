//! The same as people manage it.

use std::path::Path;

use flotilla_core::explain::one_line;
use flotilla_core::{
    BuildRequest, BuiltBundle, BundleAdmin, BundleComponent, BundleDetails, BundleList, BundleRemoval,
    BundleSizes, BundleSummary, BundlesError, ComponentOrigin, Reporter, UnreadableBundle, VerifiedBundle,
};

use super::port_error;
use crate::bundle_store::{Bundle, BundleStore, Listing, Removal};
use crate::inventory::Kind;
use crate::make::Made;
use crate::manifest::ComponentRecord;
use crate::source::Provenance;

impl BundleAdmin for BundleStore {
    fn list(&self) -> Result<BundleList, BundlesError> {
        let Listing { bundles, unreadable } = self.list().map_err(port_error)?;
        let unreadable = unreadable.into_iter();
        Ok(BundleList {
            bundles: bundles.iter().map(summary).collect(),
            unreadable: unreadable
                .map(|(digest, error)| UnreadableBundle { digest, why: one_line(&error) })
                .collect(),
        })
    }

    fn show(&self, which: &str) -> Result<BundleDetails, BundlesError> {
        let bundle = self.find(which).map_err(port_error)?;
        let manifest = &bundle.manifest;
        Ok(BundleDetails {
            summary: summary(&bundle),
            image_bytes: bundle.image_bytes(),
            components: manifest.components.iter().map(component).collect(),
            images: manifest.images.clone(),
            varies: manifest.varies.iter().map(|it| (it.path.clone(), it.why.clone())).collect(),
            record: serde_json::to_string_pretty(&bundle).expect("a manifest is plain data"),
        })
    }

    fn verify(&self, which: &str, reporter: &dyn Reporter) -> Result<VerifiedBundle, BundlesError> {
        let bundle = self.find(which).map_err(port_error)?;
        self.verify(&bundle, reporter).map_err(port_error)?;
        let files = bundle.manifest.files.iter().filter(|entry| matches!(entry.kind, Kind::File { .. }));
        Ok(VerifiedBundle { files: files.count(), bundle: summary(&bundle) })
    }

    fn build(&self, request: &BuildRequest, reporter: &dyn Reporter) -> Result<BuiltBundle, BundlesError> {
        let Made { bundle, outcome, origin } = self.ensure(request, reporter).map_err(port_error)?;
        Ok(BuiltBundle { bundle: summary(&bundle), outcome, origin })
    }

    fn clean(&self, reporter: &dyn Reporter) -> Result<u64, BundlesError> {
        self.clean(reporter).map_err(port_error)
    }

    fn export(
        &self,
        which: &str,
        file: &Path,
        reporter: &dyn Reporter,
    ) -> Result<BundleSummary, BundlesError> {
        let bundle = self.find(which).map_err(port_error)?;
        self.export(&bundle, file, reporter).map_err(port_error)?;
        Ok(summary(&bundle))
    }

    fn import(
        &self,
        file: &Path,
        digest: Option<&str>,
        reporter: &dyn Reporter,
    ) -> Result<BundleSummary, BundlesError> {
        self.import(file, digest, reporter).map(|bundle| summary(&bundle)).map_err(port_error)
    }

    fn begin_removal(
        &self,
        which: &str,
        reporter: &dyn Reporter,
    ) -> Result<Box<dyn BundleRemoval + '_>, BundlesError> {
        Ok(Box::new(self.begin_removal(which, reporter).map_err(port_error)?))
    }
}

impl BundleRemoval for Removal<'_> {
    fn digest(&self) -> &str {
        self.digest()
    }

    fn is_held(&self) -> bool {
        self.is_held()
    }

    fn finish(self: Box<Self>) -> Result<(), BundlesError> {
        Removal::finish(*self).map_err(port_error)
    }
}

fn summary(bundle: &Bundle) -> BundleSummary {
    let manifest = &bundle.manifest;
    BundleSummary {
        kubernetes: manifest.kubernetes.clone(),
        digest: manifest.digest.clone(),
        architecture: manifest.architecture.clone(),
        source: manifest.source.clone(),
        imported: manifest.imported,
        created: manifest.created.clone(),
        sizes: BundleSizes {
            bin: manifest.sizes.bin,
            rootfs: manifest.sizes.rootfs,
            store: manifest.sizes.store,
            on_disk: bundle.on_disk(),
        },
        path: bundle.path.clone(),
    }
}

fn component(record: &ComponentRecord) -> BundleComponent {
    let from = match &record.provenance {
        Provenance::GoModule { module, .. } => ComponentOrigin::GoModule(module.clone()),
        Provenance::Checkout { path, commit, modified } => {
            ComponentOrigin::Checkout { path: path.clone(), commit: commit.clone(), modified: *modified }
        }
        Provenance::OwnProgram { .. } => ComponentOrigin::OwnProgram,
        Provenance::Debian { packages } => ComponentOrigin::Debian {
            packages: packages.len(),
            unpinned: packages.iter().filter(|package| !package.pinned).count(),
        },
    };
    BundleComponent { name: record.name.clone(), version: record.version.clone(), bytes: record.bytes, from }
}
