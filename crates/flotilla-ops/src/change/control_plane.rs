//! What a change may do to the control plane, checked before anything is done.

use std::collections::BTreeSet;

use flotilla_core::Cluster;
use flotilla_engine::EngineError;
use flotilla_engine::converge::{ControlPlaneChange, Engine};
use flotilla_spec::{Change, NodeName, NodeSpec, Role, WantedPower};

use super::{Plan, removed};
use crate::OpError;

/// Refuses what would cost the cluster its control plane: all that comes, goes and stops is counted together. With `force` only
/// what would cost it its data. `cluster` has the wanted nodes, and still those that go.
pub(super) async fn check(
    engine: &Engine<'_>,
    cluster: &Cluster,
    plan: &Plan,
    force: bool,
) -> Result<(), OpError> {
    let primary = &cluster.spec.primary().name;
    let any_runs = plan.wanted.control_planes().any(runs);
    let primary_runs = plan.wanted.control_planes().any(|node| runs(node) && node.name == *primary);
    // All that is certain about control planes that are off is that the primary one is a member of etcd.
    if !force && any_runs && !primary_runs && !engine.control_plane_is_on(cluster).await? {
        return Err(EngineError::Stopped(cluster.name().clone()).into());
    }
    // They come first, also those that are dead and those that are about to go.
    let coming = cluster.spec.control_planes().filter(|node| any_runs && runs(node));
    let coming: Vec<_> = coming.map(|node| node.name.clone()).collect();
    check_quorum(engine, cluster, plan, (&coming, force)).await
}

/// The same when those that were to come have: what is up by now is what can be relied on.
pub(super) async fn check_again(
    engine: &Engine<'_>,
    cluster: &Cluster,
    plan: &Plan,
    force: bool,
) -> Result<(), OpError> {
    check_quorum(engine, cluster, plan, (&[], force)).await
}

async fn check_quorum(
    engine: &Engine<'_>,
    cluster: &Cluster,
    plan: &Plan,
    (coming, force): (&[NodeName], bool),
) -> Result<(), OpError> {
    let known = |name: &NodeName| cluster.spec.control_planes().any(|node| node.name == *name);
    let deleted: Vec<_> =
        plan.changes.iter().filter_map(removed).filter(|name| known(name)).cloned().collect();
    let stops = plan.changes.iter().filter_map(stopped).any(known);
    if deleted.is_empty() && (force || !stops) {
        return Ok(());
    }
    // Where all stop together none has to be spared.
    let any_runs = plan.wanted.control_planes().any(runs);
    let stopped = plan.wanted.control_planes().filter(|node| any_runs && !runs(node));
    let stopped: Vec<_> = stopped.map(|node| node.name.clone()).collect();
    let control_plane_change = ControlPlaneChange { coming, deleted: &deleted, stopped: &stopped };
    if force {
        return Ok(engine.keeps_data(cluster, control_plane_change).await?);
    }
    Ok(engine.can_turn_over(cluster, control_plane_change).await?)
}

/// When the API does not answer, though nothing is wrong: while a control plane restarts that cannot be spared.
pub(super) fn outages(plan: &Plan) -> Vec<String> {
    let goes = |change: &&Change| matches!(change, Change::Remove { role: Role::ControlPlane, .. });
    // Those that go do so later.
    let members = plan.wanted.control_planes().filter(|node| runs(node)).count()
        + plan.changes.iter().filter(goes).count();
    let restarted: BTreeSet<_> = plan.changes.iter().filter_map(Change::restarts).collect();
    let restarted = plan.wanted.control_planes().filter(|node| restarted.contains(&node.name));
    match members {
        1 => restarted
            .map(|node| format!("the API does not answer while node {} restarts", node.name))
            .collect(),
        2 => restarted
            .map(|node| {
                format!(
                    "the API does not answer while node {} restarts: one of two control planes has no quorum",
                    node.name
                )
            })
            .collect(),
        _ => Vec::new(),
    }
}

fn runs(node: &NodeSpec) -> bool {
    node.power == WantedPower::Running
}

fn stopped(change: &Change) -> Option<&NodeName> {
    match change {
        Change::Stop { node } => Some(node),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use flotilla_spec::change::changes;
    use flotilla_spec::{ClusterSpec, Cpus};

    use super::*;

    /// Control planes of a cluster that runs.
    fn spec(control_planes: usize) -> ClusterSpec {
        let head =
            "apiVersion: flotilla.dev/v1\nkind: Cluster\nname: demo\nkubernetesVersion: v1.37.1\nnodes:\n";
        let nodes =
            (1..=control_planes).map(|number| format!("- {{name: m{number}, role: control-plane}}\n"));
        ClusterSpec::from_yaml(&(head.to_owned() + &nodes.collect::<String>())).unwrap()
    }

    fn told(known: &ClusterSpec, wanted: ClusterSpec) -> String {
        outages(&Plan { changes: changes(known, &wanted), wanted, file: None }).join("\n")
    }

    #[test]
    fn who_restarts_one_of_too_few_control_planes_is_told() {
        let resized = |count| {
            let mut wanted = spec(count);
            wanted.nodes[0].cpus = Cpus::Max;
            wanted
        };
        assert_eq!(told(&spec(1), resized(1)), "the API does not answer while node m1 restarts");
        let two = "the API does not answer while node m1 restarts: one of two control planes has no quorum";
        assert_eq!(told(&spec(2), resized(2)), two);
        assert_eq!(told(&spec(3), resized(3)), "");
        // Who comes is there before, and who goes still is.
        assert_eq!(told(&spec(2), resized(3)), "");
        assert_eq!(told(&spec(3), resized(2)), "");
        assert_eq!(told(&spec(1), spec(1)), "");
    }
}
