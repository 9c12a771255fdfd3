//! The host's routes to the pods of nodes. The routes in a node are set by `flotilla-node/src/configure.rs`.

use std::collections::BTreeSet;

use flotilla_core::{Changed, Cluster};
use flotilla_linux::net::Net;

use super::Native;
use super::error::NativeError;

impl Native {
    /// Updates the published ports, and removes the host's routes to deleted nodes. Routes to other nodes are added
    /// when they boot.
    pub(super) fn ensure_host_routes(&self, cluster: &Cluster) -> Result<Changed, NativeError> {
        let (host, bridge) = (Net::here()?, self.names(cluster.name()).bridge());
        // Without a network there is nothing to publish; creating the network also publishes the ports.
        if host.find_link(&bridge)?.is_none() {
            return Ok(Changed::No);
        }
        let ranges: BTreeSet<_> = cluster.nodes().map(|node| node.pod_range).collect();
        let present = host.ways(&bridge, cluster.allocations.pod_subnet)?.into_keys();
        let stale: Vec<_> = present.filter(|range| !ranges.contains(range)).collect();
        for range in &stale {
            host.remove_route(*range)?;
        }
        let removed = if stale.is_empty() { Changed::No } else { Changed::Yes };
        Ok(self.ensure_ports(cluster)?.or(removed))
    }
}
