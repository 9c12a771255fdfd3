//! Where machines are plugged in: ports of the cluster's bridge.

use flotilla_core::{Changed, Port, PortKind};
use flotilla_linux::net::{LinkInfo, Net, Veth};
use flotilla_spec::{ClusterName, NodeName};

use super::BridgeNetwork;
use crate::error::NativeError;
use crate::names::Names;
use flotilla_core::network::LINK;

impl BridgeNetwork {
    /// Links are looked up by name: a list of all of them would grow with the number of nodes, and is asked for once for
    /// each node.
    pub(super) fn make_socket(
        &self,
        cluster: &ClusterName,
        node: &NodeName,
        kind: PortKind,
    ) -> Result<Port, NativeError> {
        let PortKind::Veth = kind else { return Err(NativeError::PortKind { kind }) };
        let (names, host) = (self.names(cluster), Net::here()?);
        connect(&host, &names, node)?;
        Ok(Port { kind, device: names.loose_end(node), name_inside: LINK.to_owned() })
    }

    pub(super) fn remove_socket(
        &self,
        cluster: &ClusterName,
        node: &NodeName,
    ) -> Result<Changed, NativeError> {
        let link = self.names(cluster).port(node);
        Ok((Net::here()?.delete_link(&link)? == flotilla_linux::net::Changed::Yes).into())
    }
}

fn connect(host: &Net, names: &Names, node: &NodeName) -> Result<(), NativeError> {
    let (name, bridge) = (names.port(node), names.bridge());
    let (alias, loose_end) = (names.owner_of_port(node), names.loose_end(node));
    let veth = Veth { name: &name, alias: &alias, bridge: &bridge, loose_end: &loose_end };
    let failed = |source| NativeError::Connect { node: node.clone(), source };
    host.ensure_veth(&veth).map_err(failed)?;
    Ok(())
}

/// The ports of a cluster that exist, whether they are connected or not.
pub(super) fn all<'a>(links: &'a [LinkInfo], names: &Names) -> impl Iterator<Item = &'a LinkInfo> {
    let (bridge, prefix) = (names.bridge(), format!("{}/", names.owner()));
    links.iter().filter(move |link| link.name != bridge && link.alias.starts_with(&prefix))
}

/// Connects a port again that somebody has disconnected.
pub(super) fn reconnect(host: &Net, names: &Names, port: &LinkInfo) -> Result<(), NativeError> {
    let node = port.alias.rsplit('/').next().and_then(|node| node.parse().ok());
    node.map_or(Ok(()), |node| connect(host, names, &node))
}
