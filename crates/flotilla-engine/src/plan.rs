//! The steps from what is there to what is wanted: a pure function.

mod certificates;
mod going;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flotilla_spec::network::Cni;
use flotilla_spec::{ClusterSpec, NodeName, NodeSpec, Role, Taint, WantedPower};

use flotilla_core::cluster::{Cluster, Relabelling};
use flotilla_core::{Certificate, Condition, Drain, KubernetesState, MachineState, Member, Power};

pub use going::{delete, drain_nodes, empty_nodes, remove_nodes, stop, stop_nodes};

/// Observed state of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// The host's network of the cluster is complete, apart from routes and ports.
    pub network: bool,
    /// Every running node and the host have all routes, and all ports are published.
    pub routes: bool,
    pub machines: BTreeMap<NodeName, MachineState>,
    /// State of the first control plane that is on.
    pub kubernetes: KubernetesState,
    /// The control planes that are on and paused.
    pub paused: BTreeSet<NodeName>,
    /// Nodes that are on, have joined and have a Node object.
    pub joined: BTreeSet<NodeName>,
    /// Control planes that are members, or were when they were turned off, as far as the host can see. Without any, the
    /// cluster has never run.
    pub initial_members: BTreeSet<NodeName>,
    /// Control planes that are off, were members, and have lost etcd's data.
    pub emptied: BTreeSet<NodeName>,
    /// Workers that are members, on or off, while no control plane is: the control planes that they joined are lost.
    pub orphans: BTreeSet<NodeName>,
    /// Nodes with certificates that have expired or will soon; of machines that are off as far as the host can see.
    pub due: BTreeSet<NodeName>,
    /// A certificate authority that has expired, and a node that has it.
    pub expired_authority: Option<(NodeName, Certificate)>,
    /// Members of etcd; none if nobody could be asked, or if the cluster has always had one control plane.
    pub members: Option<Vec<Member>>,
    /// The user's kubeconfig has the cluster, as its current context.
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
            emptied: BTreeSet::new(),
            orphans: BTreeSet::new(),
            due: BTreeSet::new(),
            expired_authority: None,
            members: None,
            published: false,
        }
    }

    /// Whether anything says that the cluster has been: its data exists, or is lost.
    pub(crate) fn has_run(&self) -> bool {
        !(self.initial_members.is_empty() && self.emptied.is_empty() && self.orphans.is_empty())
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

    /// Whether it has lost its data while others have theirs.
    fn is_emptied(&self, node: &NodeName) -> bool {
        self.emptied.contains(node) && !self.initial_members.is_empty()
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
    /// Updates routes and names on the host and in every running node.
    Routes,
    /// Renews the certificates of these nodes and restarts the programs that read them.
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

    /// Boots control planes that have lost their data, after these steps. etcd would take a member without data for the one
    /// that it knows, with its vote. So each leaves etcd before its machine boots, whose kubelet starts etcd. Returns the boots.
    fn boot_emptied(
        &mut self,
        scope: Scope<'_>,
        after: &[Option<usize>],
        network: [Option<usize>; 2],
    ) -> BTreeMap<NodeName, usize> {
        let emptied = scope.to_run().filter(|node| scope.observed.is_emptied(&node.name));
        let emptied: Vec<_> = emptied.map(|node| node.name.clone()).collect();
        let left = self.retire(&emptied, after);
        let boot = |(node, left): (NodeName, usize)| {
            let title = format!("booting node {node}");
            let after = [network[0], network[1], Some(left)];
            (node.clone(), self.add(Action::Machine(node), title, &after, 400))
        };
        left.into_iter().map(boot).collect()
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
    /// The nodes that are started. One whose host does not answer is left alone. One that is being deleted is not, unless it is
    /// a member of etcd, which may need it until it has left.
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
    let boots_now = |node: &&NodeSpec| !observed.is_whole(&node.name) && !observed.is_emptied(&node.name);
    for node in scope.to_run().filter(boots_now) {
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
    machines.extend(plan.boot_emptied(scope, &cluster_is_up, [network, routes]));
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
        let title = format!("adding cluster {name} to your kubeconfig");
        ready.push(Some(plan.add(
            Action::WriteKubeconfig,
            title,
            &[machine, renewed.filter(|_| restarts), api],
            20,
        )));
    }
    let wait = attainable(cluster, wait);
    if !wait.is_empty() {
        let title = format!("waiting for {}", Condition::titles(&wait));
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

/// The conditions that flotilla can wait for: without a pod network no node becomes Ready, and `CoreDNS` cannot run. It
/// cannot run either where every node is tainted.
pub fn attainable(cluster: &Cluster, wait: &BTreeSet<Condition>) -> BTreeSet<Condition> {
    let needs_dns =
        |condition| matches!(condition, Condition::Dns | Condition::SystemPods | Condition::AppsRunning);
    let needs_network = |condition| needs_dns(condition) || condition == Condition::NodeReady;
    let (has_network, has_dns) = (has_pod_network(cluster), dns_can_run(cluster));
    let is_attainable = |condition: &Condition| {
        (has_network || !needs_network(*condition)) && (has_dns || !needs_dns(*condition))
    };
    wait.iter().copied().filter(is_attainable).collect()
}

pub(crate) fn has_pod_network(cluster: &Cluster) -> bool {
    cluster.spec.network.cni != Cni::None
}

/// Whether a node that is to run has no taints but those that `CoreDNS` tolerates.
fn dns_can_run(cluster: &Cluster) -> bool {
    const TOLERATED: [&str; 2] = ["node-role.kubernetes.io/control-plane", "CriticalAddonsOnly"];
    let keeps_off = |taint: &Taint| taint.effect() != "PreferNoSchedule" && !TOLERATED.contains(&taint.key());
    let to_run = cluster.spec.nodes.iter().filter(|node| node.power == WantedPower::Running);
    to_run.into_iter().any(|node| !cluster.spec.taints_of(node).iter().any(keeps_off))
}

/// Sets the labels and taints of nodes to those of their spec, where they differed before, or where a killed command may
/// have left others.
pub fn update_labels(cluster: &Cluster, was: &ClusterSpec) -> Plan {
    let mut plan = Plan::default();
    for node in &cluster.spec.nodes {
        let Some(before) = was.nodes.iter().find(|before| before.name == node.name) else { continue };
        let mut has = Relabelling { labels: before.labels.clone(), taints: was.taints_of(before) };
        let left = cluster.allocations.relabelling.get(&node.name);
        if left.is_some() || has.labels != node.labels || has.taints != cluster.spec.taints_of(node) {
            if let Some(left) = left {
                has.add(&left.labels, &left.taints);
            }
            let Relabelling { labels, taints } = has;
            let was = NodeSpec { labels, taints, ..before.clone() };
            let action = Action::UpdateLabels(node.name.clone(), Box::new(was));
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
