//! Directories of the host in machines.

use std::path::{Path, PathBuf};

use flotilla_core::{MachineSpec, Refusal};
use flotilla_linux::mount;
use flotilla_linux::sandbox::Bind;
use flotilla_spec::{HostMount, NodeName};

use super::NativeDriver;
use crate::error::NativeError;
use crate::refusal;

impl NativeDriver {
    /// The directories that machines want and the host does not have, or that are flotilla's own.
    pub(super) fn check_mounts(&self, wanted: &[MachineSpec]) -> Result<Vec<Refusal>, NativeError> {
        let mut refused = Vec::new();
        for spec in wanted {
            let has = self.mount_points(spec)?;
            let new_mounts = spec.mounts.iter().filter(|mount| !has.contains(&mount.target));
            refused.extend(new_mounts.filter_map(|mount| {
                let error =
                    bind(&spec.id.node, mount).err().or_else(|| own(&self.home, &spec.id.node, mount))?;
                Some(refusal(&spec.id.node, "mounts", Some(mount.to_string()), error.finding()))
            }));
        }
        Ok(refused)
    }

    /// The mount points that a running machine already has.
    fn mount_points(&self, spec: &MachineSpec) -> Result<Vec<PathBuf>, NativeError> {
        let init = if spec.mounts.is_empty() { None } else { self.init(&spec.id.cluster, &spec.id.node)? };
        // A node that has just stopped has none.
        Ok(init.and_then(|init| mount::mount_points_of(&init).ok()).unwrap_or_default())
    }
}

/// The mounts of the machine. An error if a host directory does not exist.
pub(super) fn of(spec: &MachineSpec) -> Result<Vec<Bind>, NativeError> {
    let mut mounts: Vec<_> = spec.mounts.iter().collect();
    // A mount inside another one comes after it.
    mounts.sort_by_key(|mount| &mount.target);
    mounts.into_iter().map(|mount| bind(&spec.id.node, mount)).collect()
}

fn bind(node: &NodeName, mount: &HostMount) -> Result<Bind, NativeError> {
    let HostMount { source, target, read_only } = mount.clone();
    match std::fs::metadata(&source) {
        Ok(_) => Ok(Bind { source, target, read_only }),
        Err(error) => Err(NativeError::MountSource { node: node.clone(), path: source, source: error }),
    }
}

/// Why a directory that exists must not be mounted: `delete` removes all that is in the state directory, and nothing of the
/// user's may be there.
fn own(home: &Path, node: &NodeName, mount: &HostMount) -> Option<NativeError> {
    let (real_home, source) = (home.canonicalize().ok()?, mount.source.canonicalize().ok()?);
    let (path, home) = (mount.source.clone(), home.to_owned());
    source.starts_with(real_home).then(|| NativeError::OwnDirectory { node: node.clone(), path, home })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flotilla_testkit::fake;

    fn machine(mounts: &[&str]) -> MachineSpec {
        let cluster = fake::cluster("10.213.0.0/24");
        let mounts = mounts.iter().map(|mount| mount.parse().unwrap()).collect();
        MachineSpec { mounts, ..MachineSpec::of(&cluster, &cluster.primary().unwrap()) }
    }

    fn node() -> NodeName {
        "demo".parse().unwrap()
    }

    #[test]
    fn a_folder_inside_another_is_mounted_after_it() {
        let binds = of(&machine(&["/usr:/data/inner:ro", "/usr:/data"])).unwrap();
        let targets: Vec<_> =
            binds.iter().map(|bind| (bind.target.to_str().unwrap(), bind.read_only)).collect();
        assert_eq!(targets, [("/data", false), ("/data/inner", true)]);
    }

    #[test]
    fn a_folder_that_is_not_there_is_named_with_its_node() {
        let finding = of(&machine(&["/no/such/folder:/data"])).unwrap_err().finding();
        assert_eq!(
            finding.text,
            "cannot mount /no/such/folder into node demo: No such file or directory (os error 2)"
        );
        assert_eq!((finding.code, finding.exit_status), ("HOST_NO_MOUNT", 35));
    }

    #[test]
    fn what_is_in_the_state_directory_is_not_mounted_whatever_it_is_called() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        std::fs::create_dir_all(home.join("clusters/demo/mine")).unwrap();
        std::os::unix::fs::symlink(home.join("clusters"), dir.path().join("link")).unwrap();
        let refused = |source: &str| {
            let mount = format!("{}:/data", dir.path().join(source).display());
            own(&home, &node(), &mount.parse().unwrap()).map(NativeError::finding)
        };
        for source in ["home", "home/clusters/demo/mine", "link/demo/mine"] {
            let finding = refused(source).unwrap();
            assert_eq!((finding.code, finding.exit_status), ("HOST_NO_MOUNT", 35), "{source}");
            assert!(finding.text.contains("it is in flotilla's own directory"), "{}", finding.text);
        }
        // People mount their home directories.
        assert_eq!(refused(""), None);
        assert_eq!(own(&dir.path().join("none"), &node(), &"/usr:/data".parse().unwrap()).map(drop), None);
    }
}
