//! Removes the machines that belong to a cluster's name, with or without state.

use flotilla_core::Changed;
use flotilla_linux::cgroup::Group;
use flotilla_spec::{ClusterName, NodeName};

use super::disk::{self, Disk};
use super::{NativeDriver, layout};
use crate::error::NativeError;
use crate::failures::Failures;

impl NativeDriver {
    pub(super) fn remove_machine(
        &self,
        cluster: &ClusterName,
        node: &NodeName,
    ) -> Result<Changed, NativeError> {
        let was_on = self.init(cluster, node)?.is_some();
        let mut failures = Failures::default();
        // Keeps the disk if processes still run: they write to it.
        let ended = self.end(cluster, node).and_then(|()| Ok(self.group(cluster, node)?.remove()?));
        if failures.note(ended).is_none() {
            return failures.or(Changed::No);
        }
        let disk = Disk::of(&self.nodes_folder(cluster), node);
        let was_there = was_on || disk.folder.exists();
        failures.note(disk.remove());
        failures.or(if was_there { Changed::Yes } else { Changed::No })
    }

    /// Removes everything by derived names, without reading the state directory. A failure does not stop the rest.
    pub(super) fn remove_machines(&self, cluster: &ClusterName) -> Result<Changed, NativeError> {
        let names = self.names(cluster);
        let mut changed = Changed::No;
        let mut failures = Failures::default();
        for node in self.node_names(cluster)? {
            let removed = failures.note(self.remove_machine(cluster, &node));
            changed = changed.or(removed.unwrap_or(Changed::Yes));
        }
        failures.note(disk::remove_doomed(&self.nodes_folder(cluster)));
        if failures.is_empty() {
            let group = Group::new(&layout()?, &names.group())?;
            failures.note(group.kill().and_then(|()| group.remove()).map_err(NativeError::from));
        }
        failures.or(changed)
    }
}
