//! A cluster that does not exist yet.

use flotilla_core::{Allocations, Cluster};
use flotilla_engine::EngineError;
use flotilla_engine::store::{Locked, Ranges};
use flotilla_spec::error::SpecError;
use flotilla_spec::{ClusterFile, ClusterSpec};

use super::copied::Copied;
use crate::admission::{self, ranges};
use crate::bundles::ClusterBundles;
use crate::{Context, OpError};

/// Refuses what a new cluster requires of the host and cannot have: ranges, names and ports that others have, versions,
/// directories and bundles that do not exist. Reported before anything is built. Changes nothing.
pub(crate) async fn check(
    cx: &Context<'_>,
    spec: &ClusterSpec,
    file: Option<&ClusterFile>,
) -> Result<(), OpError> {
    let used = ranges::in_use(cx, &spec.name).await?;
    let mut problems = spec.network.taken(&used.taken);
    problems.extend(admission::name_problem(cx, &spec.name));
    problems.extend(admission::version_problem(cx, spec)?);
    problems.extend(admission::bundle_problems(cx, spec, spec.nodes.iter())?);
    match with_ranges(used, spec.clone(), String::new())? {
        Ok(mut cluster) => {
            problems.extend(cluster.allocate().err());
            problems.extend(admission::host_problems(cx, &cluster).await?);
        }
        Err(problem) => problems.push(problem),
    }
    admission::refuse(problems, file)
}

/// Chooses what the user left open, once and for all, and saves it.
pub(super) async fn create(
    cx: &Context<'_>,
    locked: &Locked,
    spec: ClusterSpec,
    bundles: &ClusterBundles,
    copied: Copied,
    file: Option<&ClusterFile>,
) -> Result<Cluster, OpError> {
    // Two new clusters must not choose the same ranges: until ours are saved, others wait.
    let _alone = cx.store.allocation_lock()?;
    let mut cluster = allocated(cx, spec, bundles.cluster.clone()).await?;
    admission::allocate_ids(cx, &mut cluster).await?;
    cluster.allocations.bundles.clone_from(&bundles.nodes);
    cluster.allocations.cni = copied.manifest.or_else(|| cx.bootstrapper.pod_network(&cluster));
    cluster.allocations.authorities = copied.authorities;
    // Others may have taken something while the bundle was built.
    let mut problems = admission::host_problems(cx, &cluster).await?;
    problems.extend(admission::name_problem(cx, cluster.name()));
    admission::refuse(problems, file)?;
    locked.save(&cluster)?;
    Ok(cluster)
}

/// A cluster with ranges and addresses, which nobody else knows of yet.
pub(super) async fn allocated(
    cx: &Context<'_>,
    spec: ClusterSpec,
    bundle: String,
) -> Result<Cluster, OpError> {
    let used = ranges::in_use(cx, &spec.name).await?;
    let mut cluster = with_ranges(used, spec, bundle)??;
    cluster.allocate()?;
    Ok(cluster)
}

/// A cluster whose nodes have no addresses yet, or what is not free any more.
fn with_ranges(
    Ranges { taken, unknown }: Ranges,
    spec: ClusterSpec,
    bundle: String,
) -> Result<Result<Cluster, SpecError>, OpError> {
    let others: Vec<_> = taken.into_iter().map(|(range, _)| range).collect();
    let network = &spec.network;
    // One that nobody knows could be chosen a second time.
    if let Some(cluster) = unknown.into_iter().next()
        && (network.subnet.is_none() || network.pod_subnet.is_none())
    {
        return Err(EngineError::RangesUnknown { cluster }.into());
    }
    let none_left = |what: &str| Ok(Err(SpecError::NoFreeRange { what: what.to_owned() }));
    let Some(subnet) = network.subnet.or_else(|| network.choose_subnet(&others)) else {
        return none_left("nodes");
    };
    let Some(pod_subnet) = network.pod_subnet.or_else(|| network.choose_pod_subnet(&others)) else {
        return none_left("pods");
    };
    Ok(Ok(Cluster::new(spec, Allocations::new(subnet, pod_subnet, bundle))))
}
