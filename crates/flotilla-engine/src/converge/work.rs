//! The data that the steps of a plan share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flotilla_spec::{ClusterName, DriverName, NodeName, NodeSpec, WantedPower};

use crate::error::EngineError;
use crate::plan::Observed;
use crate::store::Locked;
use flotilla_core::cluster::{Cluster, Node};
use flotilla_core::{Machine, Member, Membership, Power};

pub(super) struct Work<'a> {
    pub(super) name: &'a ClusterName,
    pub(super) cluster: Option<&'a Cluster>,
    pub(super) limit: Duration,
    machines: Mutex<BTreeMap<NodeName, Arc<dyn Machine>>>,
    /// The nodes to act on; none for all.
    only: Option<&'a [NodeName]>,
    /// The control planes whose etcd the others do not reach: they may be disconnected.
    unheard: BTreeSet<NodeName>,
    /// The nodes that were observed to be members, and have not left since.
    joined: Mutex<BTreeSet<NodeName>>,
    /// The certificate authorities on the machines of a cluster that is being deleted.
    pub(super) authorities: Vec<Vec<u8>>,
    /// Of a cluster that is started or deleted.
    locked: Option<&'a Locked>,
}

impl<'a> Work<'a> {
    /// Work without a time limit.
    pub(super) fn on(cluster: &'a Cluster, machines: BTreeMap<NodeName, Arc<dyn Machine>>) -> Self {
        let name = cluster.name();
        Self { cluster: Some(cluster), machines: Mutex::new(machines), ..Self::of(name) }
    }

    /// The same with the observed members of etcd.
    pub(super) fn knowing(self, observed: &Observed) -> Self {
        let down = observed.members.iter().flatten().filter(|member| !member.up);
        let node_of = |member: &Member| self.cluster?.nodes().find(|node| member.is_of(node));
        let unheard = down.filter_map(node_of).map(|node| node.spec.name).collect();
        Self { unheard, joined: Mutex::new(observed.joined.clone()), ..self }
    }

    /// The same with the right to change what is stored of the cluster.
    pub(super) fn saving(self, locked: &'a Locked) -> Self {
        Self { locked: Some(locked), ..self }
    }

    /// The same for some nodes only.
    pub(super) fn only(self, nodes: &'a [NodeName]) -> Self {
        Self { only: Some(nodes), ..self }
    }

    fn of(name: &'a ClusterName) -> Self {
        Self {
            name,
            cluster: None,
            limit: Duration::MAX,
            machines: Mutex::default(),
            only: None,
            unheard: BTreeSet::new(),
            joined: Mutex::default(),
            authorities: Vec::new(),
            locked: None,
        }
    }

    /// Removing a cluster whose machines have these certificate authorities. Its name is enough.
    pub(super) fn deleting(locked: &'a Locked, authorities: Vec<Vec<u8>>) -> Self {
        Self { locked: Some(locked), authorities, ..Self::of(locked.name()) }
    }

    /// The same with another time limit.
    pub(super) fn within(&self, limit: Duration) -> Self {
        let (machines, joined) = (Mutex::new(self.machines()), Mutex::new(self.joined().clone()));
        let (unheard, authorities) = (self.unheard.clone(), self.authorities.clone());
        Self { limit, machines, unheard, joined, authorities, ..*self }
    }

    pub(super) fn cluster(&self) -> Result<&'a Cluster, EngineError> {
        self.cluster.ok_or_else(|| self.no_cluster())
    }

    /// The right to change what is stored of the cluster.
    pub(super) fn locked(&self) -> Result<&'a Locked, EngineError> {
        self.locked.ok_or_else(|| self.no_cluster())
    }

    fn no_cluster(&self) -> EngineError {
        EngineError::NoCluster { name: self.name.clone(), others: Vec::new() }
    }

    /// The machines that are on, of the nodes to act on.
    pub(super) fn machines_meant(&self) -> Vec<Arc<dyn Machine>> {
        let machines = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
        let on = machines.values().filter(|machine| machine.state().power == Power::On);
        on.filter(|machine| self.is_meant(machine.name())).cloned().collect()
    }

    /// The cluster to wait for, without nodes that are not started or are being deleted.
    pub(super) fn meant(&self, cluster: &Cluster) -> Cluster {
        let mut cluster = cluster.clone();
        for node in &mut cluster.spec.nodes {
            let is_unknown = self.is_unknown(&node.name);
            if is_unknown || !self.is_meant(&node.name) || cluster.allocations.leaving.contains(&node.name) {
                node.power = WantedPower::Stopped;
            }
        }
        cluster
    }

    /// The driver of a node: the one that its spec names, or that has its machine, which no spec may know.
    pub(super) fn owner(&self, name: &NodeName) -> DriverName {
        let known =
            self.cluster.and_then(|cluster| cluster.spec.nodes.iter().find(|node| node.name == *name));
        let found = || self.machine(name).map(|machine| machine.driver().clone());
        known.map(NodeSpec::driver).or_else(found).unwrap_or_default()
    }

    /// Whether its host does not answer.
    fn is_unknown(&self, name: &NodeName) -> bool {
        self.machine(name).is_some_and(|machine| matches!(machine.state().power, Power::Unknown(_)))
    }

    fn is_meant(&self, name: &NodeName) -> bool {
        self.only.is_none_or(|only| only.contains(name))
    }

    /// All machines, as they were last seen.
    pub(super) fn machines(&self) -> BTreeMap<NodeName, Arc<dyn Machine>> {
        self.machines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A node's machine, on or off.
    pub(super) fn machine(&self, name: &NodeName) -> Option<Arc<dyn Machine>> {
        self.machines.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    pub(super) fn is_on(&self, name: &NodeName) -> bool {
        self.machine_on(name).is_some()
    }

    /// A node's machine, if it is on.
    fn machine_on(&self, name: &NodeName) -> Option<Arc<dyn Machine>> {
        self.machine(name).filter(|machine| machine.state().power == Power::On)
    }

    pub(super) fn put(&self, machine: Arc<dyn Machine>) {
        let mut machines = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
        machines.insert(machine.name().clone(), machine);
    }

    /// The node is no member any more.
    pub(super) fn leaves(&self, name: &NodeName) {
        self.joined().remove(name);
    }

    fn joined(&self) -> MutexGuard<'_, BTreeSet<NodeName>> {
        self.joined.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn node(&self, name: &NodeName) -> Result<Node, EngineError> {
        let cluster = self.cluster()?;
        cluster.node(name).ok_or_else(|| EngineError::no_node(cluster, name.as_ref()))
    }

    /// A node and its machine, which must be on.
    pub(super) fn at(&self, name: &NodeName) -> Result<(&'a Cluster, Node, Arc<dyn Machine>), EngineError> {
        let (cluster, node) = (self.cluster()?, self.node(name)?);
        let machine = self.machine_on(name).ok_or_else(|| not_running(cluster, name))?;
        Ok((cluster, node, machine))
    }

    /// The machines of the other control planes that should run, as far as they are on.
    pub(super) fn other_control_planes(&self, cluster: &Cluster, than: &NodeName) -> Vec<Arc<dyn Machine>> {
        let to_run = cluster.spec.control_planes().filter(|node| node.power == WantedPower::Running);
        let others = to_run.filter(|node| node.name != *than);
        others.filter_map(|node| self.machine_on(&node.name)).collect()
    }

    /// The machines of all control planes that are on and members; at least one.
    pub(super) async fn vias(&self) -> Result<Vec<Arc<dyn Machine>>, EngineError> {
        let cluster = self.cluster()?;
        let mut found = Vec::new();
        for machine in cluster.spec.control_planes().filter_map(|node| self.machine_on(&node.name)) {
            if machine.record().await?.membership.holds_data() {
                found.push(machine);
            }
        }
        if found.is_empty() {
            return Err(not_running(cluster, &cluster.spec.primary().name));
        }
        Ok(found)
    }

    /// The member to ask through: the first control plane that is on and a member, preferring one that the other
    /// members reach. A node that leaves cannot be asked about itself.
    pub(super) async fn via(
        &self,
        leaving: Option<&NodeName>,
    ) -> Result<(&'a Cluster, Arc<dyn Machine>), EngineError> {
        let cluster = self.cluster()?;
        let mut vias: Vec<_> = cluster.spec.control_planes().collect();
        vias.retain(|node| Some(&node.name) != leaving);
        vias.sort_by_key(|node| self.unheard.contains(&node.name));
        let mut unreadable = None;
        for node in vias {
            let Some(machine) = self.machine_on(&node.name) else { continue };
            if self.joined().contains(&node.name) {
                return Ok((cluster, machine));
            }
            match machine.record().await {
                Ok(record) if record.membership == Membership::Member => return Ok((cluster, machine)),
                Ok(_) => {}
                // Another member may answer. If none does, this is the reason.
                Err(error) => unreadable = unreadable.or(Some(error)),
            }
        }
        Err(unreadable.map_or_else(|| not_running(cluster, &cluster.spec.primary().name), EngineError::from))
    }
}

fn not_running(cluster: &Cluster, node: &NodeName) -> EngineError {
    EngineError::NotRunning { cluster: cluster.name().clone(), node: node.clone() }
}
