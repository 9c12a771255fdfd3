//! The steps from what is there to what is wanted: a pure function.

mod certificates;
mod going;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flotilla_spec::network::Cni;
use flotilla_spec::{ClusterSpec, NodeName, NodeSpec, Role, WantedPower};

use flotilla_core::cluster::Cluster;
use flotilla_core::{Certificate, Condition, Drain, KubernetesState, MachineState, Member, Power};

pub use going::{delete, drain_nodes, empty_nodes, remove_nodes, stop, stop_nodes};

/// What there is of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    pub network: bool,
    /// Every machine that is on knows the way to all others.
    pub routes: bool,
    pub machines: BTreeMap<NodeName, MachineState>,
    /// Of the first control plane that is on.
    pub kubernetes: KubernetesState,
    /// The control planes that are on and paused.
    pub paused: BTreeSet<NodeName>,
    /// The machines that are members of the cluster already and in its list of nodes, of those that are on.
    pub joined: BTreeSet<NodeName>,
    /// The control planes that are members, or were when they were turned off, as far as that can be seen. If there is
    /// none, the cluster has never been.
    pub initial_members: BTreeSet<NodeName>,
    /// The workers that are members, on or off, if no control plane is: those that they have joined are lost.
    pub orphans: BTreeSet<NodeName>,
    /// Nodes with certificates that have expired or will soon, as far as that can be seen of machines that are off.
    pub due: BTreeSet<NodeName>,
    /// A certificate authority that has expired, and a node that has it.
    pub expired_authority: Option<(NodeName, Certificate)>,
    /// Those of etcd; none where they could not be asked for, or where there never was but one node.
    pub members: Option<Vec<Member>>,
    /// The user's kubeconfig has the way to it, and it is the current one.
    pub published: bool,
}

impl Observed {
    /// Nothing is there, or nothing can be seen.
    pub fn nothing() -> Self {
        Self {
            network: false,
            routes: true,
            machines: BTreeMap::new(),
            kubernetes: KubernetesState::Unreachable,
            paused: BTreeSet::new(),
            joined: BTreeSet::new(),
            initial_members: BTreeSet::new(),
            orphans: BTreeSet::new(),
            due: BTreeSet::new(),
            expired_authority: None,
            members: None,
            published: false,
        }
    }

    pub(crate) fn is_on(&self, node: &NodeName) -> bool {
        self.machines.get(node).is_some_and(|state| state.power == Power::On)
    }

    /// Why nothing is known of a machine, if that is so. It may be on.
    pub(crate) fn unknown(&self, node: &NodeName) -> Option<&str> {
        match &self.machines.get(node)?.power {
            Power::Unknown(why) => Some(why),
            Power::On | Power::Off => None,
        }
    }

    pub(crate) fn all_unknown(&self) -> Vec<(&NodeName, &str)> {
        self.machines.keys().filter_map(|name| Some((name, self.unknown(name)?))).collect()
    }

    fn is_whole(&self, node: &NodeName) -> bool {
        self.machines.get(node).is_some_and(|state| state.intact)
    }
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Network,
    Machine(NodeName),
    /// Every node learns of all others.
    Routes,
    /// The certificates of these nodes are renewed, and what reads them is restarted.
    Renew(Vec<NodeName>),
    StartApi(NodeName),
    Complete(NodeName),
    Unpause(NodeName),
    Join(NodeName),
    /// Labels and taints of a node that is in the cluster, which had these before.
    UpdateLabels(NodeName, Box<NodeSpec>),
    WriteKubeconfig,
    Wait(BTreeSet<Condition>),
    Drain(NodeName, Drain),
    Stop(NodeName),
    /// Out of the control plane: it is no member of etcd any more.
    LeaveControlPlane(NodeName),
    /// Out of etcd: a member that no node has.
    RemoveMember(Member),
    /// Out of the cluster's list.
    RemoveFromApi(NodeName),
    RemoveMachine(NodeName),
    UnsetContext,
    RemoveFromKubeconfig,
    RemoveAll,
    RemoveState,
}

/// A step of a plan. Its name is what events call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedStep {
    pub name: String,
    pub title: String,
    pub action: Action,
    /// The steps, by their index in the plan, that must succeed first.
    pub after: Vec<usize>,
    pub expected: Duration,
}

/// Steps in an order in which they can run one after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    pub steps: Vec<PlannedStep>,
}

impl Plan {
    /// Whether it does anything but wait.
    pub fn changes_something(&self) -> bool {
        self.steps.iter().any(|step| !matches!(step.action, Action::Wait(_)))
    }

    /// The expected time if steps run one after the other.
    pub fn work(&self) -> Duration {
        self.steps.iter().map(|step| step.expected).sum()
    }

    /// Whether it changes only the user's kubeconfig.
    pub(crate) fn only_publishes(&self) -> bool {
        self.steps.iter().all(|step| matches!(step.action, Action::Wait(_) | Action::WriteKubeconfig))
    }

    fn add(&mut self, action: Action, title: String, after: &[Option<usize>], milliseconds: u64) -> usize {
        let after = after.iter().copied().flatten().collect();
        let expected = Duration::from_millis(milliseconds);
        self.steps.push(PlannedStep { name: name_of(&action), title, action, after, expected });
        self.steps.len() - 1
    }

    fn unpause(&mut self, node: &NodeSpec, machine: Option<usize>) -> usize {
        let title = format!("unpausing node {}", node.name);
        self.add(Action::Unpause(node.name.clone()), title, &[machine], 500)
    }

    /// Adds steps in which control planes leave etcd one after the other, the first after these steps. Returns them.
    fn retire(&mut self, nodes: &[NodeName], after: &[Option<usize>]) -> BTreeMap<NodeName, usize> {
        let mut retired = BTreeMap::new();
        let mut after = after.to_vec();
        for node in nodes {
            let title = format!("removing node {node} from the control plane");
            let step = self.add(Action::LeaveControlPlane(node.clone()), title, &after, 2500);
            retired.insert(node.clone(), step);
            after = vec![Some(step)];
        }
        retired
    }
}

/// Starts all nodes that should run. `wait` has the conditions to wait for at the end.
pub fn start(cluster: &Cluster, observed: &Observed, wait: &BTreeSet<Condition>) -> Plan {
    start_within(Scope { cluster, observed, only: None }, wait)
}

/// The same for some nodes of a cluster that is not paused; others stay unchanged.
pub fn start_nodes(
    cluster: &Cluster,
    observed: &Observed,
    nodes: &[NodeName],
    wait: &BTreeSet<Condition>,
) -> Plan {
    start_within(Scope { cluster, observed, only: Some(nodes) }, wait)
}

/// The scope of a start.
#[derive(Clone, Copy)]
struct Scope<'a> {
    cluster: &'a Cluster,
    observed: &'a Observed,
    /// None: all nodes.
    only: Option<&'a [NodeName]>,
}

impl<'a> Scope<'a> {
    /// The nodes that are started. One whose host does not answer is left alone. One that is being deleted is not, unless it is a member of etcd, which may need it until
    /// it has left.
    fn to_run(self) -> impl Iterator<Item = &'a NodeSpec> {
        let Self { cluster, observed, only } = self;
        let is_needed =
            |name| !cluster.allocations.leaving.contains(name) || observed.initial_members.contains(name);
        let is_meant =
            move |name| only.is_none_or(|only| only.contains(name)) && observed.unknown(name).is_none();
        let nodes = cluster.spec.nodes.iter().filter(|node| node.power == WantedPower::Running);
        nodes.filter(move |node| is_meant(&node.name) && is_needed(&node.name))
    }
}

fn start_within(scope: Scope<'_>, wait: &BTreeSet<Condition>) -> Plan {
    let Scope { cluster, observed, only } = scope;
    let mut plan = Plan::default();
    if observed.initial_members.is_empty() && !observed.all_unknown().is_empty() {
        // A machine that nobody can ask may be a member of a cluster that runs: nothing may be made beside it.
        return plan;
    }
    let name = cluster.name();
    let subnet = cluster.allocations.subnet;
    let network = (!observed.network)
        .then(|| plan.add(Action::Network, format!("creating the network {subnet}"), &[], 50));
    // Before other nodes boot, which get their routes at boot: a node that fails to boot must not block the routes of
    // the rest.
    let routes = (!observed.routes).then(|| {
        let title = "updating routes between nodes".to_owned();
        plan.add(Action::Routes, title, &[network], 30)
    });
    let mut machines = BTreeMap::new();
    for node in scope.to_run().filter(|node| !observed.is_whole(&node.name)) {
        let is_on = observed.is_on(&node.name);
        let title = format!("{} node {}", if is_on { "repairing" } else { "booting" }, node.name);
        let after = [network, routes.filter(|_| !is_on)];
        let step = plan.add(Action::Machine(node.name.clone()), title, &after, 400);
        machines.insert(node.name.clone(), step);
    }
    let first = first_control_plane(scope);
    // An intact machine may still be disconnected: talking to it needs the network.
    let machine = machines.get(first).copied().or(network);
    // A machine that was off is not frozen, and its Kubernetes can be observed only when it is on.
    let kubernetes = if observed.is_on(first) { observed.kubernetes } else { KubernetesState::Unreachable };
    let mut ready = vec![machine];
    if kubernetes == KubernetesState::Paused {
        let title = "unpausing the control plane".to_owned();
        ready.push(Some(plan.add(Action::Unpause(first.clone()), title, &[machine], 500)));
        // `pause` freezes the other nodes together with the control plane.
        for node in scope.to_run().filter(|node| node.name != *first && observed.is_on(&node.name)) {
            ready.push(Some(plan.unpause(node, machines.get(&node.name).copied())));
        }
    }
    let renewed = plan.renew(scope, &machines, &ready);
    ready.push(renewed);
    // Renewing certificates restarts the API server, so it has to answer again.
    let is_due = |node: &NodeSpec| node.role == Role::ControlPlane && observed.due.contains(&node.name);
    let restarts = scope.to_run().any(is_due);
    let kubernetes = if restarts { KubernetesState::Unreachable } else { kubernetes };
    let mut api = None;
    if kubernetes < KubernetesState::Paused {
        // An API server that answers on a node without membership is left from a killed start.
        if kubernetes == KubernetesState::Unreachable || !observed.joined.contains(first) {
            let title = "starting etcd and the API server".to_owned();
            let mut after = vec![machine];
            // Renewing only workers does not affect the first member.
            after.extend(renewed.filter(|_| restarts).map(Some));
            // Without the paused nodes etcd may have no quorum.
            for node in scope.to_run().filter(|node| observed.paused.contains(&node.name)) {
                after.push(Some(plan.unpause(node, machines.get(&node.name).copied())));
            }
            let alone = after.len();
            if observed.initial_members.is_empty() {
                // All control planes bootstrap the cluster together.
                let is_other = |node: &&NodeSpec| node.role == Role::ControlPlane && node.name != *first;
                let others = scope.to_run().filter(is_other);
                after.extend(others.map(|node| machines.get(&node.name).copied()));
            }
            let expected = if after.len() > alone { 6000 } else { 3000 };
            api = Some(plan.add(Action::StartApi(first.clone()), title, &after, expected));
        }
        let title = "setting up the cluster: DNS, proxy, controllers, scheduler".to_owned();
        ready.push(Some(plan.add(Action::Complete(first.clone()), title, &[machine, api], 900)));
    }
    let mut cluster_is_up = ready.clone();
    let joining: Vec<_> =
        scope.to_run().filter(|node| node.name != *first && !observed.joined.contains(&node.name)).collect();
    ready.push(routes);
    // A stale member: its node was deleted by force without quorum. It only counts against quorum.
    let is_known = |member: &Member| cluster.nodes().any(|node| member.is_of(&node));
    let strangers = observed.members.iter().flatten().filter(|member| !member.answers && !is_known(member));
    for stranger in strangers {
        let title = format!("removing stale etcd member {}", stranger.name);
        let expelled = plan.add(Action::RemoveMember(stranger.clone()), title, &cluster_is_up, 500);
        cluster_is_up.push(Some(expelled));
        ready.push(Some(expelled));
    }
    for node in joining {
        let mut after = cluster_is_up.clone();
        after.push(machines.get(&node.name).copied());
        let mut expected = 2500;
        if node.role == Role::ControlPlane {
            // The other control planes configure keepalived before one more joins.
            after.push(routes);
            expected = 6000;
        }
        let title = format!("joining node {}", node.name);
        ready.push(Some(plan.add(Action::Join(node.name.clone()), title, &after, expected)));
    }
    // Starting some nodes of a running cluster does not change the current context: the user may work with another
    // cluster.
    let starts_api = only.is_none() || kubernetes == KubernetesState::Unreachable;
    // Renewing a control plane's certificates also renews the administrator's.
    if !observed.published && starts_api || restarts {
        let title = format!("adding {name} to your kubeconfig");
        ready.push(Some(plan.add(
            Action::WriteKubeconfig,
            title,
            &[machine, renewed.filter(|_| restarts), api],
            20,
        )));
    }
    let wait = attainable(cluster, wait);
    if !wait.is_empty() {
        let title = format!("waiting for {}", listed(&wait));
        plan.add(Action::Wait(wait), title, &ready, 2500);
    }
    plan
}

/// The control plane to start first, which the others join: a member that runs, or a former member, or else the
/// primary. If a member exists, no other node is possible, even if the member should not run: there would be two
/// clusters.
fn first_control_plane(scope: Scope<'_>) -> &NodeName {
    let Scope { cluster, observed, .. } = scope;
    let names = || cluster.spec.control_planes().map(|node| &node.name);
    let is_member = |name: &&NodeName| observed.is_on(name) && observed.joined.contains(*name);
    let to_run: BTreeSet<_> = scope.to_run().map(|node| &node.name).collect();
    let was_member = |name: &&NodeName| observed.initial_members.contains(*name);
    let was_there = |name: &&NodeName| to_run.contains(name) && observed.machines.contains_key(*name);
    let found = names().find(is_member);
    let found = found.or_else(|| names().find(|name| was_member(name) && to_run.contains(name)));
    let found = found.or_else(|| names().find(was_member)).or_else(|| names().find(was_there));
    found.or_else(|| names().find(|name| to_run.contains(name))).unwrap_or(&cluster.spec.primary().name)
}

/// The conditions that flotilla can wait for: without a pod network no node becomes Ready, and `CoreDNS` cannot run.
pub fn attainable(cluster: &Cluster, wait: &BTreeSet<Condition>) -> BTreeSet<Condition> {
    let needs_network = |condition: &Condition| {
        matches!(condition, Condition::NodeReady | Condition::SystemPods | Condition::AppsRunning)
    };
    let has_network = cluster.spec.network.cni != Cni::None;
    wait.iter().copied().filter(|condition| has_network || !needs_network(condition)).collect()
}

/// Sets the labels and taints of nodes to those of their spec, where they differed before.
pub fn update_labels(cluster: &Cluster, was: &ClusterSpec) -> Plan {
    let mut plan = Plan::default();
    for node in &cluster.spec.nodes {
        let Some(before) = was.nodes.iter().find(|before| before.name == node.name) else { continue };
        let taints = was.taints_of(before);
        if before.labels != node.labels || taints != cluster.spec.taints_of(node) {
            let action =
                Action::UpdateLabels(node.name.clone(), Box::new(NodeSpec { taints, ..before.clone() }));
            plan.add(action, format!("changing the labels and taints of node {}", node.name), &[], 50);
        }
    }
    plan
}

fn name_of(action: &Action) -> String {
    match action {
        Action::Network => "network".into(),
        Action::Machine(node) => format!("machine/{node}"),
        Action::Routes => "routes".into(),
        Action::Join(node) => format!("join/{node}"),
        Action::UpdateLabels(node, _) => format!("labels/{node}"),
        Action::Drain(node, _) => format!("drain/{node}"),
        Action::LeaveControlPlane(node) => format!("leave-control-plane/{node}"),
        Action::RemoveMember(member) => format!("remove-member/{:x}", member.id),
        Action::RemoveFromApi(node) => format!("remove-from-api/{node}"),
        Action::RemoveMachine(node) => format!("remove/{node}"),
        Action::Renew(_) => "certificates".into(),
        Action::StartApi(node) => format!("api/{node}"),
        Action::Complete(_) => "complete".into(),
        Action::Unpause(node) => format!("unpause/{node}"),
        Action::WriteKubeconfig => "kubeconfig".into(),
        Action::Wait(_) => "wait".into(),
        Action::Stop(node) => format!("stop/{node}"),
        Action::UnsetContext => "unset-context".into(),
        Action::RemoveFromKubeconfig => "remove-from-kubeconfig".into(),
        Action::RemoveAll => "remove".into(),
        Action::RemoveState => "remove-state".into(),
    }
}

fn listed(conditions: &BTreeSet<Condition>) -> String {
    let words: Vec<_> = conditions
        .iter()
        .map(|condition| match condition {
            Condition::ApiServer => "the API server",
            Condition::NodeReady => "the nodes",
            Condition::DefaultServiceAccount => "the default service account",
            Condition::SystemPods => "the system pods",
            Condition::AppsRunning => "the system deployments",
            Condition::Kubelet => "the kubelet",
        })
        .collect();
    words.join(", ")
}
