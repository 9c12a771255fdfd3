//! The virtual IP in a running node: reconfigures keepalived without losing the address.

use std::time::Duration;

use flotilla_linux::net::{self, Net, NetError};
use flotilla_linux::poll;
use flotilla_node_api::{NodeConfig, Reply, Request, Unit, Verb, VirtualIp};
use ipnet::Ipv4Net;

use super::{ConfigureError, files, network};
use crate::ask::ask;
use crate::keepalived;
use crate::root::Root;

/// How long after its start keepalived may still take the address away.
const GAP: Duration = Duration::from_secs(1);

/// How keepalived gets its new configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Start,
    Restart,
}

/// What has to be done; none if keepalived has its configuration, or is none of this node's business. One that the node
/// needs no more goes on until the next boot: it is alone, and keeps the address.
pub(super) fn change(root: &Root, wanted: &VirtualIp) -> Result<Option<Change>, ConfigureError> {
    let VirtualIp::Keepalived { config, .. } = wanted else { return Ok(None) };
    let was = files::read(root, keepalived::CONFIGURATION.as_ref())?;
    Ok(match was {
        Some(was) if was == config.as_bytes() => None,
        Some(_) => Some(Change::Restart),
        None => Some(Change::Start),
    })
}

pub(super) fn apply(root: &Root, inside: &Net, config: &NodeConfig) -> Result<(), ConfigureError> {
    let VirtualIp::Keepalived { address, config: text } = &config.virtual_ip else { return Ok(()) };
    let Some(change) = change(root, &config.virtual_ip)? else { return Ok(()) };
    let link = &config.link.name;
    let had_it = change == Change::Start && network::has_address(inside, link, *address)?;
    files::write(root, keepalived::CONFIGURATION.as_ref(), text)?;
    let verb = if change == Change::Start { Verb::Start } else { Verb::Restart };
    let request = Request::Unit { verb, unit: Unit::Keepalived };
    match ask(&root.control_socket(), request).map_err(ConfigureError::Ask)? {
        Reply::Status(_) => {}
        other => return Err(ConfigureError::Keepalived(format!("PID 1 said {other:?}"))),
    }
    if had_it {
        bridge_the_gap(inside, link, *address)?;
    }
    Ok(())
}

/// Keepalived begins by taking its address from the link, listens for a second, and gives it back if it is alone. The node
/// that had the address so far is alone: no other control plane can have joined yet. So it need not be without the address.
fn bridge_the_gap(inside: &Net, link: &str, address: Ipv4Net) -> Result<(), NetError> {
    let ask = || match inside.ensure_address(link, address) {
        Ok(net::Changed::Yes) => Ok(()),
        Ok(net::Changed::No) => Err(None),
        Err(error) => Err(Some(error)),
    };
    match poll::until(GAP, ask, Option::is_some) {
        Err(Some(error)) => Err(error),
        // It was not taken away, or is back.
        Ok(()) | Err(None) => Ok(()),
    }
}
