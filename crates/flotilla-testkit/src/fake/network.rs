//! Networks that are entries in a map.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use flotilla_core::network::LINK;
use flotilla_core::{
    Changed, Code, DriverError, LinkFacts, Mac, Network, NetworkNode, NetworkPlan, NetworkState, Port,
    PortKind, Refusal, Subnet,
};
use flotilla_spec::{ClusterName, HostPort, NodeName};
use ipnet::Ipv4Net;

use super::Calls;

/// How large packets are.
const MTU: u32 = 1500;

/// The ports that exist. Machines look here whether they are still plugged in.
#[derive(Debug, Clone, Default)]
pub(super) struct Ports(Arc<Mutex<BTreeMap<(ClusterName, NodeName), PortKind>>>);

impl Ports {
    pub(super) fn has(&self, cluster: &ClusterName, node: &NodeName) -> bool {
        self.all().contains_key(&(cluster.clone(), node.clone()))
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<(ClusterName, NodeName), PortKind>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The network of a host that has none.
#[derive(Debug, Default)]
pub struct FakeNetwork {
    calls: Calls,
    pub(super) ports: Ports,
    made: Mutex<BTreeMap<ClusterName, Made>>,
    /// Where addresses of clusters are reached; none: at themselves.
    forwarded: Mutex<Option<SocketAddr>>,
    /// The name of the host, if that does not answer.
    silent: Mutex<Option<String>>,
}

/// A network as it was last made.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Made {
    range: Ipv4Net,
    published: Vec<(NodeName, HostPort)>,
    routes: BTreeMap<Ipv4Net, Ipv4Addr>,
}

impl Made {
    fn of(plan: &NetworkPlan) -> Self {
        let published =
            plan.to_run().flat_map(|node| node.ports.iter().map(|port| (node.name.clone(), *port)));
        let routes = plan.nodes.iter().map(|node| (node.pod_range, node.address));
        Self { range: plan.subnet, published: published.collect(), routes: routes.collect() }
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

    /// Lets this process reach clusters at another address only, as it reaches those of other hosts.
    pub fn forward(&self, at: SocketAddr) {
        *self.forwarded.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
    }

    /// Lets the host not answer any more.
    pub fn fall_silent(&self, host: &str) {
        *self.silent.lock().unwrap_or_else(PoisonError::into_inner) = Some(host.to_owned());
    }

    fn require_answer(&self) -> Result<(), DriverError> {
        match self.silent.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            Some(host) => Err(DriverError::Unreachable { host, why: "connection refused".to_owned() }),
            None => Ok(()),
        }
    }

    fn made(&self) -> MutexGuard<'_, BTreeMap<ClusterName, Made>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Network for FakeNetwork {
    async fn used(&self, except: &ClusterName) -> Result<Vec<Subnet>, DriverError> {
        let call = self.calls.begin(format!("subnets-in-use {except}")).await?;
        self.require_answer()?;
        let made = self.made().clone().into_iter().filter(|(cluster, _)| cluster != except);
        call.end()?;
        let used = made.map(|(cluster, Made { range, .. })| Subnet {
            range,
            user: format!("the cluster {cluster}"),
            before_main: false,
        });
        Ok(used.collect())
    }

    async fn check(&self, _: &NetworkPlan) -> Result<Vec<Refusal>, DriverError> {
        self.require_answer()?;
        Ok(Vec::new())
    }

    async fn state(&self, plan: &NetworkPlan) -> Result<NetworkState, DriverError> {
        let call = self.calls.begin("has-network".to_owned()).await?;
        call.end()?;
        Ok(match self.made().get(&plan.cluster) {
            Some(made) if *made == Made::of(plan) => NetworkState::Intact,
            Some(made) if made.range == plan.subnet => NetworkState::Outdated,
            _ => NetworkState::Incomplete,
        })
    }

    async fn ensure(&self, plan: &NetworkPlan) -> Result<Changed, DriverError> {
        let call = self.calls.begin("ensure-network".to_owned()).await?;
        let made = Made::of(plan);
        let changed = self.made().insert(plan.cluster.clone(), made.clone()) != Some(made);
        call.end()?;
        Ok(changed.into())
    }

    async fn update(&self, plan: &NetworkPlan) -> Result<Changed, DriverError> {
        let call = self.calls.begin("ensure-routes".to_owned()).await?;
        let mut changed = false;
        if let Some(made) = self.made().get_mut(&plan.cluster) {
            let wanted = Made::of(plan);
            changed = *made != wanted;
            *made = wanted;
        }
        call.end()?;
        Ok(changed.into())
    }

    async fn link(&self, plan: &NetworkPlan) -> Result<LinkFacts, DriverError> {
        let gateway = plan.gateway;
        Ok(LinkFacts { name: LINK.to_owned(), mtu: MTU, gateway, name_servers: vec![gateway] })
    }

    async fn ensure_port(
        &self,
        cluster: &ClusterName,
        node: &NetworkNode,
        kind: PortKind,
    ) -> Result<Port, DriverError> {
        if !self.made().contains_key(cluster) {
            return Err(no_network(cluster));
        }
        let NetworkNode { name, address, .. } = node;
        let existing = *self.ports.all().entry((cluster.clone(), name.clone())).or_insert(kind);
        if existing != kind {
            return Err(failed(format!("node {name} has a port of another kind")));
        }
        let [a, b, c, d] = address.octets();
        let (device, mac) = (format!("port-{name}"), Mac([2, 0, a, b, c, d]));
        Ok(Port { kind, device, name_inside: LINK.to_owned(), mac, mtu: MTU })
    }

    async fn remove_port(&self, cluster: &ClusterName, node: &NodeName) -> Result<Changed, DriverError> {
        Ok(self.ports.all().remove(&(cluster.clone(), node.clone())).is_some().into())
    }

    async fn unpublish(&self, cluster: &ClusterName, node: &NodeName) -> Result<Changed, DriverError> {
        let mut made = self.made();
        let Some(made) = made.get_mut(cluster) else { return Ok(Changed::No) };
        let before = made.published.len();
        made.published.retain(|(of, _)| of != node);
        Ok((made.published.len() < before).into())
    }

    async fn reach(&self, _: &ClusterName, at: SocketAddrV4) -> Result<SocketAddr, DriverError> {
        let forwarded = *self.forwarded.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(forwarded.unwrap_or_else(|| at.into()))
    }

    async fn remove(&self, cluster: &ClusterName) -> Result<Changed, DriverError> {
        let call = self.calls.begin("remove-network".to_owned()).await?;
        let removed = self.made().remove(cluster);
        self.ports.all().retain(|(of, _), _| of != cluster);
        call.end()?;
        Ok(removed.is_some().into())
    }
}

fn no_network(cluster: &ClusterName) -> DriverError {
    failed(format!("cluster {cluster} has no network"))
}

fn failed(what: String) -> DriverError {
    let code = Code { name: "IF_NETWORK", exit_status: 70 };
    DriverError::Failed { what, code, hints: Vec::new(), source: None }
}
