//! Networks that are entries in a map.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use flotilla_core::{Changed, Cluster, DriverError, LinkFacts, Network, Refusal, Subnet};
use flotilla_spec::{ClusterName, HostPort, NodeName, WantedPower};
use ipnet::Ipv4Net;

use super::Calls;

/// The network of a host that has none.
#[derive(Debug, Default)]
pub struct FakeNetwork {
    calls: Calls,
    made: Mutex<BTreeMap<ClusterName, Made>>,
}

/// A network as it was last made.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Made {
    range: Ipv4Net,
    ports: Vec<(NodeName, HostPort)>,
}

impl Made {
    fn of(cluster: &Cluster) -> Self {
        let nodes = cluster.spec.nodes.iter().filter(|node| node.power == WantedPower::Running);
        let ports = nodes.flat_map(|node| node.ports.iter().map(|port| (node.name.clone(), *port)));
        Self { range: cluster.allocations.subnet, ports: ports.collect() }
    }
}

impl FakeNetwork {
    pub fn new(calls: &Calls) -> Self {
        Self { calls: calls.clone(), ..Self::default() }
    }

    /// Takes the network away, as somebody might behind our back.
    pub fn lose(&self, cluster: &ClusterName) {
        self.made().remove(cluster);
    }

    fn made(&self) -> MutexGuard<'_, BTreeMap<ClusterName, Made>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Network for FakeNetwork {
    async fn used(&self, except: &ClusterName) -> Result<Vec<Subnet>, DriverError> {
        let call = self.calls.begin(format!("subnets-in-use {except}")).await?;
        let made = self.made().clone().into_iter().filter(|(cluster, _)| cluster != except);
        call.end()?;
        let used = made.map(|(cluster, Made { range, .. })| Subnet {
            range,
            user: format!("the cluster {cluster}"),
            before_main: false,
        });
        Ok(used.collect())
    }

    async fn check(&self, _: &Cluster) -> Result<Vec<Refusal>, DriverError> {
        Ok(Vec::new())
    }

    async fn is_intact(&self, cluster: &Cluster) -> Result<bool, DriverError> {
        let call = self.calls.begin("has-network".to_owned()).await?;
        call.end()?;
        Ok(self.made().get(cluster.name()) == Some(&Made::of(cluster)))
    }

    async fn ensure(&self, cluster: &Cluster) -> Result<Changed, DriverError> {
        let call = self.calls.begin("ensure-network".to_owned()).await?;
        let made = Made::of(cluster);
        let before = self.made().insert(cluster.name().clone(), made.clone());
        call.end()?;
        Ok((before != Some(made)).into())
    }

    async fn link(&self, cluster: &Cluster) -> Result<LinkFacts, DriverError> {
        let gateway = cluster.gateway();
        Ok(LinkFacts { name: "eth0".to_owned(), mtu: 1500, gateway, name_servers: vec![gateway] })
    }

    async fn update(&self, cluster: &Cluster) -> Result<Changed, DriverError> {
        let call = self.calls.begin("ensure-routes".to_owned()).await?;
        let mut changed = false;
        if let Some(made) = self.made().get_mut(cluster.name()) {
            changed = *made != Made::of(cluster);
            *made = Made::of(cluster);
        }
        call.end()?;
        Ok(changed.into())
    }

    async fn remove(&self, cluster: &ClusterName) -> Result<Changed, DriverError> {
        let call = self.calls.begin("remove-network".to_owned()).await?;
        let removed = self.made().remove(cluster);
        call.end()?;
        Ok(removed.is_some().into())
    }
}
