//! Starts some nodes and leaves the others unchanged.

use flotilla_spec::NodeName;

use super::remove::ANSWER;
use super::work::Work;
use super::{Engine, Wait, can_start, note_founded, require_known};
use crate::error::EngineError;
use crate::plan::{self, Observed};
use crate::store::Locked;
use flotilla_core::cluster::Cluster;
use flotilla_core::{Changed, KubernetesState};

impl Engine<'_> {
    /// Starts some nodes. Others stay unchanged: off, dead or disconnected.
    pub async fn start_nodes(
        &self,
        locked: &Locked,
        cluster: &Cluster,
        nodes: &[NodeName],
        wait: &Wait,
    ) -> Result<Changed, EngineError> {
        let machines = self.machines(cluster).await?;
        let observed = self.observe_with(cluster, &machines).await?;
        note_founded(locked, cluster, &observed)?;
        can_start(cluster, &observed)?;
        require_known(cluster, &observed, nodes, "start")?;
        can_start_nodes(cluster, &observed, nodes)?;
        let plan = plan::start_nodes(cluster, &observed, nodes, &wait.conditions);
        let work =
            Work::on(cluster, machines).knowing(&observed).within(wait.limit).saving(locked).only(nodes);
        self.do_start(&plan, &work, &wait.conditions).await
    }

    /// Refuses to start some nodes if that needs other changes: unpausing the cluster, or starting control planes
    /// that are off.
    pub async fn can_start_nodes(&self, cluster: &Cluster, nodes: &[NodeName]) -> Result<(), EngineError> {
        let observed = self.observe(cluster).await?;
        can_start(cluster, &observed)?;
        require_known(cluster, &observed, nodes, "start")?;
        can_start_nodes(cluster, &observed, nodes)
    }

    /// Refuses if the API does not answer within the time limit.
    pub async fn require_api(&self, cluster: &Cluster) -> Result<(), EngineError> {
        let machines = self.machines(cluster).await?;
        let observed = self.observe_with(cluster, &machines).await?;
        can_start(cluster, &observed)?;
        can_start_nodes(cluster, &observed, &[])?;
        if self.answers(cluster, &machines, &observed, ANSWER).await? {
            return Ok(());
        }
        Err(EngineError::ApiSilent { cluster: cluster.name().clone(), force: None })
    }
}

fn can_start_nodes(cluster: &Cluster, observed: &Observed, nodes: &[NodeName]) -> Result<(), EngineError> {
    match observed.kubernetes {
        KubernetesState::Paused => Err(EngineError::Paused { cluster: cluster.name().clone(), force: None }),
        KubernetesState::Incomplete | KubernetesState::Complete => Ok(()),
        KubernetesState::Unreachable => {
            // All control planes bootstrap a new cluster together.
            let is_new = observed.initial_members.is_empty();
            let all = cluster.spec.control_planes().map(|node| &node.name);
            let members = all.filter(|name| is_new || observed.initial_members.contains(*name));
            let comes = |name: &&NodeName| {
                observed.is_on(name) || observed.unknown(name).is_some() || nodes.contains(name)
            };
            let (coming, down): (Vec<_>, Vec<_>) = members.partition(comes);
            let enough = if is_new { down.is_empty() } else { coming.len() > down.len() };
            if enough {
                return Ok(());
            }
            if coming.iter().all(|name| !observed.is_on(name)) {
                return Err(EngineError::Stopped(cluster.name().clone()));
            }
            let down = down.into_iter().cloned().collect();
            Err(EngineError::NoQuorum { cluster: cluster.name().clone(), down })
        }
    }
}
