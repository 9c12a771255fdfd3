//! What nodes know of each other: the way to the pods of all others, their names, and who shares the API's address.
//!
//! All of it follows from what was handed out, so nodes are told of one before it boots; the one itself finds it all when
//! it boots ([`super::boot`]).

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::Path;

use flotilla_core::Changed;
use flotilla_core::{Cluster, Node};
use flotilla_linux::enter::Files;
use flotilla_linux::net::{self, Net, NetError};
use flotilla_linux::process::Process;
use flotilla_linux::resolver::resolv_conf;
use flotilla_spec::Cni;
use ipnet::Ipv4Net;

use super::boot::LINK;
use super::error::{At, NativeError};
use super::{Native, etc, keepalived};

/// The files that a node is told, with what is in them.
fn told_files(cluster: &Cluster) -> [(&'static Path, String); 2] {
    // The second never changes: nodes that an older flotilla booted have another one.
    [
        (Path::new("/etc/hosts"), etc::hosts(cluster)),
        (Path::new("/etc/resolv.conf"), resolv_conf(cluster.gateway())),
    ]
}

impl Native {
    /// Tells every node that runs; the host learns the ways to their ports, and forgets nodes that are gone. One that
    /// cannot be told does not keep the others from it.
    pub(super) fn tell_all_nodes(&self, cluster: &Cluster) -> Result<Changed, NativeError> {
        let mut changed = Changed::No;
        // Without a network there is nothing to lead to; who makes it makes the ports as well.
        let (host, bridge) = (Net::here()?, self.names(cluster.name()).bridge());
        if host.find_link(&bridge)?.is_some() {
            let forgotten = Ways::on_host(&host, cluster, &bridge)?.put_right(&host, &bridge)?;
            changed = self.ensure_ports(cluster)?.or(told(forgotten));
        }
        let mut failure = None;
        for (node, init) in self.connected(cluster)? {
            match self.tell(cluster, &node, &init) {
                Ok(told) => changed = changed.or(told),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(changed), Err)
    }

    /// Whether there is nobody left to tell anything. One that cannot be asked does not know.
    pub(super) fn all_nodes_know(&self, cluster: &Cluster) -> Result<bool, NativeError> {
        let nodes = self.connected(cluster)?;
        Ok(nodes.iter().all(|(node, init)| knows(cluster, node, init).unwrap_or(false)))
    }

    /// The nodes that run and have their link. Others get it, and what there is to know, when they are repaired.
    fn connected(&self, cluster: &Cluster) -> Result<Vec<(Node, Process)>, NativeError> {
        let cabling = self.cabling(cluster.name())?;
        let mut connected = Vec::new();
        for node in cluster.nodes() {
            let init = self.init(cluster.name(), &node.spec.name)?;
            if let Some(init) = init
                && cabling.reaches(&node.spec.name)?
            {
                connected.push((node, init));
            }
        }
        Ok(connected)
    }

    /// Tells a node that runs and has its link.
    pub(super) fn tell(
        &self,
        cluster: &Cluster,
        node: &Node,
        init: &Process,
    ) -> Result<Changed, NativeError> {
        let inside = tell_ways(cluster, node, init).map_err(failed(node))?;
        let mut changed = self.tell_keepalived(cluster, node, init, &inside.0)?.or(told(inside.1));
        let files = files(node, init)?;
        for (path, text) in told_files(cluster) {
            if files.read(path).at("read", path)?.as_deref() != Some(text.as_bytes()) {
                files.write(path, 0o644, text.as_bytes()).at("write", path)?;
                changed = Changed::Yes;
            }
        }
        Ok(changed)
    }
}

/// Tells it the ways alone, which is all that lives in the kernel. Gives its network, too.
pub(super) fn tell_ways(
    cluster: &Cluster,
    node: &Node,
    init: &Process,
) -> Result<(Net, net::Changed), NetError> {
    let inside = Net::of_process(init)?;
    let changed = Ways::in_node(&inside, cluster, node)?.put_right(&inside, LINK)?;
    Ok((inside, changed))
}

fn knows(cluster: &Cluster, node: &Node, init: &Process) -> Result<bool, NativeError> {
    let inside = Net::of_process(init).map_err(failed(node))?;
    let files = files(node, init)?;
    for (path, text) in told_files(cluster) {
        if files.read(path).at("read", path)?.as_deref() != Some(text.as_bytes()) {
            return Ok(false);
        }
    }
    Ok(Ways::in_node(&inside, cluster, node).map_err(failed(node))?.are_right()
        && keepalived::is_told(cluster, node, &files)?)
}

fn files(node: &Node, init: &Process) -> Result<Files, NativeError> {
    Files::of(init).at("enter", format!("node {}", node.spec.name))
}

fn failed(node: &Node) -> impl Fn(NetError) -> NativeError {
    let node = node.spec.name.clone();
    move |source| NativeError::Connect { node: node.clone(), source }
}

fn told(changed: net::Changed) -> Changed {
    if changed == net::Changed::Yes { Changed::Yes } else { Changed::No }
}

/// What is wrong with the ways to pods.
struct Ways {
    /// To nodes that are there.
    missing: Vec<(Ipv4Net, Ipv4Addr)>,
    /// To nodes that are gone.
    stale: Vec<Ipv4Net>,
}

impl Ways {
    /// A node knows the ways to all others. Another pod network makes its own.
    fn in_node(inside: &Net, cluster: &Cluster, node: &Node) -> Result<Self, NetError> {
        if cluster.spec.network.cni != Cni::Flotilla {
            return Ok(Self { missing: Vec::new(), stale: Vec::new() });
        }
        let there = inside.ways(LINK, cluster.allocations.pod_subnet)?;
        let others = cluster.nodes().filter(|other| other.spec.name != node.spec.name);
        let mut missing: BTreeMap<_, _> = others.map(|other| (other.pod_range, other.address)).collect();
        let stale = there.keys().filter(|range| !missing.contains_key(range)).copied().collect();
        missing.retain(|range, address| there.get(range) != Some(&Some(*address)));
        Ok(Self { missing: missing.into_iter().collect(), stale })
    }

    /// The host learns the way to a node when that boots.
    fn on_host(host: &Net, cluster: &Cluster, bridge: &str) -> Result<Self, NetError> {
        let ranges: BTreeSet<_> = cluster.nodes().map(|node| node.pod_range).collect();
        let there = host.ways(bridge, cluster.allocations.pod_subnet)?.into_keys();
        Ok(Self { missing: Vec::new(), stale: there.filter(|range| !ranges.contains(range)).collect() })
    }

    fn are_right(&self) -> bool {
        self.missing.is_empty() && self.stale.is_empty()
    }

    fn put_right(&self, net: &Net, link: &str) -> Result<net::Changed, NetError> {
        for range in &self.stale {
            net.remove_route(*range)?;
        }
        net.put_ways(link, self.missing.iter().copied())?;
        Ok(if self.are_right() { net::Changed::No } else { net::Changed::Yes })
    }
}
