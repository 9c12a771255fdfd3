//! Making nodes run, and finishing what killed commands left.

use flotilla_core::explain::{Explain, INTERRUPTED, about};
use flotilla_core::{Changed, Cluster};
use flotilla_engine::converge::{Engine, Wait};
use flotilla_engine::store::Locked;
use flotilla_spec::NodeName;

use crate::OpError;

/// Makes everything run, and finishes what killed commands left: afterwards no node is to be added or deleted any more.
pub async fn start(
    engine: &Engine<'_>,
    locked: &Locked,
    cluster: &mut Cluster,
    wait: &Wait,
) -> Result<Changed, OpError> {
    let changed = engine.start(locked, cluster, wait).await?;
    if !cluster.allocations.adding.is_empty() || !cluster.allocations.founded {
        cluster.allocations.adding.clear();
        cluster.allocations.founded = true;
        locked.save(cluster)?;
    }
    let changed = changed.or(finish_relabelling(engine, locked, cluster).await?);
    Ok(changed.or(finish_removals(engine, locked, cluster).await?))
}

/// Gives Node objects the labels and taints of the saved spec, if a killed command may have left others there.
async fn finish_relabelling(
    engine: &Engine<'_>,
    locked: &Locked,
    cluster: &mut Cluster,
) -> Result<Changed, OpError> {
    if cluster.allocations.relabelling.is_empty() {
        return Ok(Changed::No);
    }
    let changed = engine.update_labels(cluster, &cluster.spec).await?;
    cluster.allocations.relabelling.clear();
    locked.save(cluster)?;
    Ok(changed)
}

/// Makes some nodes run and leaves the others alone.
pub async fn start_nodes(
    engine: &Engine<'_>,
    locked: &Locked,
    cluster: &mut Cluster,
    nodes: &[NodeName],
    wait: &Wait,
) -> Result<Changed, OpError> {
    let changed = engine.start_nodes(locked, cluster, nodes, wait).await?;
    cluster.allocations.adding.retain(|node| !nodes.contains(node));
    locked.save(cluster)?;
    Ok(changed)
}

/// Finishes the removal of nodes that were deleted before. The cluster runs also where that fails.
pub async fn finish_removals(
    engine: &Engine<'_>,
    locked: &Locked,
    cluster: &mut Cluster,
) -> Result<Changed, OpError> {
    match engine.finish_removals(locked, cluster).await {
        Err(error) if error.code().name != INTERRUPTED => {
            let text = format!("cannot finish deleting nodes: {error}; the next `flotilla start` retries");
            engine.warn(about(cluster.name(), &text));
            Ok(Changed::No)
        }
        finished => Ok(finished?),
    }
}
