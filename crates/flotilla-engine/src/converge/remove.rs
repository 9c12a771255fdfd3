//! Deletes nodes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flotilla_spec::{NodeName, Role};

use super::work::Work;
use super::{Engine, Leaving, require_known};
use crate::error::EngineError;
use crate::plan::{self, Observed};
use crate::store::Locked;
use flotilla_core::cluster::Cluster;
use flotilla_core::{Changed, Drain, DriverError, KubernetesState, Machine};

/// How long to wait for the API if a control plane is on: its virtual IP may be moving, or the host may be busy.
pub(super) const ANSWER: Duration = Duration::from_secs(30);
/// The same with `--force`.
const ANSWER_IF_FORCED: Duration = Duration::from_secs(10);

impl Engine<'_> {
    /// Deletes nodes from the cluster, its spec and its allocations. If it was killed, run the same command again to
    /// resume. Once the nodes are drained, `start` also finishes it ([`Engine::finish_removals`]).
    ///
    /// If no control plane is on, only the machines are removed, and the Node objects when the API is back. If one is
    /// on and the API does not answer, only `--force` removes nodes, because their pods are unknown. The same holds
    /// for control planes, and if etcd would lose quorum. The last control plane that has etcd's data is never deleted.
    pub async fn delete_nodes(
        &self,
        locked: &Locked,
        cluster: &mut Cluster,
        nodes: &[NodeName],
        drain: Drain,
    ) -> Result<(), EngineError> {
        let machines = self.machines(cluster).await?;
        let observed = self.observe_with(cluster, &machines).await?;
        require_known(cluster, &observed, nodes, "delete")?;
        self.require_copy_elsewhere(cluster, &observed, nodes).await?;
        let limit = if drain.force { ANSWER_IF_FORCED } else { ANSWER };
        let reachable = self.answers(cluster, &machines, &observed, limit).await?;
        if !reachable {
            self.can_go_undrained(cluster, &observed, drain.force)?;
        }
        let retiring = self.retiring_or_forced(cluster, &observed, nodes, (Leaving::Deleted, drain.force))?;
        // The primary must not be a node that is about to be deleted.
        cluster.spec.hand_over_primary(nodes);
        locked.save(cluster)?;
        if reachable {
            self.empty(cluster, &observed, machines.clone(), nodes, drain).await?;
        }
        // No way back from here: some nodes may already be removed.
        cluster.allocations.leaving.extend(nodes.iter().cloned());
        locked.save(cluster)?;
        let work = Work::on(cluster, machines).knowing(&observed);
        self.apply(&plan::remove_nodes(nodes, &retiring, &[], reachable), &work).await?;
        self.publish_anew(&retiring, &work).await?;
        drop(work);
        cluster.remove_nodes(nodes);
        if !reachable {
            cluster.allocations.ghosts.extend(nodes.iter().cloned());
        }
        self.configure_others(cluster).await?;
        // Saved last: if it is killed before, the same command finds the nodes again and updates the routes of the
        // others.
        locked.save(cluster)
    }

    /// Finishes deletions: removes nodes whose deletion was killed, and deletes the Node objects of nodes that were
    /// deleted while the API did not answer. Call it when the API answers.
    ///
    /// A control plane stays, with a warning, if etcd would lose quorum.
    pub async fn finish_removals(
        &self,
        locked: &Locked,
        cluster: &mut Cluster,
    ) -> Result<Changed, EngineError> {
        let is_known = |name: &NodeName| cluster.spec.nodes.iter().any(|node| node.name == *name);
        let mut leaving: Vec<_> =
            cluster.allocations.leaving.iter().filter(|name| is_known(name)).cloned().collect();
        let ghosts: Vec<_> =
            cluster.allocations.ghosts.iter().filter(|name| !is_known(name)).cloned().collect();
        if leaving.is_empty() && ghosts.is_empty() {
            return Ok(Changed::No);
        }
        let machines = self.machines(cluster).await?;
        let observed = self.observe_with(cluster, &machines).await?;
        leaving.retain(|name| {
            let is_known = require_known(cluster, &observed, std::slice::from_ref(name), "delete");
            is_known.map_err(|error| self.warn(error.to_string())).is_ok()
        });
        let kept = self.require_copy_elsewhere(cluster, &observed, &leaving).await;
        let why = (Leaving::Deleted, false);
        let retiring = match kept.and_then(|()| self.retiring_or_forced(cluster, &observed, &leaving, why)) {
            Ok(retiring) => retiring,
            Err(error) => {
                self.warn(format!("cannot finish deleting {}: {error}", names_of(&leaving)));
                let is_worker = |name: &NodeName| {
                    cluster.spec.nodes.iter().any(|node| node.name == *name && node.role == Role::Worker)
                };
                leaving.retain(is_worker);
                Vec::new()
            }
        };
        let work = Work::on(cluster, machines).knowing(&observed);
        self.apply(&plan::remove_nodes(&leaving, &retiring, &ghosts, true), &work).await?;
        self.publish_anew(&retiring, &work).await?;
        drop(work);
        cluster.remove_nodes(&leaving);
        cluster.allocations.ghosts.clear();
        self.configure_others(cluster).await?;
        locked.save(cluster)?;
        Ok(Changed::Yes)
    }

    /// Updates the host and the nodes that stay. The others are gone, so a node that cannot be updated is only warned about.
    async fn configure_others(&self, cluster: &Cluster) -> Result<(), EngineError> {
        match self.configure_nodes(cluster, &self.machines(cluster).await?).await {
            Err(error @ EngineError::Driver(DriverError::Guest(_))) if !error.is_interruption() => {
                self.warn_of_routes(cluster, &error);
                Ok(())
            }
            configured => configured.map(drop),
        }
    }

    /// Drains all nodes, or uncordons all of them if one cannot be drained.
    async fn empty(
        &self,
        cluster: &Cluster,
        observed: &Observed,
        machines: BTreeMap<NodeName, Arc<dyn Machine>>,
        nodes: &[NodeName],
        drain: Drain,
    ) -> Result<(), EngineError> {
        let off: Vec<_> = nodes.iter().filter(|node| !observed.is_on(node)).cloned().collect();
        if !off.is_empty() {
            let off = names_of(&off);
            self.warn(format!("skipping the drain of {off}: powered off; pods on it are deleted"));
        }
        let work = Work::on(cluster, machines).knowing(observed);
        let emptied = self.apply(&plan::empty_nodes(nodes, drain), &work).await;
        self.or_admit(emptied, nodes, &work).await.map(drop)
    }

    /// Refuses to remove nodes that cannot be drained, unless no control plane is on.
    fn can_go_undrained(
        &self,
        cluster: &Cluster,
        observed: &Observed,
        force: bool,
    ) -> Result<(), EngineError> {
        const FORCE: &str = "--force removes nodes whose pods have not moved";
        // One that is unknown may be on.
        let may_be_on = |name| observed.is_on(name) || observed.unknown(name).is_some();
        let is_on = cluster.spec.control_planes().any(|node| may_be_on(&node.name));
        let (name, paused) = (cluster.name().clone(), observed.kubernetes == KubernetesState::Paused);
        match (is_on && !force, paused) {
            (true, true) => return Err(EngineError::Paused { cluster: name, force: Some(FORCE) }),
            (true, false) => return Err(EngineError::ApiSilent { cluster: name, force: Some(FORCE) }),
            (false, _) => {}
        }
        self.warn(
            "the API does not answer: the nodes' pods are not moved, and the cluster lists the nodes until the next \
             `flotilla start`",
        );
        Ok(())
    }

    /// Whether the API answers, within the time limit.
    pub(super) async fn answers(
        &self,
        cluster: &Cluster,
        machines: &BTreeMap<NodeName, Arc<dyn Machine>>,
        observed: &Observed,
        limit: Duration,
    ) -> Result<bool, EngineError> {
        match observed.kubernetes {
            KubernetesState::Incomplete | KubernetesState::Complete => return Ok(true),
            KubernetesState::Paused => return Ok(false),
            KubernetesState::Unreachable => {}
        }
        let work = Work::on(cluster, machines.clone()).knowing(observed);
        // Without a member that is on, the API cannot answer.
        let Ok((cluster, via)) = work.via(None).await else { return Ok(false) };
        Ok(self.bootstrapper.answers(cluster, via.as_ref(), limit).await?)
    }
}

fn names_of(nodes: &[NodeName]) -> String {
    nodes.iter().map(NodeName::as_ref).collect::<Vec<_>>().join(", ")
}
