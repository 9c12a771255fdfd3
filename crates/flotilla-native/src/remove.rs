//! Removes everything that belongs to a cluster's name, with or without state.

use flotilla_core::Changed;
use flotilla_linux::cgroup::Group;
use flotilla_linux::host::CommandError;
use flotilla_linux::net::Net;
use flotilla_linux::nft::{Nft, NftError, SOURCE_FAMILY};
use flotilla_spec::{ClusterName, NodeName};

use super::disk::{self, Disk};
use super::error::NativeError;
use super::names::PORT;
use super::{Native, layout, network};

/// What could not be removed.
#[derive(Default)]
struct Failures(Vec<NativeError>);

impl Failures {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn note<T>(&mut self, done: Result<T, NativeError>) -> Option<T> {
        done.map_err(|error| self.0.push(error)).ok()
    }

    /// All of it as one error, if there was any.
    fn or(mut self, changed: Changed) -> Result<Changed, NativeError> {
        match self.0.len() {
            0 => Ok(changed),
            1 => Err(self.0.remove(0)),
            _ => Err(NativeError::Removal { failures: self.0 }),
        }
    }
}

impl Native {
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

    /// The same for the network: links and rules.
    pub(super) fn remove_network(&self, cluster: &ClusterName) -> Result<Changed, NativeError> {
        let names = self.names(cluster);
        let nft = self.any_nft(cluster);
        let mut changed = Changed::No;
        let mut failures = Failures::default();
        let links = Net::here().and_then(|net| net.delete_links_of(&names.owner(), PORT));
        if failures.note(links.map_err(NativeError::from)).is_some_and(|links| !links.is_empty()) {
            changed = Changed::Yes;
        }
        let rules = [names.table(), names.ports_table()]
            .iter()
            .try_for_each(|table| nft.delete_table("ip", table))
            .and_then(|()| nft.delete_table(SOURCE_FAMILY, &names.table()))
            .and_then(|()| nft.remove_tagged(&names.table(), &names.bridge()).map(drop));
        match rules {
            // No nft anywhere, and no network: there was never one who could have made rules.
            Err(NftError::Apply { source } | NftError::List { source, .. })
                if matches!(source, CommandError::NotFound { .. }) && !changed.is_yes() => {}
            rules => drop(failures.note(rules.map_err(NativeError::from))),
        }
        failures.or(changed)
    }

    /// An nft that surely is there: that of the cluster's own bundle, else of any bundle, else the host's.
    pub(super) fn any_nft(&self, cluster: &ClusterName) -> Nft {
        let own = self
            .node_names(cluster)
            .unwrap_or_default()
            .into_iter()
            .filter_map(|node| Disk::of(&self.nodes_folder(cluster), &node).bundle())
            .map(|digest| self.bundle_folder(&digest));
        network::first_nft(own.chain(network::bundles(&self.home)))
    }
}
