//! The bundles that a cluster's nodes are made from: found, or built. Below it, `flotilla bundle`: one module for each command.

pub mod build;
pub mod clean;
pub mod export;
pub mod import;
pub mod list;
pub mod remove;
pub mod show;
pub mod verify;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::time::Duration;

use flotilla_core::event::size;
use flotilla_core::{BundleHold, Forecast, Origin};
use flotilla_spec::{ClusterSpec, KubernetesVersion, NodeName, NodeSpec};

use crate::{Context, OpError};

/// A build that is over in this time is no reason to ask.
pub const SHORT: Duration = Duration::from_mins(1);

/// What the nodes of a cluster are made from. Nobody removes it while this lives.
#[derive(Debug)]
pub(crate) struct ClusterBundles {
    /// The digest of the cluster's own.
    pub(crate) cluster: String,
    /// The digests of nodes that have another one.
    pub(crate) nodes: BTreeMap<NodeName, String>,
    _held: Vec<BundleHold>,
}

/// Reports what building a cluster's bundles takes if they do not exist. Gives the time.
pub(crate) fn announce(cx: &Context<'_>, spec: &ClusterSpec) -> Result<Duration, OpError> {
    let own = spec.nodes.iter().filter_map(|node| own_version(spec, node));
    announce_versions(cx, own.chain([&spec.kubernetes_version]))
}

fn announce_versions<'a>(
    cx: &Context<'_>,
    versions: impl Iterator<Item = &'a KubernetesVersion>,
) -> Result<Duration, OpError> {
    let mut time = Duration::ZERO;
    for version in versions.collect::<BTreeSet<_>>() {
        if let Some(forecast) = cx.bundles.forecast(version)? {
            time += forecast.time;
            cx.note(told(&forecast));
        }
    }
    Ok(time)
}

fn told(forecast: &Forecast) -> String {
    let Forecast { kubernetes, time, disk } = forecast;
    let time = match time.as_secs() {
        seconds if *time < SHORT => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    };
    let disk = size(*disk);
    format!("no bundle for {kubernetes}: building Kubernetes from source once, about {time}, {disk}")
}

/// What a user should know of a bundle that this flotilla has not built.
fn remark(kubernetes: &impl Display, digest: &str, origin: Origin) -> Option<String> {
    match origin {
        Origin::Own => None,
        Origin::OtherVersion => Some(format!(
            "bundle {digest} for {kubernetes} was built by another version of flotilla; `flotilla bundle build --source \
             build --kubernetes-version {kubernetes}` builds a new one"
        )),
        Origin::Imported => {
            Some(format!("bundle {digest} for {kubernetes} was imported: its sources are not verified"))
        }
    }
}

/// Finds or builds what a cluster's nodes are made from. Reports what others have built, if the cluster is new.
pub(crate) fn ensure(cx: &Context<'_>, spec: &ClusterSpec, is_new: bool) -> Result<ClusterBundles, OpError> {
    let more_follow = spec.nodes.iter().any(|node| own_version(spec, node).is_some());
    let (bundle, origin) = cx.bundles.ensure(&spec.kubernetes_version, more_follow, cx.reporter)?;
    if let Some(text) = remark(&bundle.kubernetes, bundle.short_digest(), origin).filter(|_| is_new) {
        cx.note(text);
    }
    let nodes = of_nodes(cx, spec, &BTreeMap::new())?;
    let mut held = hold(cx, &nodes)?;
    held.push(cx.bundles.hold(&bundle.digest)?);
    Ok(ClusterBundles { cluster: bundle.digest, nodes, _held: held })
}

/// The bundles of nodes that do not have the cluster's, by digest: those of new nodes are found or built, and what that
/// takes is reported. Those that are known stay.
pub(crate) fn of_new_nodes(
    cx: &Context<'_>,
    spec: &ClusterSpec,
    known: &BTreeMap<NodeName, String>,
) -> Result<BTreeMap<NodeName, String>, OpError> {
    let new = spec.nodes.iter().filter(|node| !known.contains_key(&node.name));
    announce_versions(cx, new.filter_map(|node| own_version(spec, node)))?;
    of_nodes(cx, spec, known)
}

fn of_nodes(
    cx: &Context<'_>,
    spec: &ClusterSpec,
    known: &BTreeMap<NodeName, String>,
) -> Result<BTreeMap<NodeName, String>, OpError> {
    let mut bundles = BTreeMap::new();
    for node in &spec.nodes {
        if let Some(digest) = known.get(&node.name) {
            bundles.insert(node.name.clone(), digest.clone());
        } else if let Some(which) = &node.bundle {
            bundles.insert(node.name.clone(), cx.bundles.find(which)?.digest);
        } else if let Some(version) = own_version(spec, node) {
            let (bundle, _) = cx.bundles.ensure(version, false, cx.reporter)?;
            bundles.insert(node.name.clone(), bundle.digest);
        }
    }
    Ok(bundles)
}

/// Keeps bundles of nodes from being removed until the nodes are made.
pub(crate) fn hold(
    cx: &Context<'_>,
    bundles: &BTreeMap<NodeName, String>,
) -> Result<Vec<BundleHold>, OpError> {
    let digests: BTreeSet<_> = bundles.values().collect();
    Ok(digests.into_iter().map(|digest| cx.bundles.hold(digest)).collect::<Result<_, _>>()?)
}

pub(crate) fn own_version<'a>(spec: &ClusterSpec, node: &'a NodeSpec) -> Option<&'a KubernetesVersion> {
    node.kubernetes_version.as_ref().filter(|version| **version != spec.kubernetes_version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forecast_is_told_in_minutes_and_gigabytes() {
        let forecast = |seconds: u64, disk: u64| {
            told(&Forecast { kubernetes: "v1.37.1".into(), time: Duration::from_secs(seconds), disk })
        };
        let start = "no bundle for v1.37.1: building Kubernetes from source once, about";
        assert_eq!(forecast(841, 10_600_000_000), format!("{start} 15 min, 11 GB"));
        assert_eq!(forecast(19, 2_000_000_000), format!("{start} 19 s, 2.0 GB"));
    }
}
