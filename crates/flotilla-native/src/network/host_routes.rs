//! The host's routes to the pods of nodes. The routes in a node are set by `flotilla-node/src/configure.rs`.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use flotilla_core::{NetworkNode, NetworkPlan};
use flotilla_linux::net::Net;
use ipnet::Ipv4Net;

use crate::error::NativeError;
use crate::names::Names;

/// How the host's routes differ from those of a plan.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Differences {
    /// To the pods of a node, by its address. They are lost when the bridge goes down.
    missing: Vec<(Ipv4Net, Ipv4Addr)>,
    /// To nodes that are gone.
    stale: Vec<Ipv4Net>,
}

impl Differences {
    pub(super) fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.stale.is_empty()
    }

    pub(super) fn apply(&self, net: &Net, bridge: &str) -> Result<(), NativeError> {
        for range in &self.stale {
            net.remove_route(*range)?;
        }
        for (range, address) in &self.missing {
            net.ensure_route(*range, *address, bridge)?;
        }
        Ok(())
    }
}

/// Nodes that are off have their route as well: packets for them must not leave for the world.
pub(super) fn differences(net: &Net, plan: &NetworkPlan, names: &Names) -> Result<Differences, NativeError> {
    let present = net.ways(&names.bridge(), plan.pod_subnet)?;
    let is_missing = |node: &&NetworkNode| present.get(&node.pod_range) != Some(&Some(node.address));
    let mut missing: Vec<_> = plan.nodes.iter().filter(is_missing).collect();
    if !missing.is_empty() {
        let taken = taken(net, &names.bridge())?;
        let mut kept = Vec::new();
        for node in missing {
            // Where a node is connected already, that is somebody else's route, of a VPN that came later: all but the host
            // reach the pods. A new node is refused.
            if !taken.contains(&node.pod_range) || net.find_link(&names.port(&node.name))?.is_none() {
                kept.push(node);
            }
        }
        missing = kept;
    }
    let is_stale = |range: &&Ipv4Net| !plan.nodes.iter().any(|node| node.pod_range == **range);
    Ok(Differences {
        missing: missing.into_iter().map(|node| (node.pod_range, node.address)).collect(),
        stale: present.keys().filter(is_stale).copied().collect(),
    })
}

/// The ranges that routes of others lead to.
fn taken(net: &Net, bridge: &str) -> Result<BTreeSet<Ipv4Net>, NativeError> {
    let others = net.routes()?.into_iter().filter(|route| route.link.as_deref() != Some(bridge));
    Ok(others.map(|route| route.dst).collect())
}
