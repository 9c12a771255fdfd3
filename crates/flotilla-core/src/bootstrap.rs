//! What makes Kubernetes out of machines.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use flotilla_spec::{NodeName, NodeSpec};
use serde::{Deserialize, Serialize};

use crate::authorities::Authorities;
use crate::certificate::Certificates;
use crate::changed::Changed;
use crate::cluster::{Cluster, Node};
use crate::driver::{DriverError, Machine};
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

/// What `--wait` can wait for: minikube's words, and three of our own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum Condition {
    /// The API server says that it is ready.
    ApiServer,
    /// Every node is Ready: a pod can run there.
    NodeReady,
    /// Pods can be made: they need the default service account.
    DefaultServiceAccount,
    /// Controller manager and scheduler are healthy on every control plane.
    Controllers,
    /// kube-proxy has written its rules on every node: pods there reach services.
    KubeProxy,
    /// Cluster DNS answers a query from every node.
    Dns,
    /// The system's pods are Ready, cluster DNS among them.
    SystemPods,
    /// The system's deployments are rolled out.
    AppsRunning,
    /// The kubelet runs.
    Kubelet,
}

impl Condition {
    /// All conditions and their names. Where minikube has the condition, the name is minikube's.
    pub const ALL: [(Self, &'static str); 9] = [
        (Self::ApiServer, "apiserver"),
        (Self::NodeReady, "node_ready"),
        (Self::DefaultServiceAccount, "default_sa"),
        (Self::Controllers, "controllers"),
        (Self::KubeProxy, "kube_proxy"),
        (Self::Dns, "dns"),
        (Self::SystemPods, "system_pods"),
        (Self::AppsRunning, "apps_running"),
        (Self::Kubelet, "kubelet"),
    ];

    /// What is waited for, in a sentence about waiting.
    pub fn title(self) -> &'static str {
        match self {
            Self::ApiServer => "the API server",
            Self::NodeReady => "the nodes",
            Self::DefaultServiceAccount => "the default service account",
            Self::Controllers => "controllers and scheduler",
            Self::KubeProxy => "kube-proxy",
            Self::Dns => "DNS",
            Self::SystemPods => "the system pods",
            Self::AppsRunning => "the system deployments",
            Self::Kubelet => "the kubelet",
        }
    }

    /// The titles of several conditions, separated by commas.
    pub fn titles(conditions: &BTreeSet<Self>) -> String {
        conditions.iter().map(|condition| condition.title()).collect::<Vec<_>>().join(", ")
    }

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
    /// It has the virtual IP of the API now.
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
    #[error("cannot {action} on node {node}")]
    Node { action: &'static str, node: String, source: GuestError },
    #[error("cannot {action}")]
    Api { action: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("timed out after {} waiting for {what}", minutes(*limit))]
    TimedOut {
        what: String,
        limit: Duration,
        /// The flag that sets this limit, if one does.
        flag: Option<&'static str>,
        /// What was seen last: the state of the pods, the end of a log.
        seen: Vec<String>,
    },
    #[error("gave up waiting for {what}: node {node} has been idle for {}", minutes(*limit))]
    Stalled {
        what: String,
        node: String,
        limit: Duration,
        /// What was seen last.
        seen: Vec<String>,
    },
    #[error("timed out after {} draining node {node}", minutes(*limit))]
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
    /// What is known of a machine could not be read or written.
    #[error(transparent)]
    Driver(#[from] DriverError),
    #[error("interrupted")]
    Interrupted,
}

/// A time limit as people say it: `90 s`, `6 min`, `6 min 5 s`.
fn minutes(limit: Duration) -> String {
    match (limit.as_secs() / 60, limit.as_secs() % 60) {
        (0 | 1, _) => format!("{} s", limit.as_secs()),
        (minutes, 0) => format!("{minutes} min"),
        (minutes, seconds) => format!("{minutes} min {seconds} s"),
    }
}

/// Makes a Kubernetes cluster out of machines that are on. Every call is idempotent and finishes what a killed one
/// began.
#[async_trait]
pub trait Bootstrapper: Etcd {
    /// The manifest of the pod network that a new cluster asks for by name; none if nothing has to be installed.
    fn pod_network(&self, cluster: &Cluster) -> Option<String>;

    /// Why a cluster cannot have these authorities of the user; none if it can.
    fn authority_problem(&self, authorities: &Authorities) -> Option<String>;

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

    /// Starts etcd and the API server, and returns when the API answers. `others` are the machines of the other control
    /// planes that are on and should run: with them a new cluster begins with all its etcd members, and
    /// [`Bootstrapper::join`] finishes each of the others. `limit` is the time limit of each single wait.
    async fn start_api(
        &self,
        cluster: &Cluster,
        node: &Node,
        machine: &dyn Machine,
        others: &[Arc<dyn Machine>],
        limit: Duration,
    ) -> Result<Outcome, BootstrapError>;

    /// Uploads the settings, creates bootstrap tokens, and installs kube-proxy, DNS, controllers, scheduler, and the pod
    /// network if it has a manifest. `limit` is the time limit of each single wait.
    async fn complete(
        &self,
        cluster: &Cluster,
        node: &Node,
        machine: &dyn Machine,
        limit: Duration,
    ) -> Result<Outcome, BootstrapError>;

    /// The names of the cluster's Node objects, read with the credentials of a control plane that is a member; none if the
    /// API does not answer. Never waits long.
    async fn listed(&self, cluster: &Cluster, via: &dyn Machine) -> Option<BTreeSet<String>>;

    /// Joins a machine to the cluster as a worker or a control plane, by its role. `primary` is the machine of a control
    /// plane that is a member. Removes first what a killed join left, also in etcd. A node that has joined but has no Node
    /// object registers again. May be called for several nodes at once: etcd members are added one after the other. `limit`
    /// is the time limit of each single wait.
    async fn join(
        &self,
        cluster: &Cluster,
        node: &Node,
        machine: &dyn Machine,
        primary: &dyn Machine,
        limit: Duration,
    ) -> Result<Outcome, BootstrapError>;

    /// Removes a control plane from the cluster: it releases the virtual IP and leaves etcd, its Node object becomes
    /// `NotReady`, and its machine counts as not joined. `machine` is its own machine, on or off, if it exists; `via` is that
    /// of another control plane. Succeeds for a control plane that has left before.
    async fn leave(
        &self,
        cluster: &Cluster,
        node: &Node,
        machine: Option<&dyn Machine>,
        via: &dyn Machine,
    ) -> Result<(), BootstrapError>;

    /// The members of etcd, as the member in this machine lists them. Never waits long, not even for members that are down.
    async fn members(&self, cluster: &Cluster, via: &dyn Machine) -> Result<Vec<Member>, BootstrapError>;

    /// Removes a member from etcd that belongs to no node of the cluster. Succeeds if it is no member any more.
    async fn remove_member(
        &self,
        cluster: &Cluster,
        stranger: &Member,
        via: &dyn Machine,
    ) -> Result<(), BootstrapError>;

    /// Marks a node whose machine was turned off as `NotReady`, instead of waiting until Kubernetes notices. Succeeds
    /// without a Node object.
    async fn mark_stopped(
        &self,
        cluster: &Cluster,
        node: &NodeName,
        via: &dyn Machine,
    ) -> Result<(), BootstrapError>;

    /// Cordons a node and evicts its pods.
    async fn drain(
        &self,
        cluster: &Cluster,
        node: &NodeName,
        primary: &dyn Machine,
        how: Drain,
    ) -> Result<(), BootstrapError>;

    /// Uncordons a node that [`Bootstrapper::drain`] has cordoned. A node that the user cordoned stays cordoned.
    async fn uncordon(
        &self,
        cluster: &Cluster,
        node: &NodeName,
        primary: &dyn Machine,
    ) -> Result<(), BootstrapError>;

    /// Sets the labels and taints of a node's spec on its Node object. Removes those that only `was` had; those that others
    /// set stay. A node without a Node object gets them when it joins.
    async fn update_labels(
        &self,
        cluster: &Cluster,
        node: &Node,
        was: &NodeSpec,
        primary: &dyn Machine,
    ) -> Result<Changed, BootstrapError>;

    /// Deletes the Node object of a node. Succeeds without one.
    async fn remove_from_api(
        &self,
        cluster: &Cluster,
        node: &NodeName,
        primary: &dyn Machine,
    ) -> Result<(), BootstrapError>;

    /// Waits until all conditions hold. `machines` are those that are on, `primary` is one of them.
    async fn wait(
        &self,
        cluster: &Cluster,
        primary: &dyn Machine,
        machines: &[Arc<dyn Machine>],
        conditions: &BTreeSet<Condition>,
        limit: Duration,
    ) -> Result<(), BootstrapError>;

    /// When the certificates in a machine expire; of a machine that is off only if the host can read its disk. Never
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

    /// The administrator's credentials for the API at the URL `server`; none before the control plane exists.
    async fn access(&self, server: &str, machine: &dyn Machine) -> Result<Option<ApiAccess>, BootstrapError>;

    /// The certificate authority of a machine's cluster, which identifies the cluster. None before it exists, or if the
    /// machine does not answer.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_in_seconds_up_to_two_minutes() {
        let text = |seconds| minutes(Duration::from_secs(seconds));
        assert_eq!([0, 90, 119].map(text), ["0 s", "90 s", "119 s"]);
        assert_eq!([120, 360, 365].map(text), ["2 min", "6 min", "6 min 5 s"]);
    }
}
