//! Freeing the disk of what bundles no longer need.
//!
//! Everything in the cache can be made again: downloads, compiled packages, parts. Go's compiled packages are most of it
//! and of use only for the next build, so each build ends by removing them; `flotilla bundle clean` removes the rest.

use std::path::Path;

use flotilla_core::event::{Outcome, Reporter, Step};

use crate::bundle_store::{BundleStore, directories};
use crate::durable;
use crate::error::Result;
use crate::manifest::Manifest;
use crate::part::Record;
use crate::source::Component;

impl BundleStore {
    /// Removes everything that no bundle consists of. Gives the bytes that were freed.
    pub fn clean(&self, reporter: &dyn Reporter) -> Result<u64> {
        self.check_permission()?;
        let _lock = self.acquire("clean the cache", reporter)?;
        let step = Step::start(reporter, "clean", "removing what no bundle needs", None);
        let parts = self.part_cache();
        let leftovers = parts.leftover_bytes();
        parts.sweep()?;
        let bundles = self.manifests()?;
        let mut freed = leftovers + parts.retain(|part| is_in_any(part, &bundles))?;
        for cache in ["go", "apt"] {
            freed += durable::remove(&self.cache().join(cache))?;
        }
        step.done(Outcome::Done);
        Ok(freed)
    }

    /// Removes what a finished build leaves and no other build will want: compiled and unpacked sources, and parts that
    /// others have replaced. Downloads stay, so that another version is built without fetching them again.
    pub(crate) fn clean_after(&self, components: &[Component]) -> Result<()> {
        remove_compiled(&self.cache().join("go"))?;
        let bundles = self.manifests()?;
        let pinned = self.lock.releases()?;
        let is_superseded = |part: &Record| {
            let is_it =
                |component: &Component| component.name == part.name && component.version == part.version;
            // A part of the release that was just built is in its bundle, or another one has replaced it.
            components.iter().any(is_it) || !pinned.iter().any(is_it)
        };
        self.part_cache().retain(|part| is_in_any(part, &bundles) || !is_superseded(part))?;
        Ok(())
    }

    fn manifests(&self) -> Result<Vec<Manifest>> {
        Ok(self.list()?.bundles.into_iter().map(|bundle| bundle.manifest).collect())
    }
}

/// Removes all of Go's caches but the modules as they were downloaded.
fn remove_compiled(go: &Path) -> Result<()> {
    let modules = go.join("mod");
    let downloads = modules.join("cache");
    let of_go = directories(go)?.into_iter().filter(|path| *path != modules);
    let of_modules = directories(&modules)?.into_iter().filter(|path| *path != downloads);
    of_go.chain(of_modules).try_for_each(|path| durable::remove(&path).map(drop))
}

/// Whether a bundle was made with a part.
fn is_in_any(part: &Record, bundles: &[Manifest]) -> bool {
    bundles.iter().flat_map(|bundle| &bundle.components).any(|component| {
        component.name == part.name
            && component.version == part.version
            && component.provenance == part.provenance
            && component.built_with == part.tools
    })
}

#[cfg(test)]
mod tests;
