//! What makes Kubernetes out of machines.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use flotilla_spec::{NodeName, NodeSpec};
use serde::{Deserialize, Serialize};

use crate::certificate::Certificates;
use crate::changed::Changed;
use crate::cluster::{Cluster, Node};
use crate::driver::Machine;
use crate::etcd::Etcd;
use crate::event::Outcome;
use crate::guest::GuestError;

/// How far a control plane's Kubernetes has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KubernetesState {
    /// Its API does not answer.
    Unreachable,
    /// Its API answers, but not all is there that makes a cluster of it.
    Incomplete,
    /// Frozen by `pause`.
    Paused,
    Complete,
}

/// From the kubelet's start to an answer of the API. Seconds on an idle machine, much more on an emulated one.
pub const FIRST_ANSWER: Duration = Duration::from_mins(4);

/// What `--wait` can wait for, in minikube's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum Condition {
    /// The API server says that it is ready.
    ApiServer,
    /// Every node is Ready: a pod can run there.
    NodeReady,
    /// Pods can be made: they need the default service account.
    DefaultServiceAccount,
    /// The system's pods are Ready, cluster DNS among them.
    SystemPods,
    /// The system's deployments are rolled out.
    AppsRunning,
    /// The kubelet runs.
    Kubelet,
}

impl Condition {
    /// With its name as minikube has it.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::ApiServer, "apiserver"),
        (Self::NodeReady, "node_ready"),
        (Self::DefaultServiceAccount, "default_sa"),
        (Self::SystemPods, "system_pods"),
        (Self::AppsRunning, "apps_running"),
        (Self::Kubelet, "kubelet"),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(condition, _)| *condition == self).expect("all are in the list").1
    }
}

impl From<Condition> for &'static str {
    fn from(condition: Condition) -> Self {
        condition.name()
    }
}

impl TryFrom<String> for Condition {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, known)| *known == name);
        found.map(|(condition, _)| *condition).ok_or_else(|| format!("unknown condition {name}"))
    }
}

/// What the marks on a machine's disk say of its part in the cluster. They stay when it is turned off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Membership {
    /// It holds nothing of a cluster that has ever answered.
    None,
    /// A control plane that founded the cluster together with others, whose API has answered since: its data is the
    /// cluster's. Its own start was interrupted before it was finished.
    InitialMember,
    /// Initialised or joined.
    Member,
}

/// How a node is emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    pub limit: Duration,
    /// Pods that a disruption budget protects for longer than that are deleted anyway.
    pub force: bool,
}

/// What runs in a node that is on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeHealth {
    pub kubelet: bool,
    /// Of a control plane: its own API server answers, whether those of others do or not.
    pub api_server: bool,
    /// It has the API's virtual address now.
    pub holds_virtual_ip: bool,
    /// Its processes do not run as they should.
    pub unresponsive: Option<Unresponsive>,
}

/// Why nothing can be asked in a node that is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unresponsive {
    Frozen,
    Silent,
}

/// A member of the cluster's etcd: one of those that must agree on every write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its control plane's; empty while it was only announced and never started.
    pub name: String,
    pub id: u64,
    /// Where the other members reach it.
    pub address: Ipv4Addr,
    /// It answers, whether it is healthy or not.
    pub answers: bool,
    /// It is healthy: it answers, has a leader and has raised no alarm. Only such members count for a majority.
    pub up: bool,
    /// It receives every write, but has no vote yet.
    pub learner: bool,
}

impl Member {
    /// Whether it is that node's. One that never started has no name yet.
    pub fn is_of(&self, node: &Node) -> bool {
        self.name == node.spec.name.as_ref() || self.name.is_empty() && self.address == node.address
    }
}

/// What a client needs to talk to the API as the cluster's administrator.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiAccess {
    pub server: String,
    pub ca_pem: Vec<u8>,
    pub client_cert_pem: Vec<u8>,
    pub client_key_pem: Vec<u8>,
}

impl std::fmt::Debug for ApiAccess {
    // The key must not appear in any log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiAccess").field("server", &self.server).finish_non_exhaustive()
    }
}

/// Kubernetes could not be made, reached or waited for.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    #[error("cannot {action} in node {node}")]
    Node { action: &'static str, node: String, source: GuestError },
    #[error("cannot {action}")]
    Api { action: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("{what} did not happen within {} s", limit.as_secs())]
    TimedOut {
        what: String,
        limit: Duration,
        /// What was seen last: the state of the pods, the end of a log.
        seen: Vec<String>,
    },
    #[error("node {node} could not be drained within {} s", limit.as_secs())]
    Undrained {
        node: String,
        limit: Duration,
        /// Its pods, and why they stay.
        seen: Vec<String>,
    },
    #[error("cannot install the pod network")]
    PodNetwork {
        /// What kubectl says of its manifest.
        source: GuestError,
    },
    #[error("the kubelet on node {node} keeps crashing")]
    Crashing {
        node: String,
        /// Its last words.
        seen: Vec<String>,
    },
    #[error("interrupted")]
    Interrupted,
}

/// Makes a Kubernetes cluster out of machines that are on. Every call is idempotent and finishes what a killed one
/// began.
#[async_trait]
pub trait Bootstrapper: Etcd {
    /// The manifest of the pod network that a new cluster asks for by name; none if nothing has to be installed.
    fn pod_network(&self, cluster: &Cluster) -> Option<String>;

    /// How far the control plane in this machine is. Never waits long.
    async fn observe(&self, cluster: &Cluster, node: &Node, machine: &dyn Machine) -> KubernetesState;

    /// What runs in a node whose machine is on. Never waits long.
    async fn health(&self, cluster: &Cluster, node: &Node, machine: &dyn Machine) -> NodeHealth;

    /// Whether the API answers, asked with the credentials of a control plane that is a member. Asks again until the limit
    /// is reached, and gives a slow host time for each answer.
    async fn answers(
        &self,
        cluster: &Cluster,
        via: &dyn Machine,
        limit: Duration,
    ) -> Result<bool, BootstrapError>;

    /// Brings up etcd and the API server: when it returns, the API answers. `others` are the machines of the other control
    /// planes that are to run, as far as they are on. A cluster that is new is founded by all of them together, and what is
    /// left to do for each of the others is done by its [`Bootstrapper::join`].
    async fn start_api(
        &self,
        cluster: &Cluster,
        node: &Node,
        machine: &dyn Machine,
        others: &[Arc<dyn Machine>],
    ) -> Result<Outcome, BootstrapError>;

    /// Puts into the cluster what makes it one: settings, tokens, kube-proxy, DNS, controllers, scheduler, and the pod
    /// network if it has a manifest.
    async fn complete(
        &self,
        cluster: &Cluster,
        node: &Node,
        machine: &dyn Machine,
    ) -> Result<Outcome, BootstrapError>;

    /// What the machine is to its cluster, which it stays when it is turned off. Of one that is off this need not be
    /// known: then it is none. Never waits long. A disk that cannot be read is an error, never "no member".
    async fn membership(&self, machine: &dyn Machine) -> Result<Membership, BootstrapError>;

    /// Whether the machine is a member that was initialised or has joined.
    async fn has_joined(&self, machine: &dyn Machine) -> Result<bool, BootstrapError> {
        Ok(self.membership(machine).await? == Membership::Member)
    }

    /// The names in the cluster's list of nodes, asked for by a control plane that is a member; none where nobody answers.
    /// Never waits long.
    async fn listed(&self, cluster: &Cluster, via: &dyn Machine) -> Option<BTreeSet<String>>;

    /// Makes a worker or another control plane out of a machine, by its role. `primary` is the machine of a control
    /// plane that is a member. What a killed join left, also in etcd, is cleared away first. One that has joined and is
    /// not in the cluster's list registers again. Several may be called at once: that etcd takes in one member at a time is
    /// seen to here.
    async fn join(
        &self,
        cluster: &Cluster,
        node: &Node,
        machine: &dyn Machine,
        primary: &dyn Machine,
    ) -> Result<Outcome, BootstrapError>;

    /// Takes a control plane out of the control plane: it gives up the virtual address, is no member of etcd any more,
    /// is `NotReady` in the cluster's list, and its machine has not joined. `machine` is its own if it is there, on or
    /// off, `via` that of another control plane. One that has left before is a success.
    async fn leave(
        &self,
        cluster: &Cluster,
        node: &Node,
        machine: Option<&dyn Machine>,
        via: &dyn Machine,
    ) -> Result<(), BootstrapError>;

    /// The members of etcd, asked of the one in this machine. Never waits long, not for those that are down either.
    async fn members(&self, cluster: &Cluster, via: &dyn Machine) -> Result<Vec<Member>, BootstrapError>;

    /// Takes a member out of etcd that no node of the cluster has. One that is none any more is a success.
    async fn remove_member(
        &self,
        cluster: &Cluster,
        stranger: &Member,
        via: &dyn Machine,
    ) -> Result<(), BootstrapError>;

    /// Says of a node whose machine was turned off that it is `NotReady`, so that nobody has to wait for its silence to
    /// be noticed. One that is not in the cluster's list is a success.
    async fn mark_stopped(
        &self,
        cluster: &Cluster,
        node: &NodeName,
        via: &dyn Machine,
    ) -> Result<(), BootstrapError>;

    /// Moves the pods of a node elsewhere, and lets no new ones come.
    async fn drain(
        &self,
        cluster: &Cluster,
        node: &NodeName,
        primary: &dyn Machine,
        how: Drain,
    ) -> Result<(), BootstrapError>;

    /// Lets new pods come again to a node that [`Bootstrapper::drain`] has closed; what a user closed stays closed.
    async fn uncordon(
        &self,
        cluster: &Cluster,
        node: &NodeName,
        primary: &dyn Machine,
    ) -> Result<(), BootstrapError>;

    /// Gives a node in the cluster's list the labels and taints of its spec. Those that only `was` had are taken away,
    /// those of others stay. A node that is not in the list gets them when it joins.
    async fn update_labels(
        &self,
        cluster: &Cluster,
        node: &Node,
        was: &NodeSpec,
        primary: &dyn Machine,
    ) -> Result<Changed, BootstrapError>;

    /// Takes a node out of the cluster's list. One that is not in it is a success.
    async fn remove_from_api(
        &self,
        cluster: &Cluster,
        node: &NodeName,
        primary: &dyn Machine,
    ) -> Result<(), BootstrapError>;

    /// Waits until all of it holds. `machines` are those that are on, `primary` is one of them.
    async fn wait(
        &self,
        cluster: &Cluster,
        primary: &dyn Machine,
        machines: &[Arc<dyn Machine>],
        conditions: &BTreeSet<Condition>,
        limit: Duration,
    ) -> Result<(), BootstrapError>;

    /// When the certificates in a machine expire. Of one that is off this is known where its disk can be reached. Never
    /// waits long, and runs no program in the machine.
    async fn certificates(&self, machine: &dyn Machine) -> Result<Certificates, BootstrapError>;

    /// Renews the certificates that are due in these nodes, whose machines are on, and restarts what reads them. Nodes
    /// keep their identity and their pods. `control_planes` are the machines of all control planes that are on and
    /// members: afterwards all of them have the same administrator's credentials.
    async fn renew(
        &self,
        cluster: &Cluster,
        due: &[(Node, Arc<dyn Machine>)],
        control_planes: &[Arc<dyn Machine>],
    ) -> Result<(), BootstrapError>;

    /// The administrator's way to the API; none before the control plane was made.
    async fn access(
        &self,
        cluster: &Cluster,
        machine: &dyn Machine,
    ) -> Result<Option<ApiAccess>, BootstrapError>;

    /// The certificate authority of the cluster that a machine is of: by it the cluster is known. None where there is
    /// none yet, or where the machine cannot be asked.
    async fn authority(&self, machine: &dyn Machine) -> Option<Vec<u8>>;

    /// Freezes the kubelet and the containers of these namespaces (all of them if none is named). Gives how many.
    async fn pause(
        &self,
        machine: &dyn Machine,
        namespaces: Option<&[String]>,
    ) -> Result<usize, BootstrapError>;

    /// Whether `pause` froze something in a machine that is on. A failure to look is no pause.
    async fn is_paused(&self, machine: &dyn Machine) -> bool;

    /// Thaws what `pause` froze. Gives how many containers.
    async fn unpause(
        &self,
        machine: &dyn Machine,
        namespaces: Option<&[String]>,
    ) -> Result<usize, BootstrapError>;
}
