//! The bundles that a cluster's nodes are made from: found, or built with the person's consent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flotilla_bundle::error::size;
use flotilla_bundle::{BundleStore, Hold, Made, Manifest, Request};
use flotilla_core::{Event, Forecast, Origin};
use flotilla_spec::{ClusterSpec, KubernetesVersion, NodeName, NodeSpec};

use super::Cx;
use flotilla_ops::OpError;

/// A build that is over in this time is no reason to ask.
const SHORT: Duration = Duration::from_mins(1);

/// What the nodes of a cluster are made from. Nobody removes it while this lives.
pub(crate) struct Bundles {
    /// The digest of the cluster's own.
    pub(crate) cluster: String,
    /// The digests of nodes that have another one.
    pub(crate) nodes: BTreeMap<NodeName, String>,
    _held: Vec<Hold>,
}

/// Tells what building a cluster's bundles takes if they are not there, and asks where somebody can answer. False if the
/// person does not want it.
pub(crate) fn agreed(
    cx: &Cx,
    bundle_store: &BundleStore,
    spec: &ClusterSpec,
    yes: bool,
) -> Result<bool, OpError> {
    let own = spec.nodes.iter().filter_map(|node| own_version(spec, node));
    let time = announce(cx, bundle_store, own.chain([&spec.kubernetes_version]))?;
    if yes || time < SHORT {
        return Ok(true);
    }
    // Where nobody can answer, a script has asked for the cluster and waits for it.
    let agreed = cx.screen.ask("build it now?").unwrap_or(true);
    if !agreed {
        cx.screen.note(
            "nothing was changed",
            "a bundle that was built elsewhere is imported by: flotilla bundle import FILE",
        );
    }
    Ok(agreed)
}

/// Tells what building these versions takes if they are not there. Gives the time.
fn announce<'a>(
    cx: &Cx,
    bundle_store: &BundleStore,
    versions: impl Iterator<Item = &'a KubernetesVersion>,
) -> Result<Duration, OpError> {
    let mut time = Duration::ZERO;
    for version in versions.collect::<BTreeSet<_>>() {
        if let Some(forecast) = bundle_store.forecast(&of_version(version))? {
            time += forecast.time;
            cx.screen.reporter().report(Event::Note { text: tell(&forecast) });
        }
    }
    Ok(time)
}

fn tell(forecast: &Forecast) -> String {
    let Forecast { kubernetes, time, disk } = forecast;
    let time = match time.as_secs() {
        seconds if *time < SHORT => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    };
    let disk = size(*disk);
    format!("no bundle for {kubernetes}: building Kubernetes from source once, about {time}, {disk}")
}

/// What a person should know of a bundle that this flotilla has not built.
pub(crate) fn remark(made: &Made) -> Option<String> {
    let Manifest { kubernetes, .. } = &made.bundle.manifest;
    let digest = made.bundle.manifest.short_digest();
    match made.origin {
        Origin::Own => None,
        Origin::OtherVersion => Some(format!(
            "bundle {digest} for {kubernetes} was built by another version of flotilla; `flotilla bundle build --source \
             build --kubernetes-version {kubernetes}` builds a new one"
        )),
        Origin::Imported => Some(format!(
            "bundle {digest} for {kubernetes} was imported: this machine cannot tell what it was made from"
        )),
    }
}

/// Finds or builds what a cluster's nodes are made from. Says what others have built, if the cluster is new.
pub(crate) fn take(
    cx: &Cx,
    bundle_store: &BundleStore,
    spec: &ClusterSpec,
    is_new: bool,
) -> Result<Bundles, OpError> {
    let more_follow = spec.nodes.iter().any(|node| own_version(spec, node).is_some());
    let request = Request { keep_cache: more_follow, ..of_version(&spec.kubernetes_version) };
    let made = bundle_store.ensure(&request, cx.screen.reporter())?;
    if let Some(text) = remark(&made).filter(|_| is_new) {
        cx.screen.reporter().report(Event::Note { text });
    }
    let cluster = made.bundle.manifest.digest;
    let nodes = of_nodes(cx, bundle_store, spec, &BTreeMap::new())?;
    let mut held = hold(bundle_store, &nodes)?;
    held.push(bundle_store.hold(&cluster)?);
    Ok(Bundles { cluster, nodes, _held: held })
}

/// The same as [`of_nodes`] for a cluster that exists: tells what has to be built for its new nodes.
pub(crate) fn of_new_nodes(
    cx: &Cx,
    bundle_store: &BundleStore,
    spec: &ClusterSpec,
    known: &BTreeMap<NodeName, String>,
) -> Result<BTreeMap<NodeName, String>, OpError> {
    let new = spec.nodes.iter().filter(|node| !known.contains_key(&node.name));
    announce(cx, bundle_store, new.filter_map(|node| own_version(spec, node)))?;
    of_nodes(cx, bundle_store, spec, known)
}

/// The bundles of nodes that do not have the cluster's, by digest: found, or built. Those that are known stay.
fn of_nodes(
    cx: &Cx,
    bundle_store: &BundleStore,
    spec: &ClusterSpec,
    known: &BTreeMap<NodeName, String>,
) -> Result<BTreeMap<NodeName, String>, OpError> {
    let mut bundles = BTreeMap::new();
    for node in &spec.nodes {
        if let Some(digest) = known.get(&node.name) {
            bundles.insert(node.name.clone(), digest.clone());
        } else if let Some(which) = &node.bundle {
            bundles.insert(node.name.clone(), bundle_store.find(which)?.manifest.digest);
        } else if let Some(version) = own_version(spec, node) {
            let made = bundle_store.ensure(&of_version(version), cx.screen.reporter())?;
            bundles.insert(node.name.clone(), made.bundle.manifest.digest);
        }
    }
    Ok(bundles)
}

/// Keeps bundles of nodes from being removed until the nodes are made.
pub(crate) fn hold(
    bundle_store: &BundleStore,
    bundles: &BTreeMap<NodeName, String>,
) -> Result<Vec<Hold>, OpError> {
    let digests: BTreeSet<_> = bundles.values().collect();
    Ok(digests.into_iter().map(|digest| bundle_store.hold(digest)).collect::<Result<_, _>>()?)
}

pub(crate) fn own_version<'a>(spec: &ClusterSpec, node: &'a NodeSpec) -> Option<&'a KubernetesVersion> {
    node.kubernetes_version.as_ref().filter(|version| **version != spec.kubernetes_version)
}

/// The bundle of a version, whatever else is to be said of it.
pub(crate) fn of_version(version: &KubernetesVersion) -> Request {
    Request { kubernetes: Some(version.to_string()), ..Request::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forecast_is_told_in_minutes_and_gigabytes() {
        let forecast = |seconds: u64, disk: u64| {
            tell(&Forecast { kubernetes: "v1.37.1".into(), time: Duration::from_secs(seconds), disk })
        };
        let start = "no bundle for v1.37.1: building Kubernetes from source once, about";
        assert_eq!(forecast(841, 10_600_000_000), format!("{start} 15 min, 11 GB"));
        assert_eq!(forecast(19, 2_000_000_000), format!("{start} 19 s, 2.0 GB"));
    }
}
