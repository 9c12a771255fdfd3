//! What must be settled with the host before nodes are wanted: what they are made from, that their names and ports are
//! free.

use flotilla_bundle::{BundleError, BundleStore, Hold};
use flotilla_core::{Cluster, Code, Event, Explain};
use flotilla_core::{Finding, Prospect, Refusal, Severity};
use flotilla_core::{KubeconfigRefusal, NameTaken};
use flotilla_engine::EngineError;
use flotilla_spec::error::{Requirement, SpecError};
use flotilla_spec::{ClusterFile, ClusterSpec, HostPort, KubernetesVersion, NodeName, NodeSpec};

use super::bundles::{self, of_version, own_version};
use super::{Cx, ranges, this_host};
use flotilla_ops::OpError;

/// Saves a cluster that has new nodes, or old ones with new wishes. Call it with the cluster's lock, and keep what it
/// gives until the nodes are made: their bundles.
pub(crate) fn save(cx: &Cx, cluster: &mut Cluster) -> Result<Vec<Hold>, OpError> {
    ranges::check(cx, cluster, false)?;
    let bundle_store = BundleStore::open(cx.settings().home.clone(), cx.cancel.clone())?;
    check(cx, &bundle_store, cluster)?;
    let known = cluster.allocations.bundles.clone();
    // A node that was asked for is worth a build: there is nothing to ask.
    cluster.allocations.bundles = bundles::of_new_nodes(cx, &bundle_store, &cluster.spec, &known)?;
    let held = bundles::hold(&bundle_store, &cluster.allocations.bundles)?;
    // Nobody takes the names and ports between our look and our note.
    let _alone = cx.store.allocation_lock()?;
    refuse(host_problems(cx, cluster)?, None)?;
    cx.store.save(cluster)?;
    Ok(held)
}

/// Refuses what nodes want and cannot have. Changes nothing.
pub(crate) fn check(cx: &Cx, bundle_store: &BundleStore, cluster: &Cluster) -> Result<(), OpError> {
    let known = &cluster.allocations.bundles;
    let new = cluster.spec.nodes.iter().filter(|node| !known.contains_key(&node.name));
    let mut problems = bundle_problems(bundle_store, &cluster.spec, new)?;
    problems.extend(host_problems(cx, cluster)?);
    refuse(problems, None)
}

/// Why the whole cluster cannot have its version; none if it can.
pub(crate) fn version_problem(
    bundle_store: &BundleStore,
    spec: &ClusterSpec,
) -> Result<Option<SpecError>, OpError> {
    let checked = bundle_store.check(&of_version(&spec.kubernetes_version));
    Ok(refused_by_shelf(checked, None, "kubernetesVersion")?.err())
}

/// Which of these nodes cannot be made from what they name: a version that cannot be built, a bundle that is not there or
/// does not fit the cluster.
pub(crate) fn bundle_problems<'a>(
    bundle_store: &BundleStore,
    spec: &ClusterSpec,
    nodes: impl Iterator<Item = &'a NodeSpec>,
) -> Result<Vec<SpecError>, OpError> {
    let mut problems = Vec::new();
    for node in nodes {
        if let Some(which) = &node.bundle {
            match refused_by_shelf(bundle_store.find(which), Some(&node.name), "bundle")? {
                Ok(bundle) => problems.extend(spec.skew(node, &bundle.manifest.kubernetes.parse()?)),
                Err(problem) => problems.push(problem),
            }
        } else if let Some(version) = own_version(spec, node) {
            let checked = bundle_store.check(&of_version(version));
            problems.extend(refused_by_shelf(checked, Some(&node.name), "kubernetesVersion")?.err());
        }
    }
    Ok(problems)
}

/// Whether there is a bundle of a version, or one can be built.
pub(crate) fn bundle_finding(bundle_store: &BundleStore, version: &KubernetesVersion) -> Finding {
    const CODE: &str = "BUNDLE_NO_SOURCE";
    let (severity, text, cure, exit_status) = match bundle_store.prospect(&of_version(version)) {
        Ok(Prospect::Found) => {
            (Severity::Good, format!("bundle: that of {version} is there"), String::new(), 0)
        }
        Ok(Prospect::Buildable) => {
            (Severity::Good, format!("bundle: that of {version} can be built"), String::new(), 0)
        }
        Err(error) => {
            let (text, cure) =
                (format!("bundle: there is none of {version}: {error}"), error.hints().join("; "));
            (Severity::Fatal, text, cure, error.code().exit_status)
        }
    };
    Finding { code: CODE, exit_status, severity, text, cure }
}

/// What a bundle store has against a requirement is one of many problems; what is wrong with the bundle store itself is a failure.
fn refused_by_shelf<T>(
    answer: Result<T, BundleError>,
    node: Option<&NodeName>,
    key: &'static str,
) -> Result<Result<T, SpecError>, OpError> {
    let error = match answer {
        Ok(value) => return Ok(Ok(value)),
        Err(
            error @ (BundleError::NotFound { .. } | BundleError::Ambiguous { .. } | BundleError::Lock(_)),
        ) => error,
        Err(other) => return Err(other.into()),
    };
    let Code { name, exit_status } = error.code();
    let requirement = Requirement { node: node.cloned(), key, item: None };
    let (why, cure) = (error.to_string(), error.hints().join("; "));
    Ok(Err(SpecError::Unmet { requirement, why, cure, code: (name, exit_status) }))
}

/// What nodes want and others have: machines of these names, these ports of the host; and what they want of the host and
/// it has not.
pub(crate) fn host_problems(cx: &Cx, cluster: &Cluster) -> Result<Vec<SpecError>, OpError> {
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
    let refused = cx.wait(cx.engine().fleet.check(cluster)).map_err(EngineError::from)?;
    let is_known = |requirement: &Requirement| {
        let is_it = |node: &NodeName, port: &HostPort| {
            requirement.node.as_ref() == Some(node) && requirement.item == Some(port.to_string())
        };
        problems
            .iter()
            .any(|known| matches!(known, SpecError::PortTaken { node, port, .. } if is_it(node, port)))
    };
    // A port that another cluster has is in its spec and in its rules: it is told once.
    let new: Vec<_> = refused.into_iter().filter(|refusal| !is_known(&refusal.requirement)).collect();
    problems.extend(new.into_iter().map(|Refusal { requirement, finding }| {
        let code = (finding.code, finding.exit_status);
        SpecError::Unmet { requirement, why: finding.text, cure: finding.cure, code }
    }));
    Ok(problems)
}

/// Why a new cluster cannot have its name: somebody else has it in the person's kubeconfig. That a file cannot be read is
/// no reason.
pub(crate) fn name_problem(cx: &Cx) -> Option<SpecError> {
    let KubeconfigRefusal::Taken(taken) = cx.kubeconfig().refusal(&cx.name)? else { return None };
    let NameTaken { path, what, name } = taken;
    let file = path.display();
    Some(SpecError::Unmet {
        requirement: Requirement { node: None, key: "name", item: None },
        why: format!("the name {name} is taken: {file} has a {what} {name} already"),
        cure: format!(
            "choose another name with -p, rename cluster, user and context {name} in {file}, or set KUBECONFIG to \
             another file"
        ),
        code: ("HOST_KUBECONFIG_TAKEN", 31),
    })
}

/// Tells all that is wrong, each with its place in the file that asked for it.
pub(crate) fn refuse(problems: Vec<SpecError>, file: Option<&ClusterFile>) -> Result<(), OpError> {
    let problems = match file {
        Some(file) => file.all_placed(problems),
        None => problems,
    };
    if problems.is_empty() { Ok(()) } else { Err(EngineError::Spec(problems).into()) }
}

/// Tells what is unusual about a cluster, but can be.
pub(crate) fn warn(cx: &Cx, spec: &ClusterSpec) {
    for warning in spec.warnings(&this_host()) {
        cx.screen.reporter().report(Event::Warning { text: warning.to_string() });
    }
}
