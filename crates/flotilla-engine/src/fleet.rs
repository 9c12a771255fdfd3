//! All hosts and drivers that serve a cluster, as one.
//!
//! What is about a node goes to the driver that the node names. What is about a cluster goes to all drivers of all hosts,
//! at once. A host that does not answer keeps nobody from the others.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use flotilla_core::{
    Changed, Cluster, Code, Driver, DriverError, Finding, Host, IdRange, Machine, MachineId, MachineSpec,
    NetworkPlan, NetworkState, Reach, Refusal, Severity, Subnet, cluster, requirements,
};
use flotilla_spec::error::Requirement;
use flotilla_spec::{ClusterName, DriverName, NodeName, NodeSpec, WantedPower};
use futures::future::join_all;

const UNSUPPORTED: Code = Code { name: "DRV_UNSUPPORTED", exit_status: 56 };
const CONFLICT: Code = Code { name: "DRV_CONFLICT", exit_status: 51 };

/// The hosts that machines can be on.
#[derive(Clone, Copy)]
pub struct Fleet<'a> {
    hosts: &'a [Arc<dyn Host>],
}

/// Hosts that are asked for the way to the APIs of clusters.
#[derive(Debug, Clone)]
pub struct Hosts(pub Vec<Arc<dyn Host>>);

#[async_trait]
impl Reach for Hosts {
    async fn api(&self, cluster: &Cluster, via: &dyn Machine) -> Result<SocketAddr, DriverError> {
        Fleet::new(&self.0).reach_api(cluster, via.driver()).await
    }
}

/// What was found of a cluster's machines.
#[derive(Clone)]
pub(crate) struct Found {
    pub(crate) machines: BTreeMap<NodeName, Arc<dyn Machine>>,
    /// The drivers whose host does not answer, and why: what they have is unknown.
    pub(crate) silent: Vec<(DriverName, String)>,
}

impl std::fmt::Debug for Fleet<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.hosts.iter().map(|host| host.name())).finish()
    }
}

impl std::fmt::Debug for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Found")
            .field("machines", &self.machines.keys())
            .field("silent", &self.silent)
            .finish()
    }
}

impl<'a> Fleet<'a> {
    pub fn new(hosts: &'a [Arc<dyn Host>]) -> Self {
        Self { hosts }
    }

    /// Hands out ids to the nodes with a user namespace that have none, other than those that are `taken`. Whoever saves them
    /// keeps others from doing the same.
    pub async fn allocate_ids(&self, cluster: &mut Cluster, taken: &[IdRange]) -> Result<(), DriverError> {
        let mut taken = taken.to_vec();
        taken.extend(cluster.allocations.ids.values());
        let has_ids = |node: &NodeSpec| cluster.allocations.ids.contains_key(&node.name);
        let new: Vec<_> =
            cluster.spec.nodes.iter().filter(|node| !node.isolation.is_none() && !has_ids(node)).collect();
        let mut given = Vec::new();
        for node in new {
            let (host, _) = self.place(node)?;
            let ids = host.free_ids(&taken, 1).await?;
            taken.extend(&ids);
            given.extend(ids.into_iter().map(|ids| (node.name.clone(), ids)));
        }
        cluster.allocations.ids.extend(given);
        Ok(())
    }

    /// What all hosts have to say of themselves.
    pub async fn examine(&self) -> Vec<Finding> {
        join_all(self.hosts.iter().map(|host| host.examine())).await.concat()
    }

    /// The same of what only some nodes ask for.
    pub async fn examine_options(&self) -> Vec<Finding> {
        join_all(self.hosts.iter().map(|host| host.examine_options())).await.concat()
    }

    /// Everything that nodes which are to run cannot have. What a driver cannot do is known without asking it.
    pub async fn check(&self, cluster: &Cluster) -> Result<Vec<Refusal>, DriverError> {
        let mut refused: Vec<_> = cluster.spec.nodes.iter().flat_map(|node| self.unsupported(node)).collect();
        for driver in self.drivers() {
            let is_checked = |node: &&NodeSpec| {
                node.driver() == *driver.name()
                    && node.power == WantedPower::Running
                    && !refused.iter().any(|refusal| refusal.requirement.node.as_ref() == Some(&node.name))
            };
            let checked = cluster.spec.nodes.iter().filter(is_checked);
            let wanted: Vec<_> = checked
                .filter_map(|node| Some(MachineSpec::of(cluster, &cluster.node(&node.name)?)))
                .collect();
            if !wanted.is_empty() {
                // Nothing can be said about a host that does not answer: its nodes are unknown.
                refused.extend(reached(vec![driver.check(&wanted).await])?.concat());
            }
        }
        let plan = NetworkPlan::of(cluster);
        for host in self.hosts {
            refused.extend(reached(vec![host.network().check(&plan).await])?.concat());
        }
        Ok(refused)
    }

    /// What a node needs and its driver cannot do.
    fn unsupported(&self, node: &NodeSpec) -> Vec<Refusal> {
        let name = node.driver();
        let refusal = |requirement, text, cure| Refusal {
            requirement,
            finding: Finding {
                code: UNSUPPORTED.name,
                exit_status: UNSUPPORTED.exit_status,
                severity: Severity::Fatal,
                text,
                cure,
            },
        };
        let Some(driver) = self.driver(&name) else {
            let requirement = Requirement { node: Some(node.name.clone()), key: "driver", item: None };
            let known: Vec<_> = self.drivers().map(|driver| driver.name().to_string()).collect();
            let cure = format!("these exist: {}", known.join(", "));
            return vec![refusal(
                requirement,
                format!("node {}: there is no driver {name}", node.name),
                cure,
            )];
        };
        let capabilities = driver.capabilities();
        let lacking = requirements(node).into_iter().filter(|(needed, _)| !capabilities.has(*needed));
        let refused = lacking.map(|(needed, requirement)| {
            let text = format!("node {}: driver {name} cannot {needed}", node.name);
            refusal(requirement, text, "leave this out, or choose another driver for the node".to_owned())
        });
        refused.collect()
    }

    /// Address ranges that others than this cluster use on any host that answers.
    pub async fn subnets_in_use(&self, except: &ClusterName) -> Result<Vec<Subnet>, DriverError> {
        let used = join_all(self.hosts.iter().map(|host| host.network().used(except))).await;
        Ok(reached(used)?.concat())
    }

    /// How the cluster's network is on the hosts that answer, where it is worst.
    pub async fn network_state(&self, cluster: &Cluster) -> Result<NetworkState, DriverError> {
        let plan = NetworkPlan::of(cluster);
        let states = join_all(self.hosts.iter().map(|host| host.network().state(&plan))).await;
        reached(states).map(|states| states.into_iter().min().unwrap_or(NetworkState::Intact))
    }

    pub async fn ensure_network(&self, cluster: &Cluster) -> Result<Changed, DriverError> {
        let plan = NetworkPlan::of(cluster);
        let ensured = join_all(self.hosts.iter().map(|host| host.network().ensure(&plan))).await;
        reached(ensured).map(any)
    }

    /// Brings the routes and ports of all hosts in line with the nodes of the cluster.
    pub async fn ensure_routes(&self, cluster: &Cluster) -> Result<Changed, DriverError> {
        let plan = NetworkPlan::of(cluster);
        let updated = join_all(self.hosts.iter().map(|host| host.network().update(&plan))).await;
        reached(updated).map(any)
    }

    /// Every machine of a cluster. Two of one name are an error: nobody could say which of them is the node.
    pub(crate) async fn list(&self, cluster: &ClusterName) -> Result<Found, DriverError> {
        let listed = join_all(self.drivers().map(|driver| driver.list(cluster))).await;
        let mut found = Found { machines: BTreeMap::new(), silent: Vec::new() };
        for (driver, listed) in self.drivers().zip(listed) {
            let machines = match listed {
                Err(DriverError::Unreachable { host, why }) => {
                    found.silent.push((driver.name().clone(), format!("host {host} does not answer: {why}")));
                    continue;
                }
                listed => listed?,
            };
            for machine in machines {
                let name = machine.name().clone();
                if let Some(other) = found.machines.insert(name.clone(), machine) {
                    return Err(two_of(&name, other.driver(), driver.name()));
                }
            }
        }
        Ok(found)
    }

    /// The digests of the bundles that each machine of a cluster needs, on the hosts that answer. The cluster's state may be
    /// damaged or gone.
    pub async fn bundles(
        &self,
        cluster: &ClusterName,
    ) -> Result<BTreeMap<NodeName, Vec<String>>, DriverError> {
        let mut needed = BTreeMap::new();
        for (name, machine) in self.list(cluster).await?.machines {
            needed.insert(name, machine.bundles().await?);
        }
        Ok(needed)
    }

    /// Where a node is: the host, and the driver that the node names.
    pub(crate) fn place(&self, node: &NodeSpec) -> Result<(&'a dyn Host, &'a dyn Driver), DriverError> {
        self.owner(&node.driver())
    }

    /// Turns a machine of this driver off. No port of the host leads to it any more.
    pub async fn stop(
        &self,
        owner: &DriverName,
        cluster: &ClusterName,
        node: &NodeName,
    ) -> Result<Changed, DriverError> {
        let (host, driver) = self.owner(owner)?;
        host.network().unpublish(cluster, node).await?;
        driver.stop(&MachineId::new(cluster, node)).await
    }

    /// Removes a machine of this driver with its disk and its port.
    pub async fn remove(
        &self,
        owner: &DriverName,
        cluster: &ClusterName,
        node: &NodeName,
    ) -> Result<Changed, DriverError> {
        let (host, driver) = self.owner(owner)?;
        // Also where its ports cannot be closed: as little as possible is left.
        let closed = host.network().unpublish(cluster, node).await;
        let removed = driver.remove(&MachineId::new(cluster, node)).await?;
        let unplugged = host.network().remove_port(cluster, node).await?;
        closed.map(|closed| removed.or(unplugged).or(closed))
    }

    /// Where this process reaches the API of a cluster, by a control plane of this driver.
    pub async fn reach_api(&self, cluster: &Cluster, owner: &DriverName) -> Result<SocketAddr, DriverError> {
        let (host, _) = self.owner(owner)?;
        host.network().reach(cluster.name(), cluster.api_address()).await
    }

    /// The same by the primary, for people. Its own address if its host does not answer.
    pub async fn api_url(&self, cluster: &Cluster) -> String {
        let reached = self.reach_api(cluster, &cluster.spec.primary().driver()).await;
        cluster::url(reached.unwrap_or_else(|_| cluster.api_address().into()))
    }

    /// Removes everything that belongs to the name on all hosts that answer: machines first, then the network they are
    /// plugged into. One that does not answer is an error when all others are done.
    pub async fn remove_all(&self, cluster: &ClusterName) -> Result<Changed, DriverError> {
        let removed = join_all(self.hosts.iter().map(|host| async move {
            let machines =
                join_all(host.drivers().into_iter().map(|driver| driver.remove_all(cluster))).await;
            // Also where a machine could not be removed: as little as possible is left.
            let network = host.network().remove(cluster).await;
            let machines = machines.into_iter().collect::<Result<Vec<_>, _>>().map(any)?;
            Ok(machines.or(network?))
        }))
        .await;
        removed.into_iter().collect::<Result<Vec<_>, _>>().map(any)
    }

    pub(crate) fn has_driver(&self, name: &DriverName) -> bool {
        self.driver(name).is_some()
    }

    fn drivers(&self) -> impl Iterator<Item = &'a dyn Driver> {
        self.hosts.iter().flat_map(|host| host.drivers())
    }

    fn driver(&self, name: &DriverName) -> Option<&'a dyn Driver> {
        self.hosts.iter().find_map(|host| of(host.as_ref(), name))
    }

    fn owner(&self, name: &DriverName) -> Result<(&'a dyn Host, &'a dyn Driver), DriverError> {
        let owner = |host: &'a Arc<dyn Host>| Some((host.as_ref(), of(host.as_ref(), name)?));
        self.hosts.iter().find_map(owner).ok_or_else(|| no_driver(name))
    }
}

fn of<'a>(host: &'a dyn Host, name: &DriverName) -> Option<&'a dyn Driver> {
    host.drivers().into_iter().find(|driver| driver.name() == name)
}

fn no_driver(name: &DriverName) -> DriverError {
    let what = format!("there is no driver {name}");
    DriverError::Failed { what, code: UNSUPPORTED, hints: Vec::new(), source: None }
}

/// The answers of those that answer.
fn reached<T>(answers: Vec<Result<T, DriverError>>) -> Result<Vec<T>, DriverError> {
    let is_answer = |answer: &Result<T, DriverError>| !matches!(answer, Err(DriverError::Unreachable { .. }));
    answers.into_iter().filter(is_answer).collect()
}

fn any(changes: Vec<Changed>) -> Changed {
    changes.into_iter().fold(Changed::No, Changed::or)
}

fn two_of(node: &NodeName, one: &DriverName, other: &DriverName) -> DriverError {
    DriverError::Failed {
        what: format!("there are two machines named {node}: one of driver {one}, one of driver {other}"),
        code: CONFLICT,
        hints: vec!["remove one of them with the tools of its driver".to_owned()],
        source: None,
    }
}
