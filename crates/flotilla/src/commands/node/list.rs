//! `flotilla node list`

use flotilla_bundle::BundleStore;
use flotilla_core::Cluster;
use flotilla_core::{Machine, Power};
use flotilla_ops::OpError;
use flotilla_spec::quantity::MIB;
use flotilla_spec::{HostSize, Memory, NodeSpec, Role, WantedPower};
use serde::Serialize;

use crate::args::{NodeListArgs, NodeListOutput};
use crate::cluster::{Cx, this_host};
use crate::screen::{fill_in, table};

/// A node, with the names that templates use.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Row {
    name: String,
    role: &'static str,
    status: &'static str,
    /// What it should be: another status than that is a node that ended by itself, or whose host did.
    wanted: &'static str,
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
    /// The node's PID 1, as the host numbers it: the node ends with it.
    #[serde(rename = "PID")]
    pid: Option<u32>,
}

/// From the state and the machines alone: it answers also while the API does not.
pub(crate) fn run(cx: &Cx, args: &NodeListArgs) -> Result<(), OpError> {
    let cluster = cx.cluster()?;
    let machines = cx.wait(cx.engine().machines(&cx.name))?;
    let host = this_host();
    let rows: Vec<Row> = cluster
        .nodes()
        .map(|node| Row {
            role: match node.spec.role {
                Role::ControlPlane => "control-plane",
                Role::Worker => "worker",
            },
            status: status(cx, machines.get(&node.spec.name).map(AsRef::as_ref)),
            wanted: match node.spec.power {
                WantedPower::Running => "Running",
                WantedPower::Stopped => "Stopped",
            },
            ip: node.address.to_string(),
            version: version(cx, &cluster, &node.spec),
            cpus: node.spec.cpus.count_on(&host).unwrap_or(host.cpus).to_string(),
            memory: memory(&node.spec, &host),
            pod_cidr: node.pod_range.to_string(),
            labels: node.spec.labels.to_string(),
            taints: listed(&node.spec.taints),
            mounts: listed(&node.spec.mounts),
            ports: listed(&node.spec.ports),
            pid: machines.get(&node.spec.name).and_then(|machine| machine.pid()),
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
            cx.screen.line(&table(&HEADING, rows.into_iter().map(Row::cells)));
        }
        (None, NodeListOutput::Wide) => {
            let heading: Vec<_> = HEADING.into_iter().chain(["PODS", "LABELS", "TAINTS", "PORTS"]).collect();
            let lines = rows.into_iter().map(|row| {
                let more = [&row.pod_cidr, &row.labels, &row.taints, &row.ports].map(Clone::clone);
                row.cells().into_iter().chain(more).collect()
            });
            cx.screen.line(&table(&heading, lines));
        }
    }
    Ok(())
}

/// Name and address first, as minikube lists them.
const HEADING: [&str; 7] = ["NAME", "IP", "ROLE", "STATUS", "VERSION", "CPUS", "MEMORY"];

impl Row {
    fn cells(self) -> Vec<String> {
        let ended = self.status == "Stopped" && self.wanted == "Running";
        let status = if ended { "Stopped (should run)" } else { self.status };
        vec![self.name, self.ip, self.role.into(), status.into(), self.version, self.cpus, self.memory]
    }
}

/// In `status`' words.
fn status(cx: &Cx, machine: Option<&dyn Machine>) -> &'static str {
    match machine.filter(|machine| machine.state().power == Power::On) {
        Some(machine) if cx.wait(cx.engine().bootstrapper.is_paused(machine)) => "Paused",
        Some(_) => "Running",
        None => "Stopped",
    }
}

/// What it can have: all of the host's where it has no limit. The host's is no whole number of anything but Ki.
fn memory(node: &NodeSpec, host: &HostSize) -> String {
    let bytes = node.memory.bytes_on(host).unwrap_or(host.memory);
    Memory::Bytes(bytes - bytes % MIB).to_string()
}

/// The version of a node's kubelet; of one with a bundle of its own, that of the bundle.
fn version(cx: &Cx, cluster: &Cluster, node: &NodeSpec) -> String {
    let bundle_store =
        node.bundle.is_some().then(|| BundleStore::open(cx.settings().home.clone(), cx.cancel.clone()));
    let bundle = bundle_store
        .and_then(|bundle_store| bundle_store.ok()?.find(cluster.allocations.bundle_of(&node.name)).ok());
    bundle.map_or_else(|| cluster.spec.version_of(node).to_string(), |bundle| bundle.manifest.kubernetes)
}

fn listed(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
