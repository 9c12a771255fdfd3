//! The two groups of a machine: the outer one, which the host sets limits on, and the inner one, which the machine has as the root
//! of its control groups.
//!
//! ```text
//! flotilla/<cluster>/<node>            limits: memory, CPU time, processes, devices
//!                          /in         the root of the machine's cgroup namespace; v1: PID 1
//!                             /init    v2: PID 1, since a group with groups below it may have no processes
//!                             /…       what the machine makes: its containers
//! ```
//!
//! A machine can write to the files of its namespace's root, and those of the outer group are out of its sight. Machines that
//! an earlier release booted have no inner group: their PID 1 is in `<node>` (v1) or `<node>/init` (v2), and they are found,
//! thawed and killed there.

use std::path::{Path, PathBuf};

use rustix::fs::chown;

use super::processes::LEAF;
use super::{CgroupError, Group};
use crate::user::Ids;

/// The files of a group that belong to whom it is given (cgroups(7), "Delegation"): those of v1, and those of v2.
const DELEGATED: [&str; 5] =
    ["cgroup.procs", "tasks", "cgroup.clone_children", "cgroup.threads", "cgroup.subtree_control"];

/// The machine's own part of its group.
const INNER: &str = "in";

impl Group {
    /// Makes the groups of a machine again (see [`Self::create`]), and denies it the host's devices.
    pub fn create_for_machine(&self) -> Result<(), CgroupError> {
        self.remove()?;
        self.inner().create()?;
        if self.layout.is_v1() {
            // A hierarchy of v2 beside those of v1 limits nothing. But a machine that stays at its root can mount it, and kill and
            // freeze the host's processes there.
            self.other_roots.iter().try_for_each(|root| self.inner().create_below(root))?;
        }
        self.deny_devices()
    }

    /// Moves this process to where the machine's PID 1 begins.
    pub(crate) fn join_as_init(&self) -> Result<(), CgroupError> {
        self.inner().join()
    }

    /// Gives the machine's own part of its group to the root of its user namespace: the machine makes groups in it and moves
    /// its processes about. The limits of that part stay the host's, like those above it.
    pub(crate) fn hand_over(&self, ids: Ids) -> Result<(), CgroupError> {
        let (user, group) = ids.root();
        for path in self.inner().paths() {
            let give = |path: &Path| chown(path, Some(user), Some(group));
            give(&path).map_err(|errno| CgroupError::Create { path: path.clone(), source: errno.into() })?;
            for file in DELEGATED.iter().map(|file| path.join(file)).filter(|file| file.exists()) {
                give(&file).map_err(|errno| CgroupError::Create { path: file, source: errno.into() })?;
            }
        }
        Ok(())
    }

    fn inner(&self) -> Self {
        Self { name: self.name.join(INNER), ..self.clone() }
    }
}

/// Where PID 1 of the machine with the outer group `group` may be, and the programs beside it.
pub(super) fn leaves(group: &Path) -> [PathBuf; 4] {
    let [leaf, inner] = inner_leaves(group);
    [leaf, inner, group.join(LEAF), group.to_owned()]
}

/// The same of a machine of this release.
pub(super) fn inner_leaves(group: &Path) -> [PathBuf; 2] {
    let inner = group.join(INNER);
    [inner.join(LEAF), inner]
}
