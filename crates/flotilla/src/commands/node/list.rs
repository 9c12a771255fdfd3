//! `flotilla node list`

use flotilla_bundle::Shelf;
use flotilla_engine::Cluster;
use flotilla_engine::port::Power;
use flotilla_spec::{NodeSpec, Role};
use serde::Serialize;

use crate::args::{NodeListArgs, NodeListOutput};
use crate::cluster::Cx;
use crate::failure::Failure;
use crate::screen::{fill_in, table};

/// A node, with the names that templates use.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Row {
    name: String,
    role: &'static str,
    status: &'static str,
    #[serde(rename = "IP")]
    ip: String,
    version: String,
    #[serde(rename = "CPUs")]
    cpus: String,
    memory: String,
    #[serde(rename = "PodCIDR")]
    pod_cidr: String,
    labels: String,
    taints: String,
    mounts: String,
    ports: String,
}

/// From the state and the machines alone: it answers also while the API does not.
pub(crate) fn run(cx: &Cx, args: &NodeListArgs) -> Result<(), Failure> {
    let cluster = cx.cluster()?;
    let machines = cx.wait(cx.engine().machines(&cx.name))?;
    let is_on = |name: &_| machines.get(name).is_some_and(|machine| machine.state().power == Power::On);
    let rows: Vec<Row> = cluster
        .nodes()
        .map(|node| Row {
            role: match node.spec.role {
                Role::ControlPlane => "control-plane",
                Role::Worker => "worker",
            },
            status: if is_on(&node.spec.name) { "Running" } else { "Stopped" },
            ip: node.address.to_string(),
            version: version(cx, &cluster, &node.spec),
            cpus: node.spec.cpus.to_string(),
            memory: node.spec.memory.to_string(),
            pod_cidr: node.pod_range.to_string(),
            labels: node.spec.labels.to_string(),
            taints: listed(&node.spec.taints),
            mounts: listed(&node.spec.mounts),
            ports: listed(&node.spec.ports),
            name: node.spec.name.to_string(),
        })
        .collect();
    match (&args.format, args.output) {
        (Some(template), _) => {
            for row in &rows {
                cx.screen.line(&fill_in(template, row)?);
            }
        }
        (None, NodeListOutput::Json) => cx.screen.json(&rows),
        (None, NodeListOutput::Text) => {
            let lines =
                rows.into_iter().map(|row| vec![row.name, row.ip, row.role.into(), row.status.into()]);
            cx.screen.line(&table(&["NAME", "IP", "ROLE", "STATUS"], lines));
        }
        (None, NodeListOutput::Wide) => {
            let heading = [
                "NAME", "IP", "ROLE", "STATUS", "VERSION", "CPUS", "MEMORY", "PODS", "LABELS", "TAINTS",
                "PORTS",
            ];
            let lines = rows.into_iter().map(|row| {
                vec![
                    row.name,
                    row.ip,
                    row.role.into(),
                    row.status.into(),
                    row.version,
                    row.cpus,
                    row.memory,
                    row.pod_cidr,
                    row.labels,
                    row.taints,
                    row.ports,
                ]
            });
            cx.screen.line(&table(&heading, lines));
        }
    }
    Ok(())
}

/// The version of a node's kubelet; of one with a bundle of its own, that of the bundle.
fn version(cx: &Cx, cluster: &Cluster, node: &NodeSpec) -> String {
    let shelf = node.bundle.is_some().then(|| Shelf::open(cx.settings().home.clone(), cx.cancel.clone()));
    let bundle = shelf.and_then(|shelf| shelf.ok()?.find(cluster.handed_out.bundle_of(&node.name)).ok());
    bundle.map_or_else(|| cluster.spec.version_of(node).to_string(), |bundle| bundle.manifest.kubernetes)
}

fn listed(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
