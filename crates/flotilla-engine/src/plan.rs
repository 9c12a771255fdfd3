//! The steps from what is there to what is wanted: a pure function.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flotilla_spec::{ClusterName, NodeName, NodeSpec, Role, WantedPower};

use crate::cluster::Cluster;
use crate::port::{Condition, Drain, KubernetesState, MachineState, Power};

/// What there is of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    pub network: bool,
    pub machines: BTreeMap<NodeName, MachineState>,
    /// Of the primary control plane.
    pub kubernetes: KubernetesState,
    /// The machines that are members of the cluster already, of those that are on.
    pub joined: BTreeSet<NodeName>,
    /// The person's kubeconfig has the way to it, and it is the current one.
    pub published: bool,
}

impl Observed {
    /// Nothing is there, or nothing can be seen.
    pub fn nothing() -> Self {
        Self {
            network: false,
            machines: BTreeMap::new(),
            kubernetes: KubernetesState::Silent,
            joined: BTreeSet::new(),
            published: false,
        }
    }

    fn is_on(&self, node: &NodeName) -> bool {
        self.machines.get(node).is_some_and(|state| state.power == Power::On)
    }

    fn is_whole(&self, node: &NodeName) -> bool {
        self.machines.get(node).is_some_and(|state| state.whole)
    }
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Network,
    Machine(NodeName),
    /// Every node learns of all others.
    Routes,
    StartApi(NodeName),
    Complete(NodeName),
    Unpause(NodeName),
    Join(NodeName),
    Publish,
    Wait(BTreeSet<Condition>),
    Drain(NodeName, Drain),
    Stop(NodeName),
    /// Out of the cluster's list.
    Leave(NodeName),
    RemoveMachine(NodeName),
    Deselect,
    Unpublish,
    RemoveAll,
    Forget,
}

/// A step of a plan. Its name is what events call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedStep {
    pub name: String,
    pub title: String,
    pub action: Action,
    /// The steps, by their place in the plan, that must have gone well before.
    pub after: Vec<usize>,
    pub expected: Duration,
}

/// Steps in an order in which they could be done one by one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    pub steps: Vec<PlannedStep>,
}

impl Plan {
    /// Whether anything but waiting is to be done.
    pub fn changes_something(&self) -> bool {
        self.steps.iter().any(|step| !matches!(step.action, Action::Wait(_)))
    }

    fn add(&mut self, action: Action, title: String, after: &[Option<usize>], milliseconds: u64) -> usize {
        let after = after.iter().copied().flatten().collect();
        let expected = Duration::from_millis(milliseconds);
        self.steps.push(PlannedStep { name: name_of(&action), title, action, after, expected });
        self.steps.len() - 1
    }
}

/// Makes everything run that is wanted running. `wait` is what must hold in the end.
pub fn start(cluster: &Cluster, observed: &Observed, wait: &BTreeSet<Condition>) -> Plan {
    let mut plan = Plan::default();
    let name = cluster.name();
    let subnet = cluster.handed_out.subnet;
    let network = (!observed.network)
        .then(|| plan.add(Action::Network, format!("making the network {subnet}"), &[], 50));
    let mut machines = BTreeMap::new();
    for node in cluster.spec.nodes.iter().filter(|node| node.power == WantedPower::Running) {
        if !observed.is_whole(&node.name) {
            let verb = if observed.is_on(&node.name) { "repairing" } else { "booting" };
            let title = format!("{verb} node {}", node.name);
            let step = plan.add(Action::Machine(node.name.clone()), title, &[network], 400);
            machines.insert(node.name.clone(), step);
        }
    }
    let primary = &cluster.spec.primary().name;
    // One that is whole may still be cut off: what talks to it needs the network.
    let machine = machines.get(primary).copied().or(network);
    // A machine that was off can be frozen no more, and what is in it cannot be seen before it is on.
    let kubernetes = if observed.is_on(primary) { observed.kubernetes } else { KubernetesState::Silent };
    let mut ready = vec![machine];
    if kubernetes == KubernetesState::Paused {
        let title = "waking the control plane".to_owned();
        ready.push(Some(plan.add(Action::Unpause(primary.clone()), title, &[machine], 500)));
    }
    let mut api = None;
    if kubernetes < KubernetesState::Paused {
        if kubernetes == KubernetesState::Silent {
            let title = "starting etcd and the API server".to_owned();
            api = Some(plan.add(Action::StartApi(primary.clone()), title, &[machine], 3000));
        }
        let title = "setting up the cluster: DNS, proxy, controllers, scheduler".to_owned();
        ready.push(Some(plan.add(Action::Complete(primary.clone()), title, &[machine, api], 900)));
    }
    let cluster_is_up = ready.clone();
    for node in workers(cluster) {
        if !observed.joined.contains(&node.name) {
            let title = format!("joining node {}", node.name);
            let after: Vec<_> =
                cluster_is_up.iter().copied().chain([machines.get(&node.name).copied()]).collect();
            ready.push(Some(plan.add(Action::Join(node.name.clone()), title, &after, 2500)));
        }
    }
    // Nodes that run while others come have to be told.
    let others_run = cluster.spec.nodes.iter().any(|node| observed.is_on(&node.name));
    if others_run && cluster.spec.nodes.len() > 1 && !machines.is_empty() {
        let after: Vec<_> = machines.values().copied().map(Some).collect();
        let title = "telling the nodes the way to each other".to_owned();
        ready.push(Some(plan.add(Action::Routes, title, &after, 30)));
    }
    if !observed.published {
        let title = format!("adding {name} to your kubeconfig");
        ready.push(Some(plan.add(Action::Publish, title, &[machine, api], 20)));
    }
    if !wait.is_empty() {
        let title = format!("waiting for {}", listed(wait));
        plan.add(Action::Wait(wait.clone()), title, &ready, 2500);
    }
    plan
}

/// The nodes that are to run and are no control planes.
fn workers(cluster: &Cluster) -> impl Iterator<Item = &NodeSpec> {
    let nodes = cluster.spec.nodes.iter();
    nodes.filter(|node| node.role == Role::Worker && node.power == WantedPower::Running)
}

/// Turns some nodes off, each emptied before if that is wanted; the others go on.
pub fn stop_nodes(observed: &Observed, nodes: &[NodeName], drain: Option<Drain>) -> Plan {
    let mut plan = Plan::default();
    for node in nodes.iter().filter(|node| observed.is_on(node)) {
        let drained = drain.map(|how| {
            plan.add(Action::Drain(node.clone(), how), format!("draining node {node}"), &[], 3000)
        });
        plan.add(Action::Stop(node.clone()), format!("stopping node {node}"), &[drained], 1500);
    }
    plan
}

/// Takes nodes out of the cluster: emptied, off the list, machine and data gone. `reachable`: the API answers.
pub fn remove_nodes(nodes: &[NodeName], drain: Drain, reachable: bool) -> Plan {
    let mut plan = Plan::default();
    for node in nodes {
        let left = reachable.then(|| {
            let title = format!("draining node {node}");
            let drained = plan.add(Action::Drain(node.clone(), drain), title, &[], 3000);
            let title = format!("taking node {node} off the cluster's list");
            plan.add(Action::Leave(node.clone()), title, &[Some(drained)], 50)
        });
        let title = format!("removing the machine of node {node}");
        plan.add(Action::RemoveMachine(node.clone()), title, &[left], 200);
    }
    plan
}

/// Turns everything off. What is off already needs no step.
pub fn stop(cluster: &Cluster, observed: &Observed) -> Plan {
    let mut plan = Plan::default();
    // Also machines that no spec knows.
    let on: Vec<_> = observed.machines.keys().filter(|node| observed.is_on(node)).collect();
    for node in on {
        plan.add(Action::Stop(node.clone()), format!("stopping node {node}"), &[], 1500);
    }
    if observed.published {
        let title = format!("{} is no longer the current context of your kubeconfig", cluster.name());
        plan.add(Action::Deselect, title, &[], 20);
    }
    plan
}

/// Removes everything. It needs no knowledge of what is there: a name is enough.
pub fn delete(name: &ClusterName) -> Plan {
    let mut plan = Plan::default();
    let unpublish = plan.add(Action::Unpublish, format!("taking {name} out of your kubeconfig"), &[], 20);
    let title = format!("removing the machines and the network of {name}");
    let remove = plan.add(Action::RemoveAll, title, &[], 300);
    let after = [Some(unpublish), Some(remove)];
    plan.add(Action::Forget, format!("forgetting {name}"), &after, 100);
    plan
}

fn name_of(action: &Action) -> String {
    match action {
        Action::Network => "network".into(),
        Action::Machine(node) => format!("machine/{node}"),
        Action::Routes => "routes".into(),
        Action::Join(node) => format!("join/{node}"),
        Action::Drain(node, _) => format!("drain/{node}"),
        Action::Leave(node) => format!("leave/{node}"),
        Action::RemoveMachine(node) => format!("remove/{node}"),
        Action::StartApi(node) => format!("api/{node}"),
        Action::Complete(_) => "complete".into(),
        Action::Unpause(node) => format!("unpause/{node}"),
        Action::Publish => "kubeconfig".into(),
        Action::Wait(_) => "wait".into(),
        Action::Stop(node) => format!("stop/{node}"),
        Action::Deselect => "deselect".into(),
        Action::Unpublish => "unpublish".into(),
        Action::RemoveAll => "remove".into(),
        Action::Forget => "forget".into(),
    }
}

fn listed(conditions: &BTreeSet<Condition>) -> String {
    let words: Vec<_> = conditions
        .iter()
        .map(|condition| match condition {
            Condition::ApiServer => "the API server",
            Condition::NodeReady => "the nodes",
            Condition::DefaultServiceAccount => "the default service account",
            Condition::SystemPods => "the system's pods",
            Condition::AppsRunning => "the system's deployments",
            Condition::Kubelet => "the kubelet",
        })
        .collect();
    words.join(", ")
}
