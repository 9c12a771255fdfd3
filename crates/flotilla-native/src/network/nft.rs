//! The program that reads and changes packet rules: hosts may have none, or an old one, so it is that of a bundle.

use std::fs;
use std::path::Path;

use flotilla_core::{BundleLayout, NetworkPlan};
use flotilla_linux::nft::Nft;

use super::BridgeNetwork;

impl BridgeNetwork {
    /// That of the plan's bundle.
    pub(super) fn nft(&self, plan: &NetworkPlan) -> Nft {
        Nft::in_root(&BundleLayout::of(&self.home, &plan.bundle).rootfs())
    }
}

/// One for what has no plan: that of some bundle, finished ones first; without one, the host's.
pub(crate) fn any(home: &Path) -> Nft {
    let entries = fs::read_dir(BundleLayout::bundles(home)).into_iter().flatten().flatten();
    let mut bundles: Vec<_> = entries.map(|entry| entry.path()).collect();
    bundles.sort_by_key(|path| (is_hidden(path), path.clone()));
    let found = bundles.iter().map(|path| BundleLayout::at(path)).find(|bundle| bundle.nft().exists());
    found.map_or_else(Nft::on_host, |bundle| Nft::in_root(&bundle.rootfs()))
}

/// Bundles that are being made or removed have such names.
fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}
