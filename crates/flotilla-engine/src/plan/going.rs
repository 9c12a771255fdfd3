//! The steps by which nodes and clusters stop and go.

use flotilla_spec::{ClusterName, NodeName};

use super::{Action, Observed, Plan};
use flotilla_core::Drain;
use flotilla_core::cluster::Cluster;

/// Empties those of some nodes that are on.
pub fn drain_nodes(observed: &Observed, nodes: &[NodeName], how: Drain) -> Plan {
    let mut plan = Plan::default();
    for node in nodes.iter().filter(|node| observed.is_on(node)) {
        plan.add(Action::Drain(node.clone(), how), format!("draining node {node}"), &[], 3000);
    }
    plan
}

/// Turns some nodes off; the others go on. Those of them that are `retiring` from the control plane do that first, one
/// after the other.
pub fn stop_nodes(observed: &Observed, nodes: &[NodeName], retiring: &[NodeName]) -> Plan {
    let mut plan = Plan::default();
    let retired = plan.retire(retiring, &[]);
    for node in nodes.iter().filter(|node| observed.is_on(node)) {
        let after = [retired.get(node).copied()];
        plan.add(Action::Stop(node.clone()), format!("stopping node {node}"), &after, 1500);
    }
    plan
}

/// Empties nodes that are to be removed, on or off.
pub fn empty_nodes(nodes: &[NodeName], how: Drain) -> Plan {
    let mut plan = Plan::default();
    for node in nodes {
        plan.add(Action::Drain(node.clone(), how), format!("draining node {node}"), &[], 3000);
    }
    plan
}

/// Takes empty nodes out of the cluster: off the list, machine and data gone. Those of them that are `retiring` from the
/// control plane do that first, one after the other. `ghosts` are on the list alone. `reachable`: the API answers.
pub fn remove_nodes(nodes: &[NodeName], retiring: &[NodeName], ghosts: &[NodeName], reachable: bool) -> Plan {
    let mut plan = Plan::default();
    let retired = plan.retire(retiring, &[]);
    for node in nodes.iter().chain(ghosts) {
        let retired = retired.get(node).copied();
        // One that could retire could be asked for: the list is of the same API.
        let left = (reachable || retired.is_some()).then(|| {
            let title = format!("taking node {node} off the cluster's list");
            plan.add(Action::RemoveFromApi(node.clone()), title, &[retired], 50)
        });
        if nodes.contains(node) {
            let title = format!("removing the machine of node {node}");
            plan.add(Action::RemoveMachine(node.clone()), title, &[left, retired], 200);
        }
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
        plan.add(Action::UnsetContext, title, &[], 20);
    }
    plan
}

/// Removes everything. It needs no knowledge of what is there: a name is enough.
pub fn delete(name: &ClusterName) -> Plan {
    let mut plan = Plan::default();
    let remove_from_kubeconfig =
        plan.add(Action::RemoveFromKubeconfig, format!("taking {name} out of your kubeconfig"), &[], 20);
    let title = format!("removing the machines and the network of {name}");
    let remove = plan.add(Action::RemoveAll, title, &[], 300);
    let after = [Some(remove_from_kubeconfig), Some(remove)];
    plan.add(Action::RemoveState, format!("forgetting {name}"), &after, 100);
    plan
}
