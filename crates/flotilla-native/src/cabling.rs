//! Which nodes are connected to the cluster's bridge. Links are looked up by name: a list of all of them would grow with the
//! number of nodes, and is asked for once for each node.

use flotilla_linux::net::{LinkInfo, Net};
use flotilla_spec::{ClusterName, NodeName};

use super::Native;
use super::error::NativeError;
use super::names::Names;

/// The cluster's bridge on the host, and the cables in it.
pub(super) struct Cabling {
    host: Net,
    names: Names,
    bridge: Option<LinkInfo>,
}

impl Native {
    pub(super) fn cabling(&self, cluster: &ClusterName) -> Result<Cabling, NativeError> {
        let (host, names) = (Net::here()?, self.names(cluster));
        let bridge = host.find_link(&names.bridge())?;
        Ok(Cabling { host, names, bridge })
    }
}

impl Cabling {
    /// Whether the host's end of the node's link is there, up, and a port of the bridge.
    pub(super) fn reaches(&self, node: &NodeName) -> Result<bool, NativeError> {
        let Some(bridge) = &self.bridge else { return Ok(false) };
        let port = self.host.find_link(&self.names.port(node))?;
        Ok(port.is_some_and(|port| port.up && port.master == Some(bridge.index)))
    }
}
