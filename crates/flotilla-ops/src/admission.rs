//! Everything that refuses a cluster: what nodes are made from, ranges, names and ports that others have, what the host
//! lacks. All problems are reported together, each with its place in the file that asked for it.

pub(crate) mod ranges;

use std::collections::BTreeSet;

use flotilla_core::{
    BundleHold, BundlesError, BundlesErrorKind, Cluster, Code, Explain, Finding, KubeconfigRefusal, Prospect,
    Refusal, Severity,
};
use flotilla_engine::EngineError;
use flotilla_engine::converge::Engine;
use flotilla_engine::store::Locked;
use flotilla_spec::error::{Requirement, SpecError};
use flotilla_spec::{ClusterFile, ClusterName, ClusterSpec, HostPort, KubernetesVersion, NodeName, NodeSpec};

use crate::bundles::{self, own_version};
use crate::{Context, OpError};

/// Saves a cluster that has new nodes, or old ones with new requirements. Keep what it gives until the nodes are made:
/// it holds their bundles.
pub(crate) async fn save(
    cx: &Context<'_>,
    engine: &Engine<'_>,
    locked: &Locked,
    cluster: &mut Cluster,
) -> Result<Vec<BundleHold>, OpError> {
    ranges::check(engine, cluster, false).await?;
    check(cx, cluster).await?;
    // A node that was asked for is worth a build: nobody is asked.
    cluster.allocations.bundles = bundles::of_new_nodes(cx, &cluster.spec, &cluster.allocations.bundles)?;
    let held = bundles::hold(cx, &cluster.allocations.bundles)?;
    // Nobody takes the names and ports between our check and our save.
    let _alone = cx.store.allocation_lock()?;
    allocate_ids(cx, cluster).await?;
    refuse(host_problems(cx, cluster).await?, None)?;
    locked.save(cluster)?;
    Ok(held)
}

/// Hands out ids to the nodes with a user namespace that have none. Only for who holds the lock of allocations.
pub(crate) async fn allocate_ids(cx: &Context<'_>, cluster: &mut Cluster) -> Result<(), OpError> {
    let taken = cx.store.taken_ids(cluster.name())?;
    Ok(cx.fleet.allocate_ids(cluster, &taken).await.map_err(EngineError::from)?)
}

/// Refuses what nodes require and cannot have. Changes nothing.
pub(crate) async fn check(cx: &Context<'_>, cluster: &Cluster) -> Result<(), OpError> {
    let known = &cluster.allocations.bundles;
    let new = cluster.spec.nodes.iter().filter(|node| !known.contains_key(&node.name));
    let mut problems = bundle_problems(cx, &cluster.spec, new)?;
    problems.extend(host_problems(cx, cluster).await?);
    refuse(problems, None)
}

/// Why the whole cluster cannot have its version; none if it can.
pub(crate) fn version_problem(cx: &Context<'_>, spec: &ClusterSpec) -> Result<Option<SpecError>, OpError> {
    Ok(unmet(cx.bundles.check(&spec.kubernetes_version), None, "kubernetesVersion")?.err())
}

/// Which of these nodes cannot be made from what they name: a version that cannot be built, a bundle that does not exist
/// or does not fit the cluster.
pub(crate) fn bundle_problems<'a>(
    cx: &Context<'_>,
    spec: &ClusterSpec,
    nodes: impl Iterator<Item = &'a NodeSpec>,
) -> Result<Vec<SpecError>, OpError> {
    let mut problems = Vec::new();
    for node in nodes {
        if let Some(which) = &node.bundle {
            match unmet(cx.bundles.find(which), Some(&node.name), "bundle")? {
                Ok(bundle) => problems.extend(spec.skew(node, &bundle.kubernetes)),
                Err(problem) => problems.push(problem),
            }
        } else if let Some(version) = own_version(spec, node) {
            problems.extend(unmet(cx.bundles.check(version), Some(&node.name), "kubernetesVersion")?.err());
        }
    }
    Ok(problems)
}

/// What the host lacks for a cluster of this version, and what is well.
pub async fn examine(cx: &Context<'_>, version: &KubernetesVersion) -> Vec<Finding> {
    let mut findings = cx.fleet.examine().await;
    findings.push(bundle_finding(cx, version));
    findings
}

/// The findings that make it impossible to go on.
pub fn fatal(findings: Vec<Finding>) -> Vec<Finding> {
    findings.into_iter().filter(|finding| finding.severity == Severity::Fatal).collect()
}

/// Whether there is a bundle of a version, or one can be built.
fn bundle_finding(cx: &Context<'_>, version: &KubernetesVersion) -> Finding {
    const CODE: &str = "BUNDLE_NO_SOURCE";
    let (severity, text, cure, exit_status) = match cx.bundles.prospect(version) {
        Ok(Prospect::Found) => (Severity::Good, format!("bundle: {version} exists"), String::new(), 0),
        Ok(Prospect::Buildable) => {
            (Severity::Good, format!("bundle: {version} can be built"), String::new(), 0)
        }
        Err(error) => {
            let (text, cure) =
                (format!("bundle: {version} does not exist: {error}"), error.hints().join("; "));
            (Severity::Fatal, text, cure, error.code().exit_status)
        }
    };
    Finding { code: CODE, exit_status, severity, text, cure }
}

/// A bundle that does not exist is reported with the other problems of the spec; bundles that cannot be read end the
/// command.
fn unmet<T>(
    answer: Result<T, BundlesError>,
    node: Option<&NodeName>,
    key: &'static str,
) -> Result<Result<T, SpecError>, OpError> {
    let error = match answer {
        Ok(value) => return Ok(Ok(value)),
        Err(error) if error.kind == BundlesErrorKind::Unavailable => error,
        Err(other) => return Err(other.into()),
    };
    let Code { name, exit_status } = error.code();
    let requirement = Requirement { node: node.cloned(), key, item: None };
    let (why, cure) = (error.to_string(), error.hints().join("; "));
    Ok(Err(SpecError::Unmet { requirement, why, cure, code: (name, exit_status) }))
}

/// What nodes want and others have: machines of these names, these ports of the host; and what they want of the host and
/// it has not.
pub(crate) async fn host_problems(cx: &Context<'_>, cluster: &Cluster) -> Result<Vec<SpecError>, OpError> {
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
    let refused = cx.fleet.check(cluster).await.map_err(EngineError::from)?;
    let is_known = |requirement: &Requirement| {
        let is_it = |node: &NodeName, port: &HostPort| {
            requirement.node.as_ref() == Some(node) && requirement.item == Some(port.to_string())
        };
        problems
            .iter()
            .any(|known| matches!(known, SpecError::PortTaken { node, port, .. } if is_it(node, port)))
    };
    // A port that another cluster has is in its spec and in its rules: it is reported once.
    let new: Vec<_> = refused.into_iter().filter(|refusal| !is_known(&refusal.requirement)).collect();
    problems.extend(new.into_iter().map(|Refusal { requirement, finding }| {
        let code = (finding.code, finding.exit_status);
        SpecError::Unmet { requirement, why: finding.text, cure: finding.cure, code }
    }));
    Ok(problems)
}

/// Why a new cluster cannot have its name: somebody else has it in the user's kubeconfig. That a file cannot be read is
/// no reason.
pub(crate) fn name_problem(cx: &Context<'_>, name: &ClusterName) -> Option<SpecError> {
    let KubeconfigRefusal::Taken(taken) = cx.kubeconfig.refusal(name)? else { return None };
    let (file, what) = (taken.path.display(), taken.what);
    Some(SpecError::Unmet {
        requirement: Requirement { node: None, key: "name", item: None },
        why: format!("name {name} is in use: {file} already has a {what} {name}"),
        cure: format!(
            "choose another name with -p, rename cluster, user and context {name} in {file}, or set KUBECONFIG to \
             another file"
        ),
        code: ("HOST_KUBECONFIG_TAKEN", 31),
    })
}

/// Fails with all problems, each with its place in the file that asked for it.
pub(crate) fn refuse(problems: Vec<SpecError>, file: Option<&ClusterFile>) -> Result<(), OpError> {
    let mut problems = match file {
        Some(file) => file.all_placed(problems),
        None => problems,
    };
    // What was typed for all nodes is wrong in each of them.
    let mut seen = BTreeSet::new();
    problems.retain(|problem| seen.insert(problem.to_string()));
    if problems.is_empty() { Ok(()) } else { Err(EngineError::Spec(problems).into()) }
}

/// Reports what is unusual about a cluster, but allowed.
pub(crate) fn warn(cx: &Context<'_>, spec: &ClusterSpec) {
    for warning in spec.warnings(&cx.host) {
        cx.warn(warning.to_string());
    }
}
