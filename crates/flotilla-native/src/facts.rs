//! Facts about the host and its bundles that nodes need.

use std::fs;
use std::io;

use flotilla_core::{HostFacts, MachineSpec, RootFacts};
use serde::Deserialize;

use super::Native;
use super::disk::Disk;
use super::error::{At, NativeError};

/// The part of a bundle's manifest that matters here.
#[derive(Deserialize)]
struct Manifest {
    images: Vec<String>,
}

pub(super) fn of_host() -> HostFacts {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    HostFacts { lowers_oom_scores: may_lower_oom_scores(&status) }
}

/// Whether a process has `CAP_SYS_RESOURCE` (24), by its file in `/proc`.
fn may_lower_oom_scores(status: &str) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).is_some_and(|set| set >> 24 & 1 == 1)
}

impl Native {
    pub(super) fn root_facts(&self, spec: &MachineSpec) -> Result<RootFacts, NativeError> {
        let store = &spec.image_store;
        if self.digest(spec) == *store {
            return Ok(RootFacts::default());
        }
        let path = self.bundle_folder(store).join("manifest.json");
        let text = fs::read(&path).at("read", &path)?;
        let manifest: Manifest =
            serde_json::from_slice(&text).map_err(io::Error::from).at("understand", &path)?;
        let image = sandbox_image(manifest.images).ok_or_else(|| io::Error::other("no sandbox image is set"));
        Ok(RootFacts { sandbox_image: Some(image.at("understand", path)?) })
    }

    /// The digest of the bundle that a machine's root is, or will be, made from.
    pub(super) fn digest(&self, spec: &MachineSpec) -> String {
        let made_from = Disk::of(&self.nodes_folder(&spec.id.cluster), &spec.id.node).bundle();
        made_from.unwrap_or_else(|| spec.bundle.clone())
    }
}

/// The image that every pod's first container is made from.
fn sandbox_image(images: Vec<String>) -> Option<String> {
    let is_pause = |image: &String| {
        let name = image.rsplit('/').next().unwrap_or(image);
        name.split([':', '@']).next() == Some("pause")
    };
    images.into_iter().find(is_pause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sandbox_image_is_found_by_its_name() {
        let images = ["a.example/pause-not:1", "a.example:5000/deep/pause:3.10.2", "a.example/kube-proxy:v1"];
        let found = sandbox_image(images.map(str::to_owned).to_vec());
        assert_eq!(found.as_deref(), Some("a.example:5000/deep/pause:3.10.2"));
        assert_eq!(sandbox_image(vec!["a.example/pauses:1".to_owned()]), None);
    }

    #[test]
    fn the_capability_is_one_bit_of_many() {
        assert!(may_lower_oom_scores("Name:\tsh\nCapEff:\t000001ffffffffff\n"));
        assert!(!may_lower_oom_scores("CapEff:\t000001fffeffffff\n"));
        assert!(!may_lower_oom_scores("CapBnd:\t000001ffffffffff\n"));
    }
}
