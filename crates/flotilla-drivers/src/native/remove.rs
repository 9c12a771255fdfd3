//! Taking away everything that belongs to a name, known or not.

use flotilla_engine::port::Changed;
use flotilla_linux::cgroup::Group;
use flotilla_linux::host::CommandError;
use flotilla_linux::net::Net;
use flotilla_linux::nft::{Nft, NftError};
use flotilla_spec::{ClusterName, NodeName};

use super::disk::Disk;
use super::error::NativeError;
use super::{Native, layout, network};

impl Native {
    pub(super) fn remove_machine(
        &self,
        cluster: &ClusterName,
        node: &NodeName,
    ) -> Result<Changed, NativeError> {
        let was_on = self.init(cluster, node)?.is_some();
        self.close_ports(cluster, node)?;
        self.end(cluster, node)?;
        self.group(cluster, node)?.remove()?;
        let names = self.names(cluster);
        Net::here()?.delete_link(&names.port(node))?;
        let disk = Disk::of(&self.nodes_folder(cluster), node);
        let was_there = was_on || disk.folder.exists();
        disk.remove()?;
        Ok(if was_there { Changed::Yes } else { Changed::No })
    }

    /// Everything by the names that follow from the cluster's: what the state folder says does not matter.
    pub(super) fn remove_everything(&self, cluster: &ClusterName) -> Result<Changed, NativeError> {
        let names = self.names(cluster);
        let nft = self.any_nft(cluster);
        let mut changed = Changed::No;
        for node in self.node_names(cluster)? {
            changed = changed.or(self.remove_machine(cluster, &node)?);
        }
        let group = Group::new(&layout()?, &names.group())?;
        group.kill()?;
        group.remove()?;
        let links = Net::here()?.delete_links_of(&names.owner())?;
        if !links.is_empty() {
            changed = Changed::Yes;
        }
        let rules = [names.table(), names.ports_table()]
            .iter()
            .try_for_each(|table| nft.delete_table("ip", table))
            .and_then(|()| nft.remove_tagged(&names.table()).map(drop));
        match rules {
            // No nft anywhere, and no network: there was never one who could have made rules.
            Err(NftError::Apply { source } | NftError::List { source, .. })
                if matches!(source, CommandError::NotFound { .. }) && !changed.is_yes() => {}
            rules => rules?,
        }
        Ok(changed)
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
