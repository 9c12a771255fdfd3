//! Removes the links and rules that belong to a cluster's name, with or without state.

use flotilla_core::Changed;
use flotilla_linux::host::CommandError;
use flotilla_linux::net::Net;
use flotilla_linux::nft::{NftError, SOURCE_FAMILY};
use flotilla_spec::ClusterName;

use super::{BridgeNetwork, nft};
use crate::error::NativeError;
use crate::failures::Failures;
use crate::names::PORT;

impl BridgeNetwork {
    /// A failure does not stop the rest.
    pub(super) fn remove_network(&self, cluster: &ClusterName) -> Result<Changed, NativeError> {
        let names = self.names(cluster);
        let nft = nft::any(&self.home);
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
}
