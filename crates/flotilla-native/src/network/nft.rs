//! The program that reads and changes packet rules: hosts may have none, or an old one, so it is that of a bundle.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use flotilla_core::{BundleLayout, NetworkPlan};
use flotilla_linux::nft::Nft;

use super::BridgeNetwork;

impl BridgeNetwork {
    /// That of the plan's bundle.
    pub(super) fn nft(&self, plan: &NetworkPlan) -> Nft {
        Nft::in_root(&BundleLayout::of(&self.home, &plan.bundle).rootfs())
    }
}

/// One for what has no plan: that of some bundle; without one, the host's.
pub(crate) fn any(home: &Path) -> Nft {
    root(home).map_or_else(Nft::on_host, |root| Nft::in_root(&root))
}

/// The root of the newest bundle that has one, since an older one may not understand the rules of a newer one. Finished
/// bundles first.
fn root(home: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(BundleLayout::bundles(home)).into_iter().flatten().flatten();
    let mut bundles: Vec<_> = entries.map(|entry| entry.path()).collect();
    bundles.sort_by_cached_key(|path| (is_hidden(path), Reverse(modified(path))));
    let mut bundles = bundles.iter().map(|path| BundleLayout::at(path));
    bundles.find(|bundle| bundle.nft().exists()).map(|bundle| bundle.rootfs())
}

/// Bundles that are being made or removed have such names.
fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_newest_finished_bundle_that_has_one_is_used() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(root(home.path()), None);
        let add = |name: &str, hours: u64| {
            let bundle = BundleLayout::of(home.path(), name);
            fs::create_dir_all(bundle.nft().parent().unwrap()).unwrap();
            fs::write(bundle.nft(), "").unwrap();
            let made = SystemTime::now() - Duration::from_hours(hours);
            File::open(BundleLayout::bundles(home.path()).join(name)).unwrap().set_modified(made).unwrap();
            Some(bundle.rootfs())
        };
        let unfinished = add(".unfinished-a", 1);
        assert_eq!(root(home.path()), unfinished, "better than none");
        let older = add("a", 5);
        assert_eq!(root(home.path()), older);
        let newer = add("b", 3);
        assert_eq!(root(home.path()), newer);
        add("c", 7);
        assert_eq!(root(home.path()), newer);
        fs::remove_file(BundleLayout::of(home.path(), "b").nft()).unwrap();
        assert_eq!(root(home.path()), older);
    }
}
