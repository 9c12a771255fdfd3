//! etcd as the rest of flotilla asks for it.

use std::sync::Arc;

use async_trait::async_trait;
use flotilla_core::cluster::{Cluster, Node};
use flotilla_core::{
    BootstrapError, Content, Etcd, Machine, MemberStatus, Snapshot, SnapshotError, SnapshotFile,
    SnapshotOrigin, Source, Writer,
};

use super::{copies, file, restore, snapshot};
use crate::Kubeadm;

#[async_trait]
impl Etcd for Kubeadm {
    async fn member_status(
        &self,
        _: &Cluster,
        via: &dyn Machine,
    ) -> Result<Vec<MemberStatus>, BootstrapError> {
        super::status(via).await
    }

    async fn has_data(&self, node: &Node, machine: &dyn Machine) -> Result<Option<bool>, BootstrapError> {
        copies::has_data(node, machine).await
    }

    async fn data_id(&self, machine: &dyn Machine) -> Result<String, BootstrapError> {
        copies::data_id(machine).await
    }

    async fn copies(&self, machine: &dyn Machine) -> Result<Vec<String>, BootstrapError> {
        copies::copies(machine).await
    }

    async fn stop_and_examine(&self, machine: &dyn Machine) -> Result<Snapshot, BootstrapError> {
        restore::stop_and_examine(machine).await
    }

    async fn save_snapshot(&self, via: &dyn Machine, target: Writer) -> Result<Snapshot, BootstrapError> {
        snapshot::save_snapshot(via, target).await
    }

    fn check_snapshot(&self, content: Box<dyn Content>) -> Result<SnapshotFile, SnapshotError> {
        file::check(content)
    }

    async fn snapshot_origin(
        &self,
        snapshot: &SnapshotFile,
        machine: &dyn Machine,
    ) -> Result<Option<SnapshotOrigin>, BootstrapError> {
        let authority = file::authority(machine).await?;
        Ok(authority.map(|authority| file::origin(snapshot, &authority)))
    }

    async fn restore(
        &self,
        cluster: &Cluster,
        node: &Node,
        machine: &dyn Machine,
        others: &[Arc<dyn Machine>],
        source: Source,
    ) -> Result<Snapshot, BootstrapError> {
        let cluster = &self.reached(cluster, machine).await?;
        restore::restore(cluster, node, machine, others, source, &self.cancelled).await
    }

    async fn finish_restore(
        &self,
        cluster: &Cluster,
        machine: &dyn Machine,
        others: &[Arc<dyn Machine>],
    ) -> Result<(), BootstrapError> {
        let cluster = &self.reached(cluster, machine).await?;
        restore::finish(cluster, machine, others, &self.cancelled).await
    }
}
