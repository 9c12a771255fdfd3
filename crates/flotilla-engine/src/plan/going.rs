//! Plans for stopping and deleting nodes and clusters.

use flotilla_spec::{ClusterName, NodeName};

use super::{Action, Observed, Plan};
use flotilla_core::Drain;
use flotilla_core::cluster::Cluster;

/// Drains the nodes that are on.
pub fn drain_nodes(observed: &Observed, nodes: &[NodeName], how: Drain) -> Plan {
    let mut plan = Plan::default();
    for node in nodes.iter().filter(|node| observed.is_on(node)) {
        plan.add(Action::Drain(node.clone(), how), format!("draining node {node}"), &[], 3000);
    }
    plan
}

/// Powers some nodes off. The `retiring` ones leave etcd first, one after the other.
pub fn stop_nodes(observed: &Observed, nodes: &[NodeName], retiring: &[NodeName]) -> Plan {
    let mut plan = Plan::default();
    let retired = plan.retire(retiring, &[]);
    for node in nodes.iter().filter(|node| observed.is_on(node)) {
        let after = [retired.get(node).copied()];
        plan.add(Action::Stop(node.clone()), format!("stopping node {node}"), &after, 1500);
    }
    plan
}

/// Drains nodes that are deleted, on or off.
pub fn empty_nodes(nodes: &[NodeName], how: Drain) -> Plan {
    let mut plan = Plan::default();
    for node in nodes {
        plan.add(Action::Drain(node.clone(), how), format!("draining node {node}"), &[], 3000);
    }
    plan
}

/// Deletes drained nodes: Node objects, machines and data. The `retiring` ones leave etcd first, one after the other.
/// `ghosts` have only a Node object. `reachable`: the API answers.
pub fn remove_nodes(nodes: &[NodeName], retiring: &[NodeName], ghosts: &[NodeName], reachable: bool) -> Plan {
    let mut plan = Plan::default();
    let retired = plan.retire(retiring, &[]);
    for node in nodes.iter().chain(ghosts) {
        let retired = retired.get(node).copied();
        // If a control plane could leave etcd, the API answers.
        let left = (reachable || retired.is_some()).then(|| {
            let title = format!("deleting the Node object of {node}");
            plan.add(Action::RemoveFromApi(node.clone()), title, &[retired], 50)
        });
        if nodes.contains(node) {
            let title = format!("removing the machine of node {node}");
            plan.add(Action::RemoveMachine(node.clone()), title, &[left, retired], 200);
        }
    }
    plan
}

/// Powers off everything that is on.
pub fn stop(cluster: &Cluster, observed: &Observed) -> Plan {
    let mut plan = Plan::default();
    // Also machines that are not in the spec.
    let on: Vec<_> = observed.machines.keys().filter(|node| observed.is_on(node)).collect();
    for node in on {
        plan.add(Action::Stop(node.clone()), format!("stopping node {node}"), &[], 1500);
    }
    if observed.published {
        let title = format!("unsetting the current context {} in your kubeconfig", cluster.name());
        plan.add(Action::UnsetContext, title, &[], 20);
    }
    plan
}

/// Removes everything. Needs no state: the name is enough.
pub fn delete(name: &ClusterName) -> Plan {
    let mut plan = Plan::default();
    let remove_from_kubeconfig = plan.add(
        Action::RemoveFromKubeconfig,
        format!("removing cluster {name} from your kubeconfig"),
        &[],
        20,
    );
    let title = format!("removing the machines and the network of cluster {name}");
    let remove = plan.add(Action::RemoveAll, title, &[], 300);
    let after = [Some(remove_from_kubeconfig), Some(remove)];
    plan.add(Action::RemoveState, format!("removing the state of cluster {name}"), &after, 100);
    plan
}
