//! `flotilla recover`

use std::fs::File;
use std::time::Duration;

use flotilla_engine::explain::profile_flag;
use flotilla_engine::quorum::Quorum;
use flotilla_engine::{Cluster, EngineError, Event};
use flotilla_kubeadm::etcd::Source;
use flotilla_linux::poll;
use flotilla_spec::{NodeSpec, WantedPower};
use serde_json::json;

use super::etcd::renewal::{self, Progress};
use super::etcd::{ControlPlane, EtcdError, Status};
use crate::args::RecoverArgs;
use crate::cluster::Cx;
use crate::failure::Failure;

/// From the boot of a control plane to the answer of its etcd.
const BOOT: Duration = Duration::from_secs(30);

pub(crate) fn run(cx: &Cx, args: &RecoverArgs) -> Result<(), Failure> {
    let read = |path: &std::path::PathBuf| {
        let failed = |source| EngineError::Io { action: "read", path: path.clone(), source };
        File::open(path).map_err(failed)
    };
    cx.cluster()?;
    let file = args.from.as_ref().map(read).transpose()?;
    // Held while a person thinks: what they agree to is what is done.
    let _lock = cx.lock(&cx.name, "flotilla recover", args.lock)?;
    let mut cluster = cx.store.get(&cx.name)?;
    if !agreed(cx, args, &cluster)? {
        return Ok(());
    }
    cx.heed_signals()?;
    let there = renewal::power_on(cx, &cluster)?;
    let others = cluster.spec.control_planes().count() > 1;
    let survivors = survivors(cx, &there)?;
    let survivor = survivors.best();
    let name = survivor.node.spec.name.clone();
    let quorum = survivors.status.as_ref().map(Status::quorum);
    let is_missed = |node: &NodeSpec| node.power == WantedPower::Running && node.name != name;
    let seen = Seen {
        quorum,
        progress: renewal::progress(cx, survivor)?,
        from_file: file.is_some(),
        others_are_missed: cluster.spec.control_planes().any(is_missed),
    };
    let done = match seen.course() {
        Course::Refuse(quorum) => {
            return Err(EtcdError::HasMajority { cluster: cx.name.clone(), quorum }.into());
        }
        Course::Nothing => None,
        Course::Finish => {
            renewal::finish(cx, &cluster, survivor, &there)?;
            None
        }
        Course::Renew => {
            let source = file.map_or(Source::Own, Source::File);
            Some(renewal::renew(cx, &mut cluster, survivor, &there, source)?)
        }
    };
    let keys = done.as_ref().map(|snapshot| snapshot.keys);
    let value = json!({"cluster": cx.name.as_ref(), "node": name.as_ref(), "changed": keys.is_some()});
    cx.screen.result(&value, || match keys {
        Some(keys) => format!("the API of {} is back, with {keys} keys", cx.name),
        None => format!("etcd of {} has begun anew already", cx.name),
    });
    if others {
        let text = format!("node {name} is the only member of etcd");
        let flag = profile_flag(&cx.name);
        cx.screen.note(&text, &format!("`flotilla start{flag}` lets the other control planes join it"));
    }
    Ok(())
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

fn agreed(cx: &Cx, args: &RecoverArgs, cluster: &Cluster) -> Result<bool, Failure> {
    let what = match &args.from {
        Some(file) => format!("what {} has", file.display()),
        None => "what one control plane that is left has".to_owned(),
    };
    let names: Vec<_> = cluster.spec.control_planes().map(|node| node.name.to_string()).collect();
    let lines = [
        format!("control planes of {}: {}", cx.name, names.join(", ")),
        "those that are there are turned on; if a majority of them is up, nothing else happens".to_owned(),
        format!("otherwise etcd begins anew with one member, out of {what}; all others leave it"),
        "what that one has not heard of is lost".to_owned(),
    ];
    renewal::agreed(cx, args.yes, &lines)
}

/// The control planes that have data and keys, of which there is at least one.
struct Survivors {
    joined: Vec<ControlPlane>,
    /// None if etcd does not answer in any of them.
    status: Option<Status>,
}

impl Survivors {
    /// The one that knows most of what was agreed on.
    fn best(&self) -> &ControlPlane {
        let agreed = |one: &&ControlPlane| self.status.as_ref().and_then(|status| status.agreed(one));
        self.joined.iter().rev().max_by_key(agreed).expect("there is one")
    }
}

fn survivors(cx: &Cx, there: &[ControlPlane]) -> Result<Survivors, Failure> {
    let joined: Vec<_> = there.iter().filter(|control_plane| control_plane.joined).cloned().collect();
    if joined.is_empty() {
        return Err(EtcdError::NoSurvivor { cluster: cx.name.clone() }.into());
    }
    // All of them, or as many as come.
    let mut seen = None;
    let ask = || {
        let status = Status::ask(cx, &joined).ok();
        let all = status.as_ref().is_some_and(|status| joined.iter().all(|one| status.agreed(one).is_some()));
        seen = status.or(seen.take());
        if all || cx.cancel.is_cancelled() { Ok(()) } else { Err(()) }
    };
    let _ = poll::until(BOOT, ask, |()| false);
    if cx.cancel.is_cancelled() {
        return Err(EngineError::Interrupted.into());
    }
    let survivors = Survivors { joined, status: seen };
    if survivors.status.is_none() {
        // Its data can be read also if it does not run.
        let name = &survivors.best().node.spec.name;
        let text =
            format!("etcd does not answer in any control plane; the data of node {name} is taken as it is");
        cx.screen.reporter().report(Event::Warning { text });
    }
    Ok(survivors)
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
        use flotilla_engine::explain::Explain;
        let quorum = Quorum { total: 1, up: 1 };
        let refused = EtcdError::HasMajority { cluster: "demo".parse().unwrap(), quorum };
        assert_eq!((refused.code().name, refused.code().exit_status), ("GUEST_HAS_MAJORITY", 81));
        assert_eq!(
            refused.to_string(),
            "a majority of etcd's members is up, 1 of 1: there is nothing to recover"
        );
        assert!(refused.hints()[1].starts_with("`flotilla etcd snapshot restore FILE -p demo`"));
    }
}
