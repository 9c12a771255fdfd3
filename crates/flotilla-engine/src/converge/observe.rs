//! Observes a cluster: its network, its machines, Kubernetes in them, and the user's kubeconfig.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flotilla_core::cluster::{Cluster, Node};
use flotilla_core::{Certificates, KubernetesState, Machine, Member, Membership, NetworkState, Power};
use flotilla_spec::{NodeName, Role};
use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;

use super::{Engine, powers, write_kubeconfig};
use crate::error::EngineError;
use crate::nodes::AT_ONCE;
use crate::plan::Observed;
use crate::quorum::{self, Quorum};

/// What a machine says of itself, on or off.
struct Facts {
    membership: Membership,
    /// It is off, and surely has no database of etcd.
    has_no_data: bool,
    /// None unless it is or was a member, and has its data.
    certificates: Option<Certificates>,
    paused: bool,
}

impl Engine<'_> {
    /// Observes the cluster. Never waits long, changes nothing, and asks nothing again that it was told before.
    pub async fn observe(&self, cluster: &Cluster) -> Result<Observed, EngineError> {
        let machines = self.machines(cluster).await?;
        self.observe_with(cluster, &machines).await
    }

    pub(super) async fn observe_with(
        &self,
        cluster: &Cluster,
        machines: &BTreeMap<NodeName, Arc<dyn Machine>>,
    ) -> Result<Observed, EngineError> {
        if let Some(observed) = self.view.observed(cluster) {
            return Ok(observed);
        }
        let observed = self.ask(cluster, machines).await?;
        self.view.set_observed(cluster, &observed);
        Ok(observed)
    }

    async fn ask(
        &self,
        cluster: &Cluster,
        machines: &BTreeMap<NodeName, Arc<dyn Machine>>,
    ) -> Result<Observed, EngineError> {
        let nodes = self.nodes();
        // All at once: a node that hangs takes its time limit, but not once for each question.
        let (network, routes, facts) = futures::join!(
            self.fleet.network_state(cluster),
            nodes.are_configured(cluster, machines),
            self.facts(cluster, machines),
        );
        let (network, routes, facts) = (network?, routes?, facts?);
        let routes = routes && network != NetworkState::Outdated;
        let network = network != NetworkState::Incomplete;
        let control_planes = || cluster.nodes().filter(|node| node.spec.role == Role::ControlPlane);
        let holds_data = |name: &NodeName| facts.get(name).is_some_and(|it| it.membership.holds_data());
        let has_no_data = |name: &NodeName| facts.get(name).is_some_and(|it| it.has_no_data);
        let members = control_planes().map(|node| node.spec.name).filter(|name| holds_data(name));
        let (emptied, initial_members): (BTreeSet<_>, BTreeSet<_>) = members.partition(has_no_data);
        let workers = cluster.spec.nodes.iter().filter(|node| node.role == Role::Worker);
        let orphans = workers.map(|node| node.name.clone()).filter(|name| holds_data(name));
        let orphans = if initial_members.is_empty() { orphans.collect() } else { BTreeSet::new() };
        let on = |name: &NodeName| machines.get(name).filter(|it| it.state().power == Power::On);
        let is_member = |(name, facts): &(&NodeName, &Facts)| {
            facts.membership == Membership::Member && on(name).is_some()
        };
        let mut joined: BTreeSet<_> = facts.iter().filter(is_member).map(|(name, _)| name.clone()).collect();
        let mut seen = Observed { network, routes, initial_members, emptied, orphans, ..powers(machines) };
        note_certificates(&mut seen, &facts);
        let paused = facts.iter().filter(|(_, facts)| facts.paused);
        seen.paused = paused.map(|(name, _)| name.clone()).collect();

        let member = control_planes().find(|node| joined.contains(&node.spec.name));
        let first = member.or_else(|| control_planes().find(|node| on(&node.spec.name).is_some()));
        let first = first.as_ref().and_then(|node| Some((node, on(&node.spec.name)?)));
        let kubernetes = async {
            match first {
                Some((node, machine)) => self.bootstrapper.observe(cluster, node, machine.as_ref()).await,
                None => KubernetesState::Unreachable,
            }
        };
        let control_planes_on = || control_planes().filter_map(|node| on(&node.spec.name));
        let (kubernetes, published) =
            futures::join!(kubernetes, self.is_published(cluster, control_planes_on()));
        (seen.kubernetes, seen.published) = (kubernetes, published?);
        let answers = matches!(seen.kubernetes, KubernetesState::Incomplete | KubernetesState::Complete);
        if control_planes().count() > 1 || answers && cluster.was_larger() {
            let asked = control_planes().map(|node| node.spec.name).filter(|name| joined.contains(name));
            seen.members = self.members_by(cluster, asked.filter_map(|name| on(&name).cloned())).await;
        }
        if let Some(members) = &seen.members {
            // A control plane that is no longer a member of etcd has to join again, whatever its disk says.
            let is_gone = |node: &Node| !members.iter().any(|member| member.is_of(node));
            let gone: Vec<_> = control_planes().filter(is_gone).map(|node| node.spec.name).collect();
            joined.retain(|name| !gone.contains(name));
        }
        if let Some((first, machine)) = first.map(|(node, machine)| (&node.spec.name, machine))
            && joined.iter().any(|name| name != first)
            && answers
            && let Some(listed) = self.bootstrapper.listed(cluster, machine.as_ref()).await
        {
            // A node whose Node object was deleted has to register again. Completing the cluster does that for the
            // first one.
            joined.retain(|name| name == first || listed.contains(name.as_ref()));
        }
        Ok(Observed { joined, ..seen })
    }

    /// What the machines say that anything can be said about.
    async fn facts(
        &self,
        cluster: &Cluster,
        machines: &BTreeMap<NodeName, Arc<dyn Machine>>,
    ) -> Result<BTreeMap<NodeName, Facts>, EngineError> {
        let is_known = |machine: &&Arc<dyn Machine>| !matches!(machine.state().power, Power::Unknown(_));
        let mut questions: Vec<BoxFuture<'_, Result<_, EngineError>>> = Vec::new();
        for machine in machines.values().filter(is_known) {
            questions.push(Box::pin(async move {
                let name = machine.name().clone();
                Ok((name, self.facts_of(cluster, machine.as_ref()).await?))
            }));
        }
        futures::stream::iter(questions).buffered(AT_ONCE).try_collect().await
    }

    async fn facts_of(&self, cluster: &Cluster, machine: &dyn Machine) -> Result<Facts, EngineError> {
        let membership = machine.record().await?.membership;
        let node = cluster.node(machine.name()).filter(|node| node.spec.role == Role::ControlPlane);
        let is_on = machine.state().power == Power::On;
        let has_no_data = match &node {
            // Before it boots: the kubelet starts etcd with the machine, and etcd would begin an empty cluster.
            Some(node) if !is_on && membership.holds_data() => {
                self.bootstrapper.has_data(node, machine).await? == Some(false)
            }
            _ => false,
        };
        // One that has lost its data gets new ones when it joins.
        let certificates = if membership.holds_data() && !has_no_data {
            Some(self.bootstrapper.certificates(machine).await?)
        } else {
            None
        };
        let paused = node.is_some() && is_on && self.bootstrapper.is_paused(machine).await;
        Ok(Facts { membership, has_no_data, certificates, paused })
    }

    /// Whether the user's kubeconfig has the cluster as its current context, with the credentials of any of these control
    /// planes: each has its own.
    async fn is_published<'m>(
        &self,
        cluster: &Cluster,
        control_planes: impl Iterator<Item = &'m Arc<dyn Machine>>,
    ) -> Result<bool, EngineError> {
        for machine in control_planes {
            let Some(access) = self.access(cluster, machine.as_ref()).await? else { continue };
            // A kubeconfig that cannot be read is written again, which reports the reason.
            if write_kubeconfig::if_readable(self.kubeconfig.has(cluster.name(), &access))? == Some(true) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The members of etcd according to the control planes that are on: see [`quorum::ask`].
    pub async fn members(
        &self,
        cluster: &Cluster,
        machines: &BTreeMap<NodeName, Arc<dyn Machine>>,
    ) -> Option<Vec<Member>> {
        let mut vias = Vec::new();
        for machine in cluster.spec.control_planes().filter_map(|node| machines.get(&node.name)) {
            let is_on = machine.state().power == Power::On;
            // One whose record cannot be read is not asked; the others know about it.
            let is_member =
                async || machine.record().await.is_ok_and(|it| it.membership == Membership::Member);
            if is_on && is_member().await {
                vias.push(Arc::clone(machine));
            }
        }
        self.members_by(cluster, vias.into_iter()).await
    }

    /// The same according to control planes that are known to be on and members.
    async fn members_by(
        &self,
        cluster: &Cluster,
        vias: impl Iterator<Item = Arc<dyn Machine>>,
    ) -> Option<Vec<Member>> {
        let asked = vias.map(async |via| self.bootstrapper.members(cluster, via.as_ref()).await);
        quorum::ask(asked, |members| Quorum::of(members)).await.ok()
    }
}

fn note_certificates(seen: &mut Observed, facts: &BTreeMap<NodeName, Facts>) {
    let now = Timestamp::now();
    let read = facts.iter().filter_map(|(name, facts)| Some((name, facts.certificates.as_ref()?)));
    for (name, certificates) in read {
        if certificates.are_due(now) {
            seen.due.insert(name.clone());
        }
        let authority = certificates.first_authority().filter(|authority| authority.has_expired(now));
        if let Some(authority) = authority {
            seen.expired_authority = Some((name.clone(), authority.clone()));
        }
    }
}
