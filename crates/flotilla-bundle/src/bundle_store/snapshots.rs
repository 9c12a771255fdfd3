//! The image of a bundle's snapshots, which nodes mount. Made from the bundle's files on each host, so it is neither in the
//! manifest nor in an archive.

use std::path::Path;

use flotilla_core::BundleLayout;
use flotilla_core::layout::SNAPSHOTS_IMAGE;
use flotilla_linux::erofs;

use crate::error::{At, Result};

/// Makes the image, if it does not exist and the host can mount it: the first node would have to wait for it.
pub(super) fn ensure(bundle: &Path, digest: &str) -> Result<()> {
    let layout = BundleLayout::at(bundle);
    let (snapshots, image) = (layout.snapshots(), layout.snapshots_image());
    if !snapshots.is_dir() || !erofs::is_supported() {
        return Ok(());
    }
    erofs::ensure(&snapshots, &image, digest).at("write", &image)
}

/// What is wrong with the image, if one exists.
pub(super) fn finding(bundle: &Path, digest: &str) -> Result<Option<String>> {
    let layout = BundleLayout::at(bundle);
    let (snapshots, image) = (layout.snapshots(), layout.snapshots_image());
    if !image.exists() {
        return Ok(None);
    }
    let same = erofs::is_image_of(&snapshots, &image, digest).at("read", &image)?;
    Ok((!same).then(|| format!("{SNAPSHOTS_IMAGE}: content differs")))
}
