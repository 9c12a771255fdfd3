//! `flotilla recover`

mod disks;
mod survivors;

use flotilla_core::explain::profile_flag;
use flotilla_core::{Cluster, Event, Snapshot, Source};
use flotilla_engine::quorum::Quorum;
use flotilla_ops::OpError;
use flotilla_spec::{NodeSpec, WantedPower};
use serde_json::json;

use super::etcd::renewal::{self, Kept, Progress};
use super::etcd::{ControlPlane, EtcdError, Status, source};
use crate::args::RecoverArgs;
use crate::cluster::Cx;

use disks::Disks;
use survivors::Survivors;

pub(crate) fn run(cx: &Cx, args: &RecoverArgs) -> Result<(), OpError> {
    cx.cluster()?;
    let file = args.from.as_ref().map(|path| source::open(cx, path, args.force)).transpose()?;
    // Held while a user thinks: what they agree to is what is done.
    let _lock = cx.lock(&cx.name, "flotilla recover", args.lock)?;
    let mut cluster = cx.store.get(&cx.name)?;
    if let (Some(path), Some(file)) = (&args.from, &file) {
        source::require_own(cx, &cluster, (path, file), args.force)?;
    }
    if !agreed(cx, args, &cluster)? {
        return Ok(());
    }
    cx.handle_signals()?;
    let there = renewal::power_on(cx, &cluster)?;
    let joined: Vec<_> = there.iter().filter(|control_plane| control_plane.joined).cloned().collect();
    if joined.is_empty() {
        return Err(EtcdError::NoSurvivor { cluster: cx.name.clone() }.into());
    }
    let mut survivors = Survivors::ask(cx, &cluster, joined);
    if !args.force && !survivors.have_quorum() {
        // At once: it is a start that they have to be waited for with.
        refuse_majority_with_data(cx, &cluster, &survivors)?;
    }
    survivors.wait(cx, &cluster)?;
    let seen = seen(cx, &cluster, &survivors, file.is_some())?;
    let (name, done, kept) = match seen.course() {
        Course::Refuse(quorum) => {
            return Err(EtcdError::HasMajority { cluster: cx.name.clone(), quorum }.into());
        }
        Course::Nothing => (survivors.best().node.spec.name.clone(), None, Kept::find(cx, &there)),
        Course::Finish => {
            let survivor = survivors.best();
            (survivor.node.spec.name.clone(), None, renewal::finish(cx, &cluster, survivor, &there)?)
        }
        Course::Renew => {
            if !args.force {
                refuse_majority_with_data(cx, &cluster, &survivors)?;
            }
            survivors.examine_silent(cx);
            let survivor = survivors.best();
            let source = file.map_or(Source::Own, Source::File);
            let (snapshot, kept) = renewal::renew(cx, &mut cluster, survivor, &there, source)?;
            if args.from.is_some() {
                warn_of_newer_data(cx, &survivors, &snapshot, &kept);
            }
            (survivor.node.spec.name.clone(), Some(snapshot.keys), kept)
        }
    };
    let value = json!({
        "cluster": cx.name.as_ref(),
        "node": name.as_ref(),
        "changed": done.is_some(),
        "copies": kept.to_json(),
    });
    cx.screen.result(&value, || match done {
        Some(keys) => format!("the API of {} is back, with {keys} keys", cx.name),
        None => format!("etcd of {} was already recreated", cx.name),
    });
    kept.tell(cx);
    if cluster.spec.control_planes().count() > 1 {
        let text = format!("node {name} is the only member of etcd");
        let flag = profile_flag(&cx.name);
        cx.screen.note(&text, &format!("`flotilla start{flag}` lets the other control planes join it"));
    }
    Ok(())
}

fn seen(cx: &Cx, cluster: &Cluster, survivors: &Survivors, from_file: bool) -> Result<Seen, OpError> {
    let survivor = survivors.best();
    let name = &survivor.node.spec.name;
    let is_missed = |node: &NodeSpec| node.power == WantedPower::Running && node.name != *name;
    Ok(Seen {
        quorum: survivors.view.as_ref().map(Status::quorum),
        progress: renewal::progress(cx, survivor)?,
        from_file,
        others_are_missed: cluster.spec.control_planes().any(is_missed),
    })
}

/// Members that are only slow or stopped come back with what they have: then nothing is to be recovered. A recovery that has
/// begun goes on: the others have set their data aside for it.
fn refuse_majority_with_data(cx: &Cx, cluster: &Cluster, survivors: &Survivors) -> Result<(), OpError> {
    let disks = Disks::look(cx, cluster, survivors.view.as_ref())?;
    if !disks.are_majority() || renewal::progress(cx, survivors.best())? == Progress::Begun {
        return Ok(());
    }
    let Disks { with_data, total } = disks;
    Err(EtcdError::HasData { cluster: cx.name.clone(), with_data, total }.into())
}

/// A user who names a snapshot gets it, and has to know of what is newer.
fn warn_of_newer_data(cx: &Cx, survivors: &Survivors, snapshot: &Snapshot, kept: &Kept) {
    let Some((newer, revision)) = survivors.newer_than(snapshot.revision) else { return };
    let name = &newer.node.spec.name;
    let place = kept.of(name).map(|place| format!(", which is kept in {place}")).unwrap_or_default();
    let text = format!(
        "node {name} had newer data (revision {revision}) than the snapshot (revision {}){place}",
        snapshot.revision
    );
    cx.screen.reporter().report(Event::Warning { text });
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
    Renew,
    /// A killed command of ours has come that far.
    Finish,
    /// The same command again.
    Nothing,
    Refuse(Quorum),
}

impl Seen {
    fn course(self) -> Course {
        let Some(quorum) = self.quorum.filter(|quorum| quorum.holds()) else { return Course::Renew };
        let is_alone = quorum.total == 1;
        match self.progress {
            // Who names a file wants what is in it, and the other one was never told of as done.
            Progress::Begun if is_alone && self.from_file => Course::Renew,
            Progress::Begun if is_alone => Course::Finish,
            Progress::Finished if is_alone && self.others_are_missed && !self.from_file => Course::Nothing,
            _ => Course::Refuse(quorum),
        }
    }
}

fn agreed(cx: &Cx, args: &RecoverArgs, cluster: &Cluster) -> Result<bool, OpError> {
    let what = match &args.from {
        Some(file) => file.display().to_string(),
        None => "the newest data of a control plane".to_owned(),
    };
    let names: Vec<_> = cluster.spec.control_planes().map(|node| node.name.to_string()).collect();
    let guard = if args.force { "" } else { " or have their data" };
    let lines = [
        format!("control planes of {}: {}", cx.name, names.join(", ")),
        format!("starts those that exist; if a majority of them answer{guard}, nothing else is changed"),
        format!("otherwise recreates etcd with one member from {what} and removes the others from it"),
        "writes that this member has not received are lost; old data is kept on the nodes' disks".to_owned(),
    ];
    renewal::agreed(cx, args.yes, &lines)
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
    fn without_a_majority_etcd_begins_anew_whatever_was_before() {
        for quorum in [None, Some(Quorum { total: 3, up: 1 }), Some(Quorum { total: 2, up: 1 })] {
            for progress in [Progress::None, Progress::Begun, Progress::Finished] {
                assert_eq!(
                    course(quorum, progress),
                    [Course::Renew, Course::Renew],
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
        assert_eq!(course(ALONE, Progress::Begun), [Course::Finish, Course::Renew]);
        let [again, with_file] = course(ALONE, Progress::Finished);
        assert_eq!(again, Course::Nothing);
        assert!(matches!(with_file, Course::Refuse(_)), "the file would be ignored");
        // Others have joined in the meantime.
        let joined = Some(Quorum { total: 3, up: 3 });
        assert!(matches!(course(joined, Progress::Begun), [Course::Refuse(_), Course::Refuse(_)]));
    }

    #[test]
    fn who_is_refused_learns_what_helps_instead() {
        use flotilla_core::explain::Explain;
        let quorum = Quorum { total: 1, up: 1 };
        let cluster = || "demo".parse().unwrap();
        let refused = EtcdError::HasMajority { cluster: cluster(), quorum };
        assert_eq!((refused.code().name, refused.code().exit_status), ("GUEST_HAS_MAJORITY", 81));
        assert_eq!(refused.to_string(), "etcd has quorum (1 of 1 members are up): nothing to recover");
        assert!(refused.hints()[1].ends_with("`flotilla etcd snapshot restore FILE -p demo`"));
        let with_data = vec!["demo".to_owned(), "m02".to_owned()];
        let refused = EtcdError::HasData { cluster: cluster(), with_data, total: 3 };
        assert_eq!((refused.code().name, refused.code().exit_status), ("GUEST_HAS_DATA", 81));
        assert_eq!(refused.to_string(), "2 of 3 control planes of cluster demo have their data: demo, m02");
        assert!(refused.hints()[0].starts_with("`flotilla start -p demo`"));
        assert!(refused.hints().last().unwrap().starts_with("--force"));
    }
}
