//! `flotilla recover`

use std::fs::File;
use std::time::Duration;

use flotilla_engine::explain::profile_flag;
use flotilla_engine::quorum::Quorum;
use flotilla_engine::{Cluster, EngineError, Event};
use flotilla_kubeadm::etcd::Source;
use flotilla_linux::poll;
use serde_json::json;

use super::etcd::{ControlPlane, EtcdError, Status, renewal};
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
    let quorum = survivors.status.as_ref().map(Status::quorum);
    let (name, done) = match quorum {
        // A killed command of ours has come that far.
        Some(Quorum { total: 1, up: 1 }) if others => {
            renewal::finish(cx, &cluster, survivors.best(), &there)?;
            (survivors.best().node.spec.name.clone(), None)
        }
        Some(quorum) if quorum.holds() => {
            return Err(EtcdError::HasMajority { cluster: cx.name.clone(), quorum }.into());
        }
        _ => {
            let survivor = survivors.best();
            let source = file.map_or(Source::Own, Source::File);
            let snapshot = renewal::renew(cx, &mut cluster, survivor, &there, source)?;
            (survivor.node.spec.name.clone(), Some(snapshot))
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
