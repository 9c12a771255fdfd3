//! What must be settled with the host before nodes are wanted: what they are made from, that their names and ports are
//! free.

use std::collections::BTreeMap;

use flotilla_bundle::{Bundle, Request, Shelf};
use flotilla_engine::{Cluster, EngineError, Event};
use flotilla_spec::error::SpecError;
use flotilla_spec::{ClusterFile, ClusterSpec, KubernetesVersion, NodeName, NodeSpec};

use super::{Cx, fatal, this_host};
use crate::failure::Failure;

/// Saves a cluster that has new nodes, or old ones with new wishes. Call it with the cluster's lock.
pub(crate) fn save(cx: &Cx, cluster: &mut Cluster) -> Result<(), Failure> {
    let shelf = Shelf::open(cx.settings().home.clone(), cx.cancel.clone())?;
    cluster.handed_out.bundles = own_bundles(cx, &shelf, &cluster.spec, &cluster.handed_out.bundles, None)?;
    // Nobody takes the names and ports between our look and our note.
    let _alone = cx.store.hand_out_alone()?;
    check_others(cx, cluster, None)?;
    Ok(cx.store.save(cluster)?)
}

/// The bundles of nodes that do not have the cluster's, by digest: found, or built. Those that are known stay.
pub(crate) fn own_bundles(
    cx: &Cx,
    shelf: &Shelf,
    spec: &ClusterSpec,
    known: &BTreeMap<NodeName, String>,
    file: Option<&ClusterFile>,
) -> Result<BTreeMap<NodeName, String>, Failure> {
    let mut bundles = BTreeMap::new();
    for node in &spec.nodes {
        if let Some(digest) = known.get(&node.name) {
            bundles.insert(node.name.clone(), digest.clone());
        } else if let Some(bundle) = bundle_of(cx, shelf, spec, node, file)? {
            bundles.insert(node.name.clone(), bundle.manifest.digest);
        }
    }
    Ok(bundles)
}

/// That the bundles that nodes name are there, and fit the cluster.
pub(crate) fn check_named_bundles(
    shelf: &Shelf,
    spec: &ClusterSpec,
    file: Option<&ClusterFile>,
) -> Result<(), Failure> {
    for node in &spec.nodes {
        named_bundle(shelf, spec, node, file)?;
    }
    Ok(())
}

fn named_bundle(
    shelf: &Shelf,
    spec: &ClusterSpec,
    node: &NodeSpec,
    file: Option<&ClusterFile>,
) -> Result<Option<Bundle>, Failure> {
    let Some(which) = &node.bundle else { return Ok(None) };
    let bundle = shelf.find(which)?;
    let kubelet: KubernetesVersion = bundle.manifest.kubernetes.parse()?;
    match spec.skew(node, &kubelet) {
        Some(problem) => Err(placed(problem, file).into()),
        None => Ok(Some(bundle)),
    }
}

fn bundle_of(
    cx: &Cx,
    shelf: &Shelf,
    spec: &ClusterSpec,
    node: &NodeSpec,
    file: Option<&ClusterFile>,
) -> Result<Option<Bundle>, Failure> {
    if node.bundle.is_some() {
        return named_bundle(shelf, spec, node, file);
    }
    let version = node.kubernetes_version.as_ref().filter(|version| **version != spec.kubernetes_version);
    let Some(version) = version else { return Ok(None) };
    let request = Request { kubernetes: Some(version.to_string()), ..Request::default() };
    Ok(Some(shelf.ensure(&request, cx.screen.reporter())?.bundle))
}

/// With its place in the file that asked for it.
pub(crate) fn placed(problem: SpecError, file: Option<&ClusterFile>) -> SpecError {
    match file {
        Some(file) => file.placed(problem),
        None => problem,
    }
}

/// That no other cluster has a machine of these names or these ports of the host, and that the host has what nodes want
/// of it.
pub(crate) fn check_others(cx: &Cx, cluster: &Cluster, file: Option<&ClusterFile>) -> Result<(), Failure> {
    let mut problems = Vec::new();
    for other in cx.store.others(cluster.name())? {
        for node in &cluster.spec.nodes {
            if other.spec.nodes.iter().any(|theirs| theirs.name == node.name) {
                let (name, cluster) = (node.name.clone(), other.name().clone());
                problems.push(SpecError::NodeElsewhere { name, cluster });
            }
            let theirs: Vec<_> = other.spec.nodes.iter().flat_map(|node| &node.ports).collect();
            let taken = node.ports.iter().filter(|port| theirs.iter().any(|theirs| port.collides(theirs)));
            let by = format!("cluster {}", other.name());
            problems.extend(taken.map(|port| SpecError::PortTaken {
                node: node.name.clone(),
                port: *port,
                by: by.clone(),
            }));
        }
    }
    if !problems.is_empty() {
        let problems = problems.into_iter().map(|problem| placed(problem, file)).collect();
        return Err(EngineError::Spec(problems).into());
    }
    let findings = cx.wait(cx.engine().driver.examine_for(cluster)).map_err(EngineError::from)?;
    let fatal = fatal(findings);
    if fatal.is_empty() { Ok(()) } else { Err(EngineError::Host(fatal).into()) }
}

/// Tells what is unusual about a cluster, but can be.
pub(crate) fn warn(cx: &Cx, spec: &ClusterSpec) {
    for warning in spec.warnings(&this_host()) {
        cx.screen.reporter().report(Event::Warning { text: warning.to_string() });
    }
}
