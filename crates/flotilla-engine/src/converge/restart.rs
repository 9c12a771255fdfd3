//! Restarts nodes to change settings that take effect at boot.

use flotilla_spec::{ClusterSpec, NodeName, NodeSpec, Role, WantedPower};

use super::work::Work;
use super::{Engine, Wait, powers, require_known};
use crate::error::EngineError;
use crate::plan;
use crate::store::Locked;
use flotilla_core::Changed;
use flotilla_core::cluster::Cluster;

/// The nodes that get new sizes and mounts.
#[derive(Debug, Clone, Copy)]
pub struct Resize<'a> {
    pub nodes: &'a [NodeName],
    /// The spec with the new sizes and mounts.
    pub wanted: &'a ClusterSpec,
    /// Nodes that are about to be deleted: workers among them are not started.
    pub going: &'a [NodeName],
    /// Starts no other node.
    pub alone: bool,
    /// Restarts control planes even if etcd loses quorum meanwhile.
    pub force: bool,
}

impl Engine<'_> {
    /// Powers nodes off for a restart: control planes remain members of etcd.
    pub async fn power_off(&self, cluster: &Cluster, nodes: &[NodeName]) -> Result<Changed, EngineError> {
        let machines = self.machines(cluster).await?;
        require_known(cluster, &powers(&machines), nodes, "stop")?;
        let plan = plan::stop_nodes(&powers(&machines), nodes, &[]);
        self.apply(&plan, &Work::on(cluster, machines)).await
    }

    /// Starts everything except workers that are about to be deleted.
    pub async fn start_staying(
        &self,
        locked: &Locked,
        cluster: &Cluster,
        going: &[NodeName],
        wait: &Wait,
    ) -> Result<Changed, EngineError> {
        let mut staying = cluster.clone();
        let goes = |node: &&mut NodeSpec| node.role == Role::Worker && going.contains(&node.name);
        for node in staying.spec.nodes.iter_mut().filter(goes) {
            node.power = WantedPower::Stopped;
        }
        self.start(locked, &staying, wait).await
    }

    /// Changes sizes and mounts, which take effect at boot. Restarts control planes one after the other, each when
    /// all that should run do. All other nodes are off afterwards, and `start` powers them on.
    ///
    /// Each node is off before its size is saved: if the command is killed in between, the change is still to be
    /// made.
    pub async fn resize(
        &self,
        locked: &Locked,
        cluster: &mut Cluster,
        how: Resize<'_>,
        wait: &Wait,
    ) -> Result<Changed, EngineError> {
        let Resize { nodes, wanted, going, force, alone } = how;
        let several = cluster.spec.control_planes().count() > 1;
        let is_control_plane =
            |name: &&NodeName| cluster.spec.control_planes().any(|node| node.name == **name);
        let seen = powers(&self.machines(cluster).await?);
        require_known(cluster, &seen, nodes, "resize")?;
        let (on, off): (Vec<_>, Vec<_>) = nodes.iter().partition(|name| seen.is_on(name));
        let (one_by_one, others): (Vec<_>, Vec<_>) =
            on.into_iter().partition(|name| several && is_control_plane(name));
        let mut changed = Changed::No;
        if !off.is_empty() {
            give(locked, cluster, wanted, off)?;
        }
        if !one_by_one.is_empty() && !alone {
            // Starts dead control planes first: etcd needs them while another one restarts.
            changed = self.start_staying(locked, cluster, going, wait).await?;
        }
        for name in one_by_one {
            if !force {
                self.can_restart(cluster, name).await?;
            }
            self.power_off(cluster, std::slice::from_ref(name)).await?;
            give(locked, cluster, wanted, [name])?;
            let started = if alone {
                self.start_nodes(locked, cluster, std::slice::from_ref(name), wait).await?
            } else {
                self.start_staying(locked, cluster, going, wait).await?
            };
            changed = changed.or(started);
        }
        if !others.is_empty() {
            let names: Vec<_> = others.iter().copied().cloned().collect();
            changed = changed.or(self.power_off(cluster, &names).await?);
            give(locked, cluster, wanted, others)?;
        }
        Ok(changed)
    }
}

/// Saves the new sizes and mounts of nodes that are off.
fn give<'n>(
    locked: &Locked,
    cluster: &mut Cluster,
    wanted: &ClusterSpec,
    nodes: impl IntoIterator<Item = &'n NodeName>,
) -> Result<(), EngineError> {
    for name in nodes {
        let wanted = wanted.nodes.iter().find(|wanted| wanted.name == *name);
        let known = cluster.spec.nodes.iter_mut().find(|known| known.name == *name);
        if let (Some(known), Some(wanted)) = (known, wanted) {
            (known.cpus, known.memory) = (wanted.cpus, wanted.memory);
            known.mounts.clone_from(&wanted.mounts);
        }
    }
    locked.save(cluster)
}
