//! Where machines are plugged in: ports of the cluster's bridge.

use flotilla_core::network::LINK;
use flotilla_core::{Changed, Mac, NetworkNode, Port, PortKind};
use flotilla_linux::net::{LinkInfo, Net, NetError, Tap, Veth, hardware_address};
use flotilla_spec::{ClusterName, NodeName};

use super::BridgeNetwork;
use crate::error::NativeError;
use crate::names::Names;

impl BridgeNetwork {
    /// Links are looked up by name: a list of all of them would grow with the number of nodes, and is asked for once for
    /// each node.
    pub(super) fn make_socket(
        &self,
        cluster: &ClusterName,
        node: &NetworkNode,
        kind: PortKind,
    ) -> Result<Port, NativeError> {
        let (names, host) = (self.names(cluster), Net::here()?);
        let mtu = connect(&host, &names, &node.name, kind)?;
        let device = match kind {
            PortKind::Veth => names.loose_end(&node.name),
            PortKind::Tap => names.port(&node.name),
        };
        let mac = Mac(hardware_address(node.address));
        Ok(Port { kind, device, name_inside: LINK.to_owned(), mac, mtu })
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

/// Makes a port of the bridge, or connects the one that exists. Gives its MTU.
fn connect(host: &Net, names: &Names, node: &NodeName, kind: PortKind) -> Result<u32, NativeError> {
    let (name, bridge) = (names.port(node), names.bridge());
    let (alias, loose_end) = (names.owner_of_port(node), names.loose_end(node));
    let made = match kind {
        PortKind::Veth => {
            host.ensure_veth(&Veth { name: &name, alias: &alias, bridge: &bridge, loose_end: &loose_end })
        }
        PortKind::Tap => host.ensure_tap(&Tap { name: &name, alias: &alias, bridge: &bridge }),
    };
    let failed = |source| NativeError::Connect { node: node.clone(), source };
    made.map_err(failed)?;
    let port = host.find_link(&name)?.ok_or_else(|| failed(NetError::NoLink { link: name }))?;
    Ok(port.mtu)
}

/// The ports of a cluster that exist, whether they are connected or not.
pub(super) fn all<'a>(links: &'a [LinkInfo], names: &Names) -> impl Iterator<Item = &'a LinkInfo> {
    let (bridge, prefix) = (names.bridge(), format!("{}/", names.owner()));
    links.iter().filter(move |link| link.name != bridge && link.alias.starts_with(&prefix))
}

/// Connects a port again that somebody has disconnected.
pub(super) fn reconnect(host: &Net, names: &Names, port: &LinkInfo) -> Result<(), NativeError> {
    let kind = if port.is_tap() { PortKind::Tap } else { PortKind::Veth };
    let node = port.alias.rsplit('/').next().and_then(|node| node.parse().ok());
    node.map_or(Ok(()), |node| connect(host, names, &node, kind).map(drop))
}
