//! `flotilla recover`: rebuilds etcd after a permanent loss of its quorum.

mod disks;
mod survivors;

use std::path::PathBuf;

use flotilla_core::{Changed, Cluster, Snapshot, SnapshotFile, Source};
use flotilla_engine::EngineError;
use flotilla_engine::converge::Engine;
use flotilla_engine::quorum::Quorum;
use flotilla_engine::store::{Locked, WhenBusy};
use flotilla_spec::{ClusterName, NodeName, NodeSpec, WantedPower};
use serde::{Deserialize, Serialize};

use crate::etcd::recovery::{self, Progress};
use crate::etcd::status::Members;
use crate::etcd::{DataCopy, EtcdError, source};
use crate::{Context, OpError};

use disks::Disks;
use survivors::Survivors;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub cluster: ClusterName,
    /// A snapshot to recover from, instead of what a control plane has.
    pub from: Option<PathBuf>,
    /// Recovers also if a majority has its data, and from a snapshot without a checksum or of another cluster.
    pub force: bool,
    pub busy: WhenBusy,
}

/// A recovery that may begin. The cluster is locked while a person thinks: what they agree to is what is done.
#[derive(Debug)]
pub struct Prepared {
    locked: Locked,
    cluster: Cluster,
    file: Option<SnapshotFile>,
    request: Request,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recovered {
    pub cluster: ClusterName,
    /// The member that etcd was recreated with.
    pub node: NodeName,
    /// No if an earlier command had recreated etcd.
    pub changed: Changed,
    /// How many keys the API holds, if etcd was recreated now.
    pub keys: Option<u64>,
    /// Where the data is kept that etcd had before.
    pub copies: Vec<DataCopy>,
    /// The cluster has other control planes, which are no members any more.
    pub has_others: bool,
}

/// Checks the snapshot, if one is named. Nothing is changed.
pub async fn prepare(cx: &Context<'_>, request: Request) -> Result<Prepared, OpError> {
    cx.require_root().await?;
    let peeked = cx.store.peek_existing(&request.cluster)?;
    let file = request.from.as_ref().map(|path| source::open(cx, path, request.force)).transpose()?;
    let locked = cx.lock(&request.cluster, "flotilla recover", request.busy)?;
    let cluster = locked.refresh_existing(peeked)?;
    if let (Some(path), Some(file)) = (&request.from, &file) {
        source::require_own(&cx.engine(&request.cluster), &cluster, (path, file), request.force).await?;
    }
    Ok(Prepared { locked, cluster, file, request })
}

impl Prepared {
    pub fn control_planes(&self) -> Vec<NodeName> {
        self.cluster.spec.control_planes().map(|node| node.name.clone()).collect()
    }

    /// Starts the control planes that exist. Goes on only if a majority of them neither answer nor, unless forced, have
    /// their data.
    pub async fn run(self, cx: &Context<'_>) -> Result<Recovered, OpError> {
        let Self { locked, mut cluster, file, request } = self;
        let engine = cx.engine(&request.cluster);
        let there = recovery::power_on(&engine, &cluster).await?;
        let joined: Vec<_> = there.iter().filter(|control_plane| control_plane.joined).cloned().collect();
        if joined.is_empty() {
            return Err(EtcdError::NoSurvivor { cluster: request.cluster }.into());
        }
        let mut survivors = Survivors::ask(cx, &cluster, joined).await;
        if !request.force && !survivors.have_quorum() {
            // At once: it is a start that they have to be waited for with.
            refuse_majority_with_data(&engine, &cluster, &survivors).await?;
        }
        survivors.wait(cx, &cluster).await?;
        let (keys, copies) = match seen(&engine, &cluster, &survivors, file.is_some()).await?.course() {
            Course::Refuse(quorum) => {
                return Err(EtcdError::HasQuorum { cluster: request.cluster, quorum }.into());
            }
            Course::Nothing => (None, recovery::copies(&engine, &there).await),
            Course::Finish => {
                (None, recovery::finish(&engine, &locked, &cluster, survivors.best(), &there).await?)
            }
            Course::Recover => {
                if !request.force {
                    refuse_majority_with_data(&engine, &cluster, &survivors).await?;
                }
                survivors.examine_silent(cx).await;
                let source = file.map_or(Source::Own, Source::File);
                let survivor = survivors.best();
                let recovered =
                    recovery::recover(&engine, &locked, &mut cluster, survivor, &there, source).await;
                let (snapshot, copies) = recovered?;
                if request.from.is_some() {
                    warn_of_newer_data(cx, &survivors, &snapshot, &copies);
                }
                (Some(snapshot.keys), copies)
            }
        };
        Ok(Recovered {
            node: survivors.best().node.spec.name.clone(),
            changed: keys.is_some().into(),
            keys,
            copies,
            has_others: cluster.spec.control_planes().count() > 1,
            cluster: request.cluster,
        })
    }
}

async fn seen(
    engine: &Engine<'_>,
    cluster: &Cluster,
    survivors: &Survivors,
    from_file: bool,
) -> Result<Seen, EngineError> {
    let survivor = survivors.best();
    let name = &survivor.node.spec.name;
    let is_missed = |node: &NodeSpec| node.power == WantedPower::Running && node.name != *name;
    Ok(Seen {
        quorum: survivors.view.as_ref().map(Members::quorum),
        progress: recovery::progress(engine, cluster, survivor).await?,
        from_file,
        others_are_missed: cluster.spec.control_planes().any(is_missed),
    })
}

/// Members that are only slow or stopped come back with what they have: then nothing is to be recovered. A recovery that has
/// begun goes on: the others have set their data aside for it.
async fn refuse_majority_with_data(
    engine: &Engine<'_>,
    cluster: &Cluster,
    survivors: &Survivors,
) -> Result<(), OpError> {
    let disks = Disks::look(engine, cluster, survivors.view.as_ref()).await?;
    if !disks.are_majority()
        || recovery::progress(engine, cluster, survivors.best()).await? == Progress::Begun
    {
        return Ok(());
    }
    let Disks { with_data, total } = disks;
    Err(EtcdError::HasData { cluster: cluster.name().clone(), with_data, total }.into())
}

/// A person who names a snapshot gets it, and has to know of what is newer.
fn warn_of_newer_data(cx: &Context<'_>, survivors: &Survivors, snapshot: &Snapshot, copies: &[DataCopy]) {
    let Some((newer, revision)) = survivors.newer_than(snapshot.revision) else { return };
    let name = &newer.node.spec.name;
    let newest = copies.iter().rfind(|copy| copy.node == *name);
    let place = newest.map(|copy| format!(", which is kept in {copy}")).unwrap_or_default();
    cx.warn(format!(
        "node {name} had newer data (revision {revision}) than the snapshot (revision {}){place}",
        snapshot.revision
    ));
}

/// What decides on what is to be done.
#[derive(Clone, Copy)]
struct Seen {
    /// None if etcd does not answer.
    quorum: Option<Quorum>,
    /// Of the survivor.
    progress: Progress,
    from_file: bool,
    /// Others are to run beside the survivor: a cluster that is well has them as members.
    others_are_missed: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Course {
    Recover,
    /// A killed command of ours has come that far.
    Finish,
    /// The same command again.
    Nothing,
    Refuse(Quorum),
}

impl Seen {
    fn course(self) -> Course {
        let Some(quorum) = self.quorum.filter(|quorum| quorum.holds()) else { return Course::Recover };
        let is_alone = quorum.total == 1;
        match self.progress {
            // A person who names a file wants what is in it, and the other recovery was never reported as done.
            Progress::Begun if is_alone && self.from_file => Course::Recover,
            Progress::Begun if is_alone => Course::Finish,
            Progress::Finished if is_alone && self.others_are_missed && !self.from_file => Course::Nothing,
            _ => Course::Refuse(quorum),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Option<Quorum> = Some(Quorum { total: 1, up: 1 });

    fn course(quorum: Option<Quorum>, progress: Progress) -> [Course; 2] {
        let seen = Seen { quorum, progress, from_file: false, others_are_missed: true };
        [seen.course(), Seen { from_file: true, ..seen }.course()]
    }

    #[test]
    fn without_a_majority_etcd_is_recreated_whatever_was_before() {
        for quorum in [None, Some(Quorum { total: 3, up: 1 }), Some(Quorum { total: 2, up: 1 })] {
            for progress in [Progress::None, Progress::Begun, Progress::Finished] {
                assert_eq!(
                    course(quorum, progress),
                    [Course::Recover, Course::Recover],
                    "{quorum:?} {progress:?}"
                );
            }
        }
    }

    #[test]
    fn a_cluster_that_is_well_is_refused_also_if_its_other_control_planes_were_stopped() {
        for quorum in [Quorum { total: 1, up: 1 }, Quorum { total: 3, up: 2 }] {
            let refused = || Course::Refuse(quorum);
            assert_eq!(course(Some(quorum), Progress::None), [refused(), refused()]);
        }
        let seen =
            Seen { quorum: ALONE, progress: Progress::Finished, from_file: false, others_are_missed: false };
        assert!(matches!(seen.course(), Course::Refuse(_)), "it was recovered long ago");
    }

    #[test]
    fn a_killed_recovery_is_finished_or_done_again_from_the_file_that_is_named() {
        assert_eq!(course(ALONE, Progress::Begun), [Course::Finish, Course::Recover]);
        let [again, with_file] = course(ALONE, Progress::Finished);
        assert_eq!(again, Course::Nothing);
        assert!(matches!(with_file, Course::Refuse(_)), "the file would be ignored");
        // Others have joined in the meantime.
        let joined = Some(Quorum { total: 3, up: 3 });
        assert!(matches!(course(joined, Progress::Begun), [Course::Refuse(_), Course::Refuse(_)]));
    }
}
