//! A Kubernetes that is a few files in the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use flotilla_core::event::Outcome;
use flotilla_core::{
    ApiAccess, Authorities, BootstrapError, Bootstrapper, Certificate, Certificates, Changed, Cmd, Condition,
    Drain, GuestError, KubernetesState, Machine, MachineRecord, Member, Membership, NodeHealth, Power,
    Unresponsive,
};
use flotilla_core::{Cluster, Node};
use flotilla_spec::{ClusterName, Cni, NodeName, NodeSpec, Role};

use super::Calls;
use super::etcd::DATA;

/// On disk, like kubeadm's: exists from the first start of the API on.
pub(super) const ADMIN: &str = "/etc/kubernetes/admin.conf";
/// In a joined control plane: the API comes up with the machine.
pub(super) const SERVES: &str = "/var/lib/serves";
/// In memory: a machine that was off has no Kubernetes running.
pub(super) const API: &str = "/run/api";
pub(super) const COMPLETE: &str = "/run/complete";
const PAUSED: &str = "/run/paused";
pub(super) const CA: &[u8] = b"ca";

/// A bootstrapper that refuses what a real one could not do either: to complete a cluster whose API is silent, to
/// wait for one that is not complete.
#[derive(Debug, Default)]
pub struct FakeBootstrapper {
    pub(super) calls: Calls,
    etcd: Mutex<BTreeMap<ClusterName, Vec<Member>>>,
    /// Alarms by the names of the members that have raised them.
    pub(super) alarms: Mutex<BTreeMap<String, Vec<String>>>,
    /// How often data of etcd was made, so that no two are the same.
    pub(super) made: AtomicU64,
    /// Nodes whose processes stand still.
    frozen: Mutex<BTreeSet<NodeName>>,
    /// Nodes that somebody took off the cluster's list.
    unlisted: Mutex<BTreeSet<NodeName>>,
    /// Certificates of nodes that have other than ones that never expire.
    certificates: Mutex<BTreeMap<NodeName, Certificate>>,
    /// Nodes that are disconnected from all others.
    cut_off: Mutex<BTreeSet<String>>,
    /// The API does not answer, whatever runs.
    silent: AtomicBool,
    /// Labels and taints that nodes were given while they ran.
    registered: Mutex<BTreeMap<NodeName, BTreeSet<String>>>,
}

fn registration(node: &NodeSpec) -> BTreeSet<String> {
    let labels = node.labels.iter().map(|(key, value)| format!("{key}={value}"));
    labels.chain(node.taints.iter().map(ToString::to_string)).collect()
}

impl FakeBootstrapper {
    pub fn new(calls: &Calls) -> Self {
        Self { calls: calls.clone(), ..Self::default() }
    }

    /// Lets a member of etcd fall silent, or speak again.
    pub fn set_up(&self, cluster: &ClusterName, node: &NodeName, up: bool) {
        let mut etcd = self.etcd();
        let members = etcd.get_mut(cluster).into_iter().flatten();
        members.filter(|member| member.name == node.as_ref()).for_each(|member| {
            (member.answers, member.up) = (up, up);
        });
    }

    /// Lets a member of etcd answer and be unhealthy, as one without a leader or with an alarm is.
    pub fn set_unhealthy(&self, cluster: &ClusterName, node: &str) {
        let mut etcd = self.etcd();
        let members = etcd.get_mut(cluster).into_iter().flatten();
        members.filter(|member| member.name == node).for_each(|member| {
            (member.answers, member.up) = (true, false);
        });
    }

    /// Gives a node a certificate, on or off, until its certificates are renewed.
    pub fn set_certificate(&self, node: &NodeName, certificate: Certificate) {
        self.certificate_of().insert(node.clone(), certificate);
    }

    /// The labels and taints that a node was given while it ran.
    pub fn registered(&self, node: &NodeName) -> BTreeSet<String> {
        let registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        registered.get(node).cloned().unwrap_or_default()
    }

    fn certificate_of(&self) -> MutexGuard<'_, BTreeMap<NodeName, Certificate>> {
        self.certificates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the processes of a node stand still.
    pub fn freeze(&self, node: &NodeName) {
        self.frozen.lock().unwrap_or_else(PoisonError::into_inner).insert(node.clone());
    }

    /// Lets the API stop answering.
    pub fn fall_silent(&self) {
        self.silent.store(true, Ordering::Relaxed);
    }

    /// Takes a node off the cluster's list, as `kubectl delete node` does, until it joins again.
    pub fn unlist(&self, node: &NodeName) {
        self.unlisted().insert(node.clone());
    }

    fn unlisted(&self) -> MutexGuard<'_, BTreeSet<NodeName>> {
        self.unlisted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cuts a node off from all others: its etcd sees only itself, and can change nothing.
    pub fn cut_off(&self, node: &NodeName) {
        self.cut_off.lock().unwrap_or_else(PoisonError::into_inner).insert(node.to_string());
    }

    pub(super) fn is_cut_off(&self, node: &str) -> bool {
        self.cut_off.lock().unwrap_or_else(PoisonError::into_inner).contains(node)
    }

    /// Makes a stranger a member of etcd.
    pub fn add_stranger(&self, cluster: &ClusterName, member: Member) {
        self.etcd().entry(cluster.clone()).or_default().push(member);
    }

    /// The names of etcd's members.
    pub fn member_names(&self, cluster: &ClusterName) -> Vec<String> {
        let etcd = self.etcd();
        etcd.get(cluster).into_iter().flatten().map(|member| member.name.clone()).collect()
    }

    /// What is seen from outside.
    async fn state(&self, machine: &dyn Machine) -> KubernetesState {
        if self.silent.load(Ordering::Relaxed) {
            return KubernetesState::Unreachable;
        }
        state(machine).await.unwrap_or(KubernetesState::Unreachable)
    }

    pub(super) fn etcd(&self) -> MutexGuard<'_, BTreeMap<ClusterName, Vec<Member>>> {
        self.etcd.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a node a member of etcd, if it is none.
    pub(super) fn add_member(&self, cluster: &Cluster, node: &Node) {
        let mut etcd = self.etcd();
        let members = etcd.entry(cluster.name().clone()).or_default();
        if !members.iter().any(|member| member.name == node.spec.name.as_ref()) {
            members.push(Member {
                name: node.spec.name.to_string(),
                id: node.number.into(),
                address: node.address,
                answers: true,
                up: true,
                learner: false,
            });
        }
    }
}

/// Takes away all that makes a control plane of a machine.
pub(super) async fn reset(machine: &dyn Machine) -> Result<(), BootstrapError> {
    record(machine, Membership::None).await?;
    let reset = Cmd::new(["rm", "-f", ADMIN, SERVES, API, COMPLETE, DATA]);
    machine.guest().run(reset).await.map(drop).map_err(in_node("reset", machine))
}

/// Records what a machine is, if it was something else.
async fn record(machine: &dyn Machine, membership: Membership) -> Result<Outcome, BootstrapError> {
    if machine.record().await?.membership == membership {
        return Ok(Outcome::Kept);
    }
    machine.set_record(&MachineRecord { membership }).await?;
    Ok(Outcome::Done)
}

async fn is_member(machine: &dyn Machine) -> bool {
    machine.record().await.is_ok_and(|record| record.membership == Membership::Member)
}

async fn state(machine: &dyn Machine) -> Result<KubernetesState, GuestError> {
    let has = async |path| Ok::<_, GuestError>(machine.guest().read(path).await?.is_some());
    Ok(match () {
        () if has(PAUSED).await? => KubernetesState::Paused,
        () if has(SERVES).await? || has(COMPLETE).await? => KubernetesState::Complete,
        () if has(API).await? => KubernetesState::Incomplete,
        () => KubernetesState::Unreachable,
    })
}

/// Makes a file, if it does not exist.
pub(super) async fn mark(machine: &dyn Machine, path: &str) -> Result<Outcome, BootstrapError> {
    if machine.guest().read(path).await.map_err(in_node("mark", machine))?.is_some() {
        return Ok(Outcome::Kept);
    }
    machine.guest().write(path, 0o600, b"").await.map_err(in_node("mark", machine))?;
    Ok(Outcome::Done)
}

pub(super) fn in_node(
    action: &'static str,
    machine: &dyn Machine,
) -> impl FnOnce(GuestError) -> BootstrapError {
    let node = machine.name().to_string();
    move |source| BootstrapError::Node { action, node, source }
}

#[async_trait]
impl Bootstrapper for FakeBootstrapper {
    fn pod_network(&self, cluster: &Cluster) -> Option<String> {
        let cni = &cluster.spec.network.cni;
        matches!(cni, Cni::Flannel).then(|| "kind: FakeFlannel".to_owned())
    }

    fn authority_problem(&self, authorities: &Authorities) -> Option<String> {
        (!authorities.0.contains_key("ca.key")).then(|| "there is no ca.key".to_owned())
    }

    /// A fault here is an API that could not be asked.
    async fn observe(&self, _: &Cluster, _: &Node, machine: &dyn Machine) -> KubernetesState {
        let Ok(call) = self.calls.begin("observe".to_owned()).await else {
            return KubernetesState::Unreachable;
        };
        let seen = self.state(machine).await;
        call.end().map_or(KubernetesState::Unreachable, |()| seen)
    }

    async fn health(&self, cluster: &Cluster, node: &Node, machine: &dyn Machine) -> NodeHealth {
        let Ok(call) = self.calls.begin(format!("health {}", node.spec.name)).await else {
            return NodeHealth::default();
        };
        let is_frozen = self.frozen.lock().unwrap_or_else(PoisonError::into_inner).contains(&node.spec.name);
        if is_frozen || call.end().is_err() {
            return NodeHealth { unresponsive: Some(Unresponsive::Frozen), ..NodeHealth::default() };
        }
        let state = self.state(machine).await;
        let is_control_plane = node.spec.role == Role::ControlPlane;
        NodeHealth {
            kubelet: state != KubernetesState::Paused && is_member(machine).await,
            api_server: matches!(state, KubernetesState::Incomplete | KubernetesState::Complete),
            holds_virtual_ip: is_control_plane && cluster.spec.primary().name == node.spec.name,
            unresponsive: None,
        }
    }

    async fn answers(&self, _: &Cluster, machine: &dyn Machine, _: Duration) -> Result<bool, BootstrapError> {
        let call = self.calls.begin("answers".to_owned()).await?;
        let seen = self.state(machine).await;
        call.end()?;
        Ok(matches!(seen, KubernetesState::Incomplete | KubernetesState::Complete))
    }

    async fn start_api(
        &self,
        cluster: &Cluster,
        node: &Node,
        machine: &dyn Machine,
        others: &[Arc<dyn Machine>],
        _: Duration,
    ) -> Result<Outcome, BootstrapError> {
        let call = self.calls.begin(format!("start-api {}", node.spec.name)).await?;
        self.add_member(cluster, node);
        if mark(machine, ADMIN).await? == Outcome::Done {
            // All of them found the cluster.
            let others = others.iter().filter_map(|other| cluster.node(other.name()));
            others.for_each(|other| self.add_member(cluster, &other));
        }
        self.make_data(machine, None).await?;
        let outcome = mark(machine, API).await?;
        record(machine, Membership::Member).await?;
        call.end()?;
        Ok(outcome)
    }

    async fn complete(
        &self,
        _: &Cluster,
        node: &Node,
        machine: &dyn Machine,
        _: Duration,
    ) -> Result<Outcome, BootstrapError> {
        let call = self.calls.begin(format!("complete {}", node.spec.name)).await?;
        if state(machine).await.unwrap_or(KubernetesState::Unreachable) == KubernetesState::Unreachable {
            return Err(timed_out("the API's first answer"));
        }
        let outcome = mark(machine, COMPLETE).await?;
        call.end()?;
        Ok(outcome)
    }

    async fn listed(&self, cluster: &Cluster, _: &dyn Machine) -> Option<BTreeSet<String>> {
        let unlisted = self.unlisted();
        let listed = cluster.spec.nodes.iter().filter(|node| !unlisted.contains(&node.name));
        Some(listed.map(|node| node.name.to_string()).collect())
    }

    async fn join(
        &self,
        cluster: &Cluster,
        node: &Node,
        machine: &dyn Machine,
        primary: &dyn Machine,
        _: Duration,
    ) -> Result<Outcome, BootstrapError> {
        let call = self.calls.begin(format!("join {}", node.spec.name)).await?;
        if state(primary).await.unwrap_or(KubernetesState::Unreachable) != KubernetesState::Complete {
            return Err(timed_out("the API's answer to a node that joins"));
        }
        if self.is_cut_off(primary.name().as_ref()) {
            return Err(timed_out("etcd's answer by a node that is cut off"));
        }
        if node.spec.role == Role::ControlPlane {
            self.add_member(cluster, node);
            self.make_data(machine, Some(primary)).await?;
            mark(machine, ADMIN).await?;
            mark(machine, SERVES).await?;
        }
        let mut outcome = record(machine, Membership::Member).await?;
        if self.unlisted().remove(&node.spec.name) {
            outcome = Outcome::Done;
        }
        call.end()?;
        Ok(outcome)
    }

    async fn leave(
        &self,
        cluster: &Cluster,
        node: &Node,
        machine: Option<&dyn Machine>,
        via: &dyn Machine,
    ) -> Result<(), BootstrapError> {
        let call = self.calls.begin(format!("leave {} by {}", node.spec.name, via.name())).await?;
        if state(via).await.unwrap_or(KubernetesState::Unreachable) == KubernetesState::Unreachable {
            return Err(timed_out("the API's answer to a node that leaves"));
        }
        if self.is_cut_off(via.name().as_ref()) {
            return Err(timed_out("etcd's answer by a node that is cut off"));
        }
        if let Some(members) = self.etcd().get_mut(cluster.name()) {
            members.retain(|member| member.name != node.spec.name.as_ref());
        }
        match machine {
            Some(machine) if machine.state().power == Power::On => reset(machine).await?,
            Some(machine) => drop(record(machine, Membership::None).await?),
            None => {}
        }
        Ok(call.end()?)
    }

    async fn members(&self, cluster: &Cluster, via: &dyn Machine) -> Result<Vec<Member>, BootstrapError> {
        let call = self.calls.begin("members".to_owned()).await?;
        let members = self.seen_by(cluster, via.name().as_ref());
        call.end()?;
        Ok(members)
    }

    async fn remove_member(
        &self,
        cluster: &Cluster,
        stranger: &Member,
        via: &dyn Machine,
    ) -> Result<(), BootstrapError> {
        let call = self.calls.begin(format!("remove-member {} by {}", stranger.name, via.name())).await?;
        if let Some(members) = self.etcd().get_mut(cluster.name()) {
            members.retain(|member| member.id != stranger.id);
        }
        Ok(call.end()?)
    }

    async fn mark_stopped(
        &self,
        _: &Cluster,
        node: &NodeName,
        _: &dyn Machine,
    ) -> Result<(), BootstrapError> {
        Ok(self.calls.begin(format!("mark-stopped {node}")).await?.end()?)
    }

    async fn drain(
        &self,
        _: &Cluster,
        node: &NodeName,
        _: &dyn Machine,
        _: Drain,
    ) -> Result<(), BootstrapError> {
        Ok(self.calls.begin(format!("drain {node}")).await?.end()?)
    }

    async fn uncordon(&self, _: &Cluster, node: &NodeName, _: &dyn Machine) -> Result<(), BootstrapError> {
        Ok(self.calls.begin(format!("uncordon {node}")).await?.end()?)
    }

    async fn update_labels(
        &self,
        _: &Cluster,
        node: &Node,
        was: &NodeSpec,
        _: &dyn Machine,
    ) -> Result<Changed, BootstrapError> {
        let NodeSpec { name, labels, taints, .. } = &node.spec;
        let shown: Vec<_> = taints.iter().map(ToString::to_string).collect();
        let call = self.calls.begin(format!("update-labels {name} {labels} {}", shown.join(","))).await?;
        let mut registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        let has = registered.entry(name.clone()).or_default();
        // What it was given otherwise stays.
        has.retain(|one| !registration(was).contains(one));
        has.extend(registration(&node.spec));
        drop(registered);
        call.end()?;
        Ok(Changed::Yes)
    }

    async fn remove_from_api(
        &self,
        _: &Cluster,
        node: &NodeName,
        _: &dyn Machine,
    ) -> Result<(), BootstrapError> {
        Ok(self.calls.begin(format!("remove-from-api {node}")).await?.end()?)
    }

    async fn wait(
        &self,
        _: &Cluster,
        machine: &dyn Machine,
        _: &[Arc<dyn Machine>],
        conditions: &BTreeSet<Condition>,
        _: Duration,
    ) -> Result<(), BootstrapError> {
        let names: Vec<_> = conditions.iter().map(|condition| condition.name()).collect();
        let call = self.calls.begin(format!("wait {}", names.join(","))).await?;
        if state(machine).await.unwrap_or(KubernetesState::Unreachable) != KubernetesState::Complete {
            return Err(timed_out("all that was waited for"));
        }
        Ok(call.end()?)
    }

    async fn certificates(&self, machine: &dyn Machine) -> Result<Certificates, BootstrapError> {
        self.calls.ask(format!("certificates {}", machine.name())).await;
        let all = self.certificate_of().get(machine.name()).cloned().into_iter().collect();
        Ok(Certificates { all, ..Certificates::default() })
    }

    async fn renew(
        &self,
        _: &Cluster,
        due: &[(Node, Arc<dyn Machine>)],
        control_planes: &[Arc<dyn Machine>],
    ) -> Result<(), BootstrapError> {
        let due: Vec<_> = due.iter().map(|(node, _)| node.spec.name.as_ref()).collect();
        let others: Vec<_> = control_planes.iter().map(|machine| machine.name().as_ref()).collect();
        let call = self.calls.begin(format!("renew {} by {}", due.join(","), others.join(","))).await?;
        self.certificate_of().retain(|node, _| !due.contains(&node.as_ref()));
        Ok(call.end()?)
    }

    async fn access(&self, server: &str, machine: &dyn Machine) -> Result<Option<ApiAccess>, BootstrapError> {
        let call = self.calls.begin("access".to_owned()).await?;
        let made = machine.guest().read(ADMIN).await.is_ok_and(|file| file.is_some());
        call.end()?;
        Ok(made.then(|| ApiAccess {
            server: server.to_owned(),
            ca_pem: CA.to_vec(),
            client_cert_pem: b"certificate".to_vec(),
            client_key_pem: b"key".to_vec(),
        }))
    }

    /// As [`Self::access`] has it.
    async fn authority(&self, machine: &dyn Machine) -> Option<Vec<u8>> {
        let made = machine.guest().read(ADMIN).await.is_ok_and(|file| file.is_some());
        made.then(|| CA.to_vec())
    }

    async fn pause(&self, machine: &dyn Machine, _: Option<&[String]>) -> Result<usize, BootstrapError> {
        let call = self.calls.begin("pause".to_owned()).await?;
        let outcome = mark(machine, PAUSED).await?;
        call.end()?;
        Ok(usize::from(outcome == Outcome::Done))
    }

    async fn is_paused(&self, machine: &dyn Machine) -> bool {
        self.calls.ask(format!("paused {}", machine.name())).await;
        matches!(machine.guest().read(PAUSED).await, Ok(Some(_)))
    }

    async fn unpause(&self, machine: &dyn Machine, _: Option<&[String]>) -> Result<usize, BootstrapError> {
        let call = self.calls.begin("unpause".to_owned()).await?;
        let done = machine.guest().run(Cmd::new(["rm", "-f", PAUSED])).await;
        done.map_err(in_node("unpause", machine))?;
        call.end()?;
        Ok(1)
    }
}

pub(super) fn timed_out(what: &str) -> BootstrapError {
    BootstrapError::TimedOut { what: what.to_owned(), limit: Duration::ZERO, flag: None, seen: Vec::new() }
}
