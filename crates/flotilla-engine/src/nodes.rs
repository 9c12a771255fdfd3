//! Machines and what is inside them: computed here, made by the driver, kept right by the nodes themselves.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use flotilla_core::cluster::{Allocations, Cluster, Node};
use flotilla_core::{
    BundleFacts, Bundles, BundlesError, Changed, Driver, DriverError, Explain, GuestError, Host, LinkFacts,
    Machine, MachineSpec, NetworkNode, NetworkPlan, Power, node,
};
use flotilla_node_api::{NodeConfig, VirtualIp};
use flotilla_spec::NodeName;
use futures::StreamExt;
use futures::future::BoxFuture;

use crate::fleet::Fleet;
use crate::node_config;

/// How many nodes are asked at the same time.
pub(crate) const AT_ONCE: usize = 8;

/// What all nodes of a cluster on one host have in common.
struct Facts {
    link: LinkFacts,
    /// The cluster's bundle, if some node is made from another one.
    images: Option<BundleFacts>,
}

/// The machines of all drivers, with what is inside.
#[derive(Clone, Copy)]
pub struct Nodes<'a> {
    fleet: Fleet<'a>,
    bundles: &'a dyn Bundles,
}

impl std::fmt::Debug for Nodes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nodes").finish_non_exhaustive()
    }
}

impl<'a> Nodes<'a> {
    pub fn of(fleet: Fleet<'a>, bundles: &'a dyn Bundles) -> Self {
        Self { fleet, bundles }
    }

    /// What is to be inside a node.
    pub async fn config(&self, cluster: &Cluster, node: &Node) -> Result<NodeConfig, DriverError> {
        let (host, driver) = self.fleet.place(&node.spec)?;
        render(driver, cluster, node, &self.facts(host, cluster).await?).await
    }

    /// Makes a node's machine, boots it, repairs its link or what is inside: whichever is needed. `was_on` says that it ran
    /// before.
    pub async fn ensure(
        &self,
        cluster: &Cluster,
        node: &Node,
        was_on: bool,
    ) -> Result<Arc<dyn Machine>, DriverError> {
        let (host, driver) = self.fleet.place(&node.spec)?;
        let (network, kind) = (host.network(), driver.capabilities().port_kind);
        let (spec, name) = (MachineSpec::of(cluster, node), &node.spec.name);
        let config = self.config(cluster, node).await?;
        if !was_on {
            // What a machine was plugged into that has just ended may still exist, and a new one cannot use it.
            network.remove_port(cluster.name(), name).await?;
        }
        let port = network.ensure_port(cluster.name(), &NetworkNode::of(node), kind).await?;
        let machine = if was_on {
            let machine = driver.plug(&spec.id, &port).await?;
            // It may have been cut off while the others were configured.
            node::configure(machine.as_ref(), &config).await?;
            machine
        } else {
            driver.boot(&spec, &port, &config).await?
        };
        if !node.spec.ports.is_empty() {
            // They were closed when it was stopped.
            network.update(&NetworkPlan::of(cluster)).await?;
        }
        Ok(machine)
    }

    /// Tells the host and every node that runs and has its link of all others. One that cannot be configured does not keep
    /// the others from it; nodes that are booted or repaired later know by themselves. `on_left_alone` is called with the
    /// reason for each node that stays as it is: another version of flotilla has booted it, or its processes do not run.
    pub async fn configure(
        &self,
        cluster: &Cluster,
        machines: &BTreeMap<NodeName, Arc<dyn Machine>>,
        on_left_alone: impl Fn(&GuestError),
    ) -> Result<Changed, DriverError> {
        let mut changed = self.fleet.ensure_routes(cluster).await?;
        // One that holds the virtual IP for itself has to share it before another control plane may take it.
        let adding = &cluster.allocations.adding;
        let shares = cluster.spec.control_planes().any(|node| adding.contains(&node.name));
        let mut calls: Vec<BoxFuture<'_, _>> = Vec::new();
        for (machine, config) in self.configs(cluster, machines).await? {
            let must_answer = shares && matches!(config.virtual_ip, VirtualIp::Keepalived { .. });
            calls.push(Box::pin(
                async move { (node::configure(machine.as_ref(), &config).await, must_answer) },
            ));
        }
        let mut configured = futures::stream::iter(calls).buffer_unordered(AT_ONCE);
        let mut failure = None;
        while let Some((configured, must_answer)) = configured.next().await {
            match configured {
                Ok(configured) => changed = changed.or(configured),
                Err(error @ GuestError::OtherVersion { .. }) => on_left_alone(&error),
                Err(error) if error.unresponsive().is_some() && !must_answer => on_left_alone(&error),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(changed), |error| Err(error.into()))
    }

    /// Whether [`Self::configure`] would find nothing to change in a node. One that cannot be asked is not configured, but one
    /// that another version of flotilla has booted counts only where others are to boot: nothing can be changed in it, but
    /// that it does not learn of them has to be said.
    pub async fn are_configured(
        &self,
        cluster: &Cluster,
        machines: &BTreeMap<NodeName, Arc<dyn Machine>>,
    ) -> Result<bool, DriverError> {
        let mut calls: Vec<BoxFuture<'_, _>> = Vec::new();
        for (machine, config) in self.configs(cluster, machines).await? {
            calls.push(Box::pin(async move { node::differences(machine.as_ref(), &config).await }));
        }
        let runs = |node: Node| machines.get(&node.spec.name).is_some_and(|it| it.state().power == Power::On);
        let all_run = cluster.nodes().all(runs);
        let mut answers = futures::stream::iter(calls).buffer_unordered(AT_ONCE);
        while let Some(differs) = answers.next().await {
            match differs {
                Ok(differs) if differs.is_empty() => {}
                Err(GuestError::OtherVersion { .. }) if all_run => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// The machines that are on and have their link, each with what is to be inside. Others get it when they are repaired.
    async fn configs(
        &self,
        cluster: &Cluster,
        machines: &BTreeMap<NodeName, Arc<dyn Machine>>,
    ) -> Result<Vec<(Arc<dyn Machine>, NodeConfig)>, DriverError> {
        let connected = |node: Node| {
            let machine = machines.get(&node.spec.name)?;
            let state = machine.state();
            (state.power == Power::On && state.intact).then(|| (node, Arc::clone(machine)))
        };
        let connected: Vec<_> = cluster.nodes().filter_map(connected).collect();
        let mut facts = BTreeMap::new();
        let mut configs = Vec::new();
        for (node, machine) in connected {
            let (host, driver) = self.fleet.place(&node.spec)?;
            let facts = match facts.entry(host.name()) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => unknown.insert(self.facts(host, cluster).await?),
            };
            configs.push((machine, render(driver, cluster, &node, facts).await?));
        }
        Ok(configs)
    }

    async fn facts(&self, host: &dyn Host, cluster: &Cluster) -> Result<Facts, DriverError> {
        let Allocations { bundle, bundles, .. } = &cluster.allocations;
        let images =
            if bundles.is_empty() { None } else { Some(self.bundles.facts(bundle).map_err(no_bundle)?) };
        Ok(Facts { link: host.network().link(&NetworkPlan::of(cluster)).await?, images })
    }
}

/// Without its bundle no node can be made.
fn no_bundle(error: BundlesError) -> DriverError {
    let (what, code, hints) = (error.to_string(), error.code(), error.hints());
    DriverError::Failed { what, code, hints, source: Some(error.into()) }
}

async fn render(
    driver: &dyn Driver,
    cluster: &Cluster,
    node: &Node,
    facts: &Facts,
) -> Result<NodeConfig, DriverError> {
    let guest = driver.guest_facts(&MachineSpec::of(cluster, node)).await?;
    Ok(node_config::render(cluster, node, &guest, &facts.link, facts.images.as_ref()))
}
